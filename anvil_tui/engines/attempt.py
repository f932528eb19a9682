"""One attempt to start an engine, read record by record into a start-up report."""

from __future__ import annotations

from typing import NamedTuple

from msgspec import structs

from anvil_tui.engines.checks import identities
from anvil_tui.engines.dialects.shapes import NOBODY, UNKNOWN, Dialect, Line, Record, Shape, Speaker, safe
from anvil_tui.engines.post_mortem import PostMortem
from anvil_tui.records.startup_report import Failure, Figure, Phase, Source, StartupReport, State, Unread, Word

GIB = 1 << 30
KEPT_UNREAD = 50
KEPT_KEYS = 512
"""Ranks, devices or processes that are kept apart; a log that names more of them is no start-up log."""
JOINED_LIMIT = 8192
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


class _Held(NamedTuple):
    """The beginning of a line that a terminal may have wrapped, and what was joined to it so far."""

    record: Record
    line: Line
    lines: int


class Attempt:
    """Accumulates one attempt. Memory is bounded by the names that the dialect knows and by KEPT_KEYS."""

    def __init__(self, dialect: Dialect, number: int) -> None:
        self.dialect = dialect
        self.number = number
        self._begins = [shape for shape in dialect.shapes if shape.means == "begin"]
        self._early = [shape for shape in dialect.shapes if shape.means == "early"]
        self._said_early: set[str] = set()
        self._phases: dict[str, Phase] = {}
        self._last_phase: str | None = None
        self._last_word = Source(line=0, offset=0, text="")
        self._ready = self._ended = self._superseded = False
        self._figures: dict[str, dict[str, _Ranked]] = {}
        self._of_trial: set[str] = set()
        self._facts: dict[str, Word] = {}
        self._speakers: dict[str, Speaker] = {}
        self._engines: set[str] = set()
        self._workers: set[str] = set()
        self._named = False
        self._post_mortem = PostMortem(dialect)
        self._unread: list[Unread] = []
        self._unread_count = 0
        self._held: _Held | None = None
        self._complete = False

    # --- reading ---

    @property
    def waits_for_more(self) -> bool:
        """Whether the next line may be the rest of a wrapped one."""
        return self._held is not None

    def opens(self, record: Record) -> bool:
        """Whether the record is the first line of another attempt: it begins one although this one had got further, or
        a process that began this one begins again, although this one was ready or had failed."""
        progressed = bool(self._phases.keys() - {"args"}) or self._over
        if progressed and any(shape.read(record.message) is not None for shape in self._begins):
            return True
        return (
            self._over
            and self._speaker_of(record).label in self._said_early
            and any(shape.read(record.message) is not None for shape in self._early)
        )

    @property
    def _over(self) -> bool:
        return self._ready or self._post_mortem.anything

    def take(self, record: Record, line: Line) -> None:
        """Read one record."""
        record = self._attributed(record)
        if self._known(record, line):
            self._let_go()
        elif self._held is not None and self._continues(self._held, record):
            self._join(self._held, record, line)
        else:
            self._let_go()
            self._unknown(record, line)

    def finish(self) -> None:
        """Nothing follows: what was held back for a wrapped line is judged as it stands."""
        self._let_go()
        self._complete = True

    def supersede(self) -> None:
        """Another attempt begins: this one is over."""
        self.finish()
        self._superseded = True

    def exited(self, code: int | None, asked: bool) -> None:
        """The process is gone. An exit that nobody asked for is a failure, whatever its code."""
        self._post_mortem.exited(code, asked)

    def _speaker_of(self, record: Record) -> Speaker:
        if record.speaker is not NOBODY:
            return record.speaker
        return self.dialect.unnamed_among if self._named else self.dialect.unnamed

    def _attributed(self, record: Record) -> Record:
        """The record with a speaker, who is noted."""
        speaker = self._speaker_of(record)
        if speaker is not record.speaker:
            return Record(record.message, record.level, record.at, speaker)
        known = self._speakers.get(speaker.pid)
        if speaker.pid and (known is None or not known.ranked) and len(self._speakers) < KEPT_KEYS:
            self._speakers[speaker.pid] = speaker
        if speaker.role == "engine" and len(self._engines) < KEPT_KEYS:
            self._engines.add(speaker.label)
        if speaker.role == "worker" and len(self._workers) < KEPT_KEYS:
            self._workers.add(speaker.pid or speaker.label)
        self._named = self._named or (speaker is not UNKNOWN and not speaker.label.startswith("pid"))
        return record

    def _known(self, record: Record, line: Line) -> bool:
        """Read a record that a row knows."""
        for shape in self.dialect.shapes:
            if (groups := shape.read(record.message)) is not None:
                self._read(shape, groups, record, line)
                return True
        return self._post_mortem.read(record, line)

    def _unknown(self, record: Record, line: Line) -> None:
        """Hold back what looks like the beginning of a long row; judge everything else."""
        if self._post_mortem.unfinished(record) or any(
            shape.wrapped and record.message.startswith(shape.opening) for shape in self.dialect.shapes
        ):
            self._held = _Held(record, line, 1)
        else:
            self._judge(record, line)

    def _judge(self, record: Record, line: Line) -> None:
        """An exception, or a line that may have figures and no row."""
        if not self._post_mortem.throw(record, line, serving=self._ready):
            self._count_unread(record, line)

    def _continues(self, held: _Held, record: Record) -> bool:
        return not record.level and held.lines < WRAPPED_LINES and not self.dialect.exception.match(record.message)

    def _join(self, held: _Held, record: Record, line: Line) -> None:
        """Put a line behind the one that is held, and see whether both together are known."""
        message = (held.record.message + record.message)[:JOINED_LIMIT]
        joined = Record(message, held.record.level, held.record.at, held.record.speaker)
        whole = Line(held.line.number, held.line.offset, held.line.raw + line.raw)
        known = self._known(joined, whole)
        self._held = None if known else _Held(joined, whole, held.lines + 1)

    def _let_go(self) -> None:
        """Give up waiting for the rest of a line."""
        held, self._held = self._held, None
        if held is not None and not self._post_mortem.cut_short(held.record, held.line):
            self._judge(held.record, held.line)

    def _count_unread(self, record: Record, line: Line) -> None:
        message = record.message
        if (record.level or self.dialect.bare) and not message[:1].isspace() and self.dialect.measures.search(message):
            self._unread_count += 1
            if len(self._unread) < KEPT_UNREAD:
                self._unread.append(Unread(source=line.source()))

    def _read(self, shape: Shape, groups: dict[str, str | None], record: Record, line: Line) -> None:
        """Keep what a matching shape says."""
        device = groups.pop("device", None)
        if shape.trial:
            self._figures = {name: kept for name, kept in self._figures.items() if name in self._of_trial}
            self._of_trial |= groups.keys()
        if not (groups or shape.phase or shape.means or shape.counts):
            return
        source, seconds = line.source(), None
        for name, text in groups.items():
            if text is None:
                continue
            if name in shape.words:
                self._keep_fact(name, text, shape, source)
            else:
                name, _, part = name.removesuffix("_2").partition("__")
                name, value = _in_unit_of_report(name, _number(text))
                figure = Figure(value=value, source=source, shape=shape.name)
                key = self._key(name, part, device, record.speaker)
                self._keep(name, key, figure, shape, anyones=record.speaker is UNKNOWN)
                seconds = float(figure.value) if name.endswith("seconds") else seconds
        if shape.phase:
            self._reach(shape.phase, record, source, seconds)
        if shape.means == "early" and not self._over and len(self._said_early) < KEPT_KEYS:
            self._said_early.add(record.speaker.label)
        elif shape.means == "ready":
            self._ready = True
            self._post_mortem.became_ready()
        elif shape.means == "stopping":
            self._post_mortem.told_to_stop()
        elif shape.means == "ended":
            self._ended = True
        if shape.counts:
            said = self._facts.get(shape.counts)
            times = 1 + (int(said.value) if said else 0)
            self._facts[shape.counts] = Word(value=str(times), source=source, shape=shape.name)

    def _reach(self, phase: str, record: Record, source: Source, seconds: float | None) -> None:
        self._last_phase, self._last_word = phase, source
        known = self._phases.get(phase)
        if known is None:
            self._phases[phase] = Phase(name=phase, source=source, at=record.at, seconds=seconds)
        elif seconds is not None and (known.seconds is None or seconds > known.seconds):
            self._phases[phase] = Phase(name=phase, source=known.source, at=known.at, seconds=seconds)

    def _keep_fact(self, name: str, text: str, shape: Shape, source: Source) -> None:
        if name in self._facts and shape.strength == 0:
            return
        self._facts[name] = Word(value=safe(text), source=source, shape=shape.name)

    def _key(self, name: str, part: str, device: str | None, speaker: Speaker) -> str:
        """Under what a figure is kept: a name within a group, a device, a process, an engine core, or nothing."""
        if part or device:
            return part or device or ""
        if name in RANKED or name == "compile_seconds" or name.endswith(("_gib", "_mib")):
            return speaker.label if speaker.ranked else speaker.pid
        if name in OF_ENGINE:
            if speaker.role == "engine":
                return speaker.label
            first, *others = speaker.label.split()
            return first if others and first.startswith("DP") else ""
        return ""

    def _keep(self, name: str, key: str, figure: Figure, shape: Shape, *, anyones: bool) -> None:
        kept, strength = self._figures.setdefault(name, {}), shape.strength
        known = kept.get(key)
        if known is None:
            if len(kept) < KEPT_KEYS:
                kept[key] = _Ranked(strength, figure)
        elif shape.adds and strength == known.strength and name not in NEVER_ADDED:
            total = round(known.figure.value + figure.value, 6)
            also = known.figure.also
            if figure.source not in (known.figure.source, *also) and len(also) < KEPT_UNREAD:
                also = (*also, figure.source)
            summed = Figure(value=total, source=known.figure.source, shape=figure.shape, also=also)
            kept[key] = _Ranked(strength, summed)
        elif anyones and name in RANKED:
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

    # --- the report ---

    def report(self, lines: int, size: int) -> StartupReport:
        """What the attempt says so far; `lines` and `size` count what was read of it."""
        names = self._names()
        ranked = {name: self._ranked(name, names) for name in RANKED}
        buffers = self._ranked("kv_buffer_mib", names).items()
        ranked["kv_pool_gib"] = ranked["kv_pool_gib"] or {device: _in_gib(figure) for device, figure in buffers}
        failure = self._failure()
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
            groups=self._groups(names),
            facts={name: word for name, word in self._facts.items() if name != "engine_version"},
            phases=tuple(self._phases.values()),
            last_phase=self._last_phase,
            failure=failure,
            unread=tuple(self._unread),
            unread_count=self._unread_count,
            lines=lines,
            bytes=size,
        )
        return identities(structs.replace(report, **ranked))

    def _failure(self) -> Failure | None:
        return self._post_mortem.failure(
            superseded=self._superseded and not self._ended,
            last_word=self._last_word,
            complete=self._complete,
            phase=self._last_phase,
            ready=self._ready,
        )

    def _state(self, failure: Failure | None) -> State:
        if failure is None:
            return "ready" if self._ready else "loading"
        never_listened = failure.kind == "port_in_use"
        return "died_after_ready" if self._ready and not never_listened else "failed"

    def _names(self) -> dict[str, str]:
        """How a process without a rank is named in the report: its rank if it got one, its name if it is the only one
        of that name, else its pid."""
        labels = [speaker.label for speaker in self._speakers.values()]
        return {
            pid: speaker.label if speaker.ranked or labels.count(speaker.label) == 1 else f"pid{pid}"
            for pid, speaker in self._speakers.items()
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
        return 1 if alone and self._ready and failure and failure.kind in ("engine_dead", "exited") else None


def _nameless(label: str) -> bool:
    return label in ("driver", "") or label.startswith(("pid", "?"))


def _in_gib(figure: Figure) -> Figure:
    return structs.replace(figure, value=figure.value / 1024)


def _in_unit_of_report(name: str, value: float | int) -> tuple[str, float | int]:
    """Bytes of a figure that the report keeps in GiB."""
    field = f"{name.removesuffix('_bytes')}_gib"
    return (field, value / GIB) if name.endswith("_bytes") and field in RANKED else (name, value)


def _number(text: str) -> float | int:
    text = text.replace(",", "")
    return float(text) if "." in text else int(text)
