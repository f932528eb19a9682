"""One attempt to start an engine, read record by record into a start-up report."""

from __future__ import annotations

from typing import NamedTuple

from anvil_tui.engines.checks import identities
from anvil_tui.engines.dialects.shapes import NOBODY, UNKNOWN, Cause, Dialect, Echo, Record, Shape, Speaker
from anvil_tui.records.startup_report import Failure, Figure, Phase, Source, StartupReport, State, Unread, Word

KEPT_UNREAD = 50
KEPT_KEYS = 512
"""Ranks, devices or processes that are kept apart; a log that names more of them is no start-up log."""
KEPT_TEXT = 500
WRAPPED_LINES = 8
"""How many lines a terminal may have made of one."""

RANKED = (
    "kv_available_gib",
    "kv_in_use_gib",
    "kv_pool_gib",
    "weights_gib",
    "consumed_gib",
    "peak_activation_gib",
    "non_torch_gib",
    "cuda_graph_gib",
    "cuda_graph_estimated_gib",
    "desired_gib",
    "device_total_gib",
    "weights_load_seconds",
    "model_load_seconds",
)
"""Fields of the report that are keyed by rank."""
OF_ENGINE = ("kv_tokens", "max_concurrency", "engine_init_seconds")
"""Fields that each engine core states for itself."""
OWN_FIELDS = frozenset({*RANKED, *OF_ENGINE, "max_model_len", "compile_seconds"})
MEMORY = tuple(field for field in RANKED if field.endswith("_gib") and field != "kv_pool_gib")
FIRST = frozenset(
    {
        "weights_gib",
        "weights_load_seconds",
        "model_load_seconds",
        "load_begin_avail_gib",
        "load_end_avail_gib",
        "n_ctx",
        "projected_mib",
        "free_mib",
    }
)
"""The first figure stands: a second one is the draft model's, and is kept as `second_…`."""


NEVER_ADDED = frozenset({"kv_tokens", "graph_end_avail_gib"})
"""Levels, not amounts: a further line replaces them even where the line's other figures add up."""


class _Ranked(NamedTuple):
    strength: int
    figure: Figure


class _Wrapped(NamedTuple):
    row: Shape | Cause
    record: Record
    source: Source
    lines: int


class Attempt:
    """Accumulates one attempt. Memory is bounded by the names that the dialect knows and by KEPT_KEYS."""

    def __init__(self, dialect: Dialect, number: int) -> None:
        self.dialect = dialect
        self.number = number
        self.phases: dict[str, Phase] = {}
        self.last_phase: str | None = None
        self.ready: Source | None = None
        self.ended: Source | None = None
        self.superseded = False
        self._figures: dict[str, dict[str, _Ranked]] = {}
        self._of_trial: set[str] = set()
        self._facts: dict[str, Word] = {}
        self._labels: dict[str, str] = {}
        self._engines: set[str] = set()
        self._workers: set[str] = set()
        self._named = False
        self._cause: tuple[int, Failure] | None = None
        self._echo: tuple[int, Failure] | None = None
        self._thrown: dict[str, Failure] = {}
        self._announced = False
        self._unread: list[Unread] = []
        self._unread_count = 0
        self._wrapped: _Wrapped | None = None
        self._exit: tuple[int | None, bool] | None = None
        self._complete = False

    # --- reading ---

    @property
    def waits_for_more(self) -> bool:
        """Whether the next line may be the rest of a wrapped one."""
        return self._wrapped is not None

    @property
    def progressed(self) -> bool:
        """Whether anything happened that a second beginning cannot follow within one attempt."""
        return bool(self.phases.keys() - {"args"} or self._cause or self._echo or self._thrown or self.ready)

    def opens(self, record: Record) -> bool:
        """Whether the record is the first line of another attempt."""
        return self.progressed and any(
            shape.means == "begin" and shape.read(record.message) is not None for shape in self.dialect.shapes
        )

    def take(self, record: Record, source: Source) -> bool:
        """Read one record. True where a row of the dialect knew it."""
        record = self._attributed(record)
        if self._wrapped is not None and self._joined(record):
            return True
        for shape in self.dialect.shapes:
            if (groups := shape.read(record.message)) is not None:
                self._read(shape, groups, record, source)
                return True
        return self._failed(record, source) or self._left_unread(record, source)

    def _attributed(self, record: Record) -> Record:
        speaker = record.speaker
        if speaker is NOBODY:
            return Record(record.message, record.level, record.at, self.dialect.unnamed(self._named))
        if speaker.pid and len(self._labels) < KEPT_KEYS:
            self._labels[speaker.pid] = speaker.label
        if speaker.role == "engine" and len(self._engines) < KEPT_KEYS:
            self._engines.add(speaker.label)
        if speaker.role == "worker" and len(self._workers) < KEPT_KEYS:
            self._workers.add(speaker.pid or speaker.label)
        self._named = self._named or (speaker is not UNKNOWN and not speaker.label.startswith("pid"))
        return record

    def _joined(self, record: Record) -> bool:
        """Try to complete a wrapped line with this one."""
        held = self._wrapped
        assert held is not None
        if record.level or held.lines >= WRAPPED_LINES:
            self._let_go()
            return False
        text = held.record.message + record.message
        joined = Record(text[:8192], held.record.level, held.record.at, held.record.speaker)
        whole = Source(line=held.source.line, offset=held.source.offset, text=text[:1024])
        if match := held.row.pattern.search(text):
            self._wrapped = None
            if isinstance(held.row, Shape):
                self._read(held.row, match.groupdict(), joined, whole)
            else:
                self._blame(held.row, match.groupdict(), joined, whole)
        else:
            self._wrapped = _Wrapped(held.row, joined, whole, held.lines + 1)
        return True

    def _let_go(self) -> None:
        held, self._wrapped = self._wrapped, None
        if held is not None:
            self._left_unread(held.record, held.source)

    def _read(self, shape: Shape, groups: dict[str, str | None], record: Record, source: Source) -> None:
        """Keep what a matching shape says."""
        device = groups.pop("device", None)
        if shape.trial:
            self._figures = {name: kept for name, kept in self._figures.items() if name in self._of_trial}
            self._of_trial |= groups.keys()
        seconds = None
        for name, text in groups.items():
            if text is None:
                continue
            if name in shape.words:
                self._keep_fact(name, text, shape, source)
            else:
                name, _, part = name.removesuffix("_2").partition("__")
                value = _number(text)
                figure = Figure(value=value, source=source, shape=shape.name)
                self._keep(name, self._key(name, part, device, record.speaker), figure, shape)
                seconds = float(value) if name.endswith("seconds") else seconds
        if shape.phase:
            self._reach(shape.phase, record, source, seconds)
        if shape.means == "ready":
            self.ready = self.ready or source
            if self.dialect.survives:
                self._cause = self._echo = None
        elif shape.means == "ended":
            self.ended = source
        if shape.counts:
            said = self._facts.get(shape.counts)
            times = 1 + (int(said.value) if said else 0)
            self._facts[shape.counts] = Word(value=str(times), source=source, shape=shape.name)

    def _reach(self, phase: str, record: Record, source: Source, seconds: float | None) -> None:
        self.last_phase = phase
        known = self.phases.get(phase)
        if known is None:
            self.phases[phase] = Phase(name=phase, source=source, at=record.at, seconds=seconds)
        elif seconds is not None and (known.seconds is None or seconds > known.seconds):
            self.phases[phase] = Phase(name=phase, source=known.source, at=known.at, seconds=seconds)

    def _keep_fact(self, name: str, text: str, shape: Shape, source: Source) -> None:
        if name in self._facts and shape.strength == 0:
            return
        self._facts[name] = Word(value=text.strip()[:KEPT_TEXT], source=source, shape=shape.name)

    def _key(self, name: str, part: str, device: str | None, speaker: Speaker) -> str:
        """Under what a figure is kept: a name within a group, a device, a process, an engine core, or nothing."""
        if part or device:
            return part or device or ""
        if name in RANKED or name == "compile_seconds" or name.endswith(("_gib", "_mib")):
            return speaker.pid or speaker.label
        if name in OF_ENGINE:
            if speaker.role == "engine":
                return speaker.label
            first, *others = speaker.label.split()
            return first if others and first.startswith("DP") else ""
        return ""

    def _keep(self, name: str, key: str, figure: Figure, shape: Shape) -> None:
        kept, strength = self._figures.setdefault(name, {}), shape.strength
        known = kept.get(key)
        if known is None:
            if len(kept) < KEPT_KEYS:
                kept[key] = _Ranked(strength, figure)
        elif shape.adds and strength == known.strength and name not in NEVER_ADDED:
            total = round(known.figure.value + figure.value, 6)
            also = known.figure.also
            if figure.source != known.figure.source and len(also) < KEPT_UNREAD:
                also = (*also, figure.source)
            summed = Figure(value=total, source=known.figure.source, shape=figure.shape, also=also)
            kept[key] = _Ranked(strength, summed)
        elif key == UNKNOWN.label and name in RANKED:
            self._keep_beside(kept, figure, strength)
        elif strength > known.strength or (strength == known.strength and name not in FIRST):
            kept[key] = _Ranked(strength, figure)
        elif name in FIRST and strength == known.strength:
            self._figures.setdefault(f"second_{name}", {}).setdefault(key, _Ranked(strength, figure))

    def _keep_beside(self, kept: dict[str, _Ranked], figure: Figure, strength: int) -> None:
        """Several ranks, none of them named: keep each value that differs, under `?`, `?2`, `?3` …"""
        unnamed = [one for key, one in kept.items() if key.startswith("?")]
        if all(one.figure.value != figure.value for one in unnamed) and len(kept) < KEPT_KEYS:
            kept[f"?{len(unnamed) + 1}"] = _Ranked(strength, figure)

    # --- failure ---

    def _failed(self, record: Record, source: Source) -> bool:
        message = record.message
        said_badly = record.level not in ("INFO", "DEBUG", "WARNING")
        for cause in self.dialect.causes:
            if not said_badly and cause.level == "error":
                continue
            if cause.opening in message:
                if match := cause.pattern.search(message):
                    self._blame(cause, match.groupdict(), record, source)
                    return True
                self._wrapped = self._wrapped or _Wrapped(cause, record, source, 1)
        if not said_badly:
            return self._opened_wrapped(record, source)
        for echo in self.dialect.echoes:
            if echo.literal in message and (match := echo.pattern.search(message)):
                self._repeat(echo, match.groupdict(), record, source)
                return True
        self._throw(record, source)
        return False

    def _opened_wrapped(self, record: Record, source: Source) -> bool:
        for shape in self.dialect.shapes:
            if shape.wrapped and record.message.startswith(shape.opening):
                self._wrapped = _Wrapped(shape, record, source, 1)
                return True
        return False

    def _blame(self, cause: Cause, groups: dict[str, str | None], record: Record, source: Source) -> None:
        """The first of the deepest causes is the root."""
        if self._cause is None or cause.depth > self._cause[0]:
            failure = Failure(
                kind=cause.kind,
                message=record.message.strip()[:KEPT_TEXT],
                source=source,
                figures={name: _figure(text) for name, text in groups.items() if text is not None},
            )
            self._cause = (cause.depth, failure)

    def _repeat(self, echo: Echo, groups: dict[str, str | None], record: Record, source: Source) -> None:
        self._announced = self._announced or echo.announces
        if self._echo is None or echo.depth > self._echo[0]:
            figures = {name: _figure(text) for name, text in groups.items() if text is not None}
            message = str(figures.pop("message", record.message.strip()))[:KEPT_TEXT]
            failure = Failure(kind=echo.kind, message=message, source=source, figures=figures)
            self._echo = (echo.depth, failure)

    def _throw(self, record: Record, source: Source) -> None:
        """Remember an exception that no row knows: the last one of the deepest process is the cause of what follows."""
        message = record.message
        if not message[:1].isalpha() or not self.dialect.is_exception(message):
            return
        role = record.speaker.role
        if self._announced:
            role, self._announced = "engine" if role in ("other", "api") else role, False
        elif role not in ("worker", "engine") and (self.ready or self._echo):
            return  # A request's own error while the server goes on, or the parent's, whose child died.
        self._thrown[role] = Failure(kind="exception", message=message.strip()[:KEPT_TEXT], source=source)

    def _left_unread(self, record: Record, source: Source) -> bool:
        if (record.level or self.dialect.bare) and self.dialect.measures.search(record.message) and not record.message[:1].isspace():
            self._unread_count += 1
            if len(self._unread) < KEPT_UNREAD:
                self._unread.append(Unread(source=source))
        return False

    # --- the end ---

    def finish(self) -> None:
        """Nothing follows: what was held back for a wrapped line is judged as it stands."""
        self._let_go()
        self._complete = True

    def exited(self, code: int | None, asked: bool) -> None:
        """The process is gone. An exit that nobody asked for is a failure, whatever its code."""
        self._exit = (code, asked)

    # --- the report ---

    def report(self, lines: int, size: int) -> StartupReport:
        """What the attempt says so far; `lines` and `size` count what was read of it."""
        names = self._names()
        ranked = {name: self._ranked(name, names) for name in RANKED}
        failure = self._failure()
        groups = self._groups(names)
        report = StartupReport(
            engine=self.dialect.engine,
            engine_version=self._facts.get("engine_version"),
            state=self._state(failure),
            attempt=self.number,
            ranks=self._rank_count(ranked, failure),
            max_model_len=self._agreed("max_model_len"),
            kv_tokens=self._agreed("kv_tokens"),
            max_concurrency=self._agreed("max_concurrency"),
            engine_init_seconds=self._agreed("engine_init_seconds"),
            compile_seconds=self._compile_seconds(),
            figures={name: figure for name in self._plain() if (figure := self._agreed(name))},
            groups=groups,
            facts={name: word for name, word in self._facts.items() if name != "engine_version"},
            phases=tuple(self.phases.values()),
            last_phase=self.last_phase,
            failure=failure,
            unread=tuple(self._unread),
            unread_count=self._unread_count,
            lines=lines,
            bytes=size,
            **ranked,
        )
        return identities(report)

    def _names(self) -> dict[str, str]:
        """How each process is named in the report: its last known rank; its pid where two share a name."""
        by_label: dict[str, list[str]] = {}
        for pid, label in self._labels.items():
            by_label.setdefault(label, []).append(pid)
        return {
            pid: label if len(pids) == 1 else f"pid{pid}" if label == "Worker" else f"{label}/pid{pid}"
            for label, pids in by_label.items()
            for pid in pids
        }

    def _ranked(self, name: str, names: dict[str, str]) -> dict[str, Figure]:
        return {names.get(key, key): one.figure for key, one in self._figures.get(name, {}).items()}

    def _agreed(self, name: str) -> Figure | None:
        """The one figure of this name, or None where several engine cores disagree."""
        kept = [one.figure for one in self._figures.get(name, {}).values()]
        return kept[0] if kept and all(figure.value == kept[0].value for figure in kept) else None

    def _plain(self) -> list[str]:
        return [name for name, kept in self._figures.items() if name not in OWN_FIELDS and set(kept) == {""}]

    def _groups(self, names: dict[str, str]) -> dict[str, dict[str, Figure]]:
        several = {name for name in OF_ENGINE if len(self._figures.get(name, {})) > 1}
        known = OWN_FIELDS - several
        return {
            name: self._ranked(name, names)
            for name, kept in self._figures.items()
            if name not in known and set(kept) != {""}
        }

    def _compile_seconds(self) -> Figure | None:
        """The engine's own total, else the slowest rank's sum."""
        kept = self._figures.get("compile_seconds", {}).values()
        return max(kept, key=lambda one: (one.strength, one.figure.value)).figure if kept else None

    def _rank_count(self, ranked: dict[str, dict[str, Figure]], failure: Failure | None) -> int | None:
        """The world size where the log states it, else how many named ranks reported memory of their own."""
        if world := self._agreed("world_size"):
            return int(world.value)
        named = {label for field in MEMORY for label in ranked[field] if not _nameless(label)}
        if named:
            return len(named)
        # An engine core that served and died without a worker ever speaking held the only rank itself.
        alone = len(self._engines) == 1 and not self._workers
        return 1 if alone and self.ready and failure and failure.kind in ("engine_dead", "exited") else None

    def _failure(self) -> Failure | None:
        if self._cause is not None:
            return self._cause[1]
        roles = ("worker", "engine", "other", "api")
        thrown = next((self._thrown[role] for role in roles if role in self._thrown), None)
        if self._echo is not None:
            return thrown or self._echo[1]
        code, asked = self._exit or (None, True)
        gone = self.superseded or not asked
        if thrown is not None and (gone or self._uncaught(thrown)):
            return thrown
        if gone and not (self.superseded and self.ended):
            phase = f"during {self.last_phase}" if self.last_phase else "before it said anything"
            words = "after it was ready" if self.ready else phase
            figures: dict[str, float | int | str] = {} if code is None else {"exit_code": code}
            how = "the log ends" if code is None else f"exit code {code}"
            last = self.ended or self.ready or self._last_source()
            return Failure(kind="exited", message=f"ended {words}, {how}", source=last, figures=figures)
        return None

    def _uncaught(self, thrown: Failure) -> bool:
        """Whether a finished log ends in this exception: nothing of the start came after it."""
        later = max((phase.source.offset for phase in self.phases.values()), default=-1)
        return self._complete and self.ready is None and thrown.source.offset > later

    def _last_source(self) -> Source:
        known = [phase.source for phase in self.phases.values()]
        return max(known, key=lambda source: source.offset, default=Source(line=0, offset=0, text=""))

    def _state(self, failure: Failure | None) -> State:
        if failure is None:
            return "ready" if self.ready else "loading"
        never_listened = failure.kind == "port_in_use"
        return "died_after_ready" if self.ready and not never_listened else "failed"


def _nameless(label: str) -> bool:
    return label in ("driver", "") or label.startswith(("pid", "?"))


def _number(text: str) -> float | int:
    text = text.replace(",", "")
    return float(text) if "." in text else int(text)


def _figure(text: str) -> float | int | str:
    """A number where the text is one, else the text itself."""
    try:
        return _number(text)
    except ValueError:
        return text.strip()[:KEPT_TEXT]
