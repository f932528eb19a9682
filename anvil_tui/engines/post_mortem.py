"""Why an attempt failed: the root cause among causes, echoes, exceptions and the exit."""

from __future__ import annotations

from anvil_tui.engines.dialects.shapes import Cause, Dialect, Line, Record, safe
from anvil_tui.records.startup_report import Failure, Source

_CALM = ("DEBUG", "INFO", "WARNING")


class PostMortem:
    """Collects what an attempt's log says about its end.

    A cause (`CUDA out of memory`) beats an exception that no row knows, which beats an echo (`EngineCore failed to
    start`), which beats the bare exit. Of several causes the first of the deepest is the root: when one rank dies of
    its cause, the others die of that rank.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._cause: tuple[int, Failure] | None = None
        self._echo: tuple[int, Failure] | None = None
        self._thrown: dict[str, Failure] = {}
        self._announced = False
        self._stopping = False
        self._exit: tuple[int | None, bool] | None = None

    @property
    def anything(self) -> bool:
        """Whether the log spoke of any failure."""
        return bool(self._cause or self._echo or self._thrown)

    def read(self, record: Record, line: Line) -> bool:
        """Read one record. True where a row of the dialect knew it."""
        for cause in self._causes(record):
            if match := cause.pattern.search(record.message):
                self._blame(cause, match.groupdict(), record, line)
                return True
        return record.level not in _CALM and not self._stopping and self._echoed(record, line)

    def unfinished(self, record: Record) -> bool:
        """Whether the record begins like a long cause, whose rest a terminal may have put on the next lines."""
        return any(cause.wrapped and cause.opening in record.message for cause in self._causes(record))

    def cut_short(self, record: Record, line: Line) -> bool:
        """Judge a cause whose rest never came: its kind stands, its figures are unknown."""
        for cause in self._causes(record):
            if cause.wrapped and cause.opening in record.message:
                self._blame(cause, {}, record, line)
                return True
        return False

    def throw(self, record: Record, line: Line, *, serving: bool) -> bool:
        """Remember an exception that no row knows: the last one of the deepest process explains what follows.

        While the server goes on, an exception of its own is a request's; after an echo, it is that of a parent whose
        child died.
        """
        if self._stopping or record.level in _CALM or not self._dialect.exception.match(record.message):
            return False
        role = record.speaker.role
        if self._announced:
            role, self._announced = "engine" if role in ("other", "api") else role, False
        elif role not in ("worker", "engine") and (serving or self._echo):
            return False
        self._thrown[role] = Failure(kind="exception", message=safe(record.message), source=line.source())
        return True

    def became_ready(self) -> None:
        """Whatever was thrown on the way was caught; an engine that retries with less takes its failure back too."""
        self._thrown.clear()
        if self._dialect.survives:
            self._cause = self._echo = None

    def told_to_stop(self) -> None:
        """A signal reached the server: that its parts die now is no failure of theirs."""
        self._stopping = True

    def exited(self, code: int | None, asked: bool) -> None:
        """The process is gone."""
        self._exit = (code, asked)

    def failure(
        self, *, superseded: bool, last_word: Source, complete: bool, phase: str | None, ready: bool
    ) -> Failure | None:
        """The root cause as far as it is known, or None where nothing failed.

        `superseded`: another attempt followed without any end of this one. `last_word` is the last line that told of
        progress: an exception behind it, in a log that is `complete`, was not caught.
        """
        if self._cause is not None:
            return self._cause[1]
        uncaught = {role: thrown for role, thrown in self._thrown.items() if thrown.source.offset > last_word.offset}
        if self._echo is not None:
            # A rank may go on for a while when another has failed already.
            inner = [self._thrown[role] for role in ("worker", "engine") if role in self._thrown]
            return next(iter([*inner, *uncaught.values()]), self._echo[1])
        code, asked = self._exit or (None, True)
        gone = superseded or not asked
        for role in ("worker", "engine", "other", "api"):
            if role in uncaught and (gone or (complete and not ready)):
                return uncaught[role]
        if not gone:
            return None
        when = "after it was ready" if ready else f"during {phase}" if phase else "before it said anything"
        how = "the log just ends" if code is None else f"signal {-code}" if code < 0 else f"exit code {code}"
        figures: dict[str, float | int | str] = {} if code is None else {"exit_code": code}
        return Failure(kind="exited", message=f"ended {when}: {how}", source=last_word, figures=figures)

    def _causes(self, record: Record) -> tuple[Cause, ...]:
        """The causes that the record may name: none in a calm line, which may quote anything."""
        return () if self._stopping or record.level in _CALM else self._dialect.causes

    def _blame(self, cause: Cause, groups: dict[str, str | None], record: Record, line: Line) -> None:
        if self._cause is None or cause.depth > self._cause[0]:
            message = safe(record.message)
            self._cause = (
                cause.depth,
                Failure(kind=cause.kind, message=message, source=line.source(), figures=_figures(groups)),
            )

    def _echoed(self, record: Record, line: Line) -> bool:
        for echo in self._dialect.echoes:
            if echo.literal in record.message and (match := echo.pattern.search(record.message)):
                self._announced = self._announced or echo.announces
                if self._echo is None or echo.depth > self._echo[0]:
                    groups = match.groupdict()
                    message = safe(groups.pop("message", None) or record.message)
                    failure = Failure(kind=echo.kind, message=message, source=line.source(), figures=_figures(groups))
                    self._echo = (echo.depth, failure)
                return True
        return False


def _figures(groups: dict[str, str | None]) -> dict[str, float | int | str]:
    """Numbers where a text is one, else the text itself."""
    found: dict[str, float | int | str] = {}
    for name, text in groups.items():
        if text is not None:
            plain = text.replace(",", "")
            try:
                found[name] = float(plain) if "." in plain else int(plain)
            except ValueError:
                found[name] = safe(text)
    return found
