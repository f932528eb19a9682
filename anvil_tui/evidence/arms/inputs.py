"""The one place of this room that reads files: artifacts, campaign folders, bundles and foreign files become arms."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from anvil_tui.errors import BadInput, Fault
from anvil_tui.evidence.arms.artifacts import gate_outcome, idle_memory, measured_run, run_drafts, run_memory
from anvil_tui.evidence.imports import plausible
from anvil_tui.evidence.imports.formats import reader_of
from anvil_tui.records.arm import Arm, DraftCounters, GateOutcome, LoadStart, MeasuredRun, MemoryWindow, NamedProfile
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.events import KINDS, Envelope, Event, LoadFailed, LoadReady, StartupReported
from anvil_tui.records.lane import LaneProfile
from anvil_tui.records.startup_report import StartupReport
from anvil_tui.records.validation import convert, decode_toml, read_bytes
from anvil_tui.records.vram import SamplerLine, VramSample

RUN, STARTUP = "anvil-run/v1", "anvil-startup-report/v1"
_FOLDER_PARTS = ("runs", "startup", "lanes", "vram")


@dataclass(frozen=True)
class InputFile:
    """A file among the inputs. `label` is its shortest name that no other input has; never a path of this machine."""

    path: Path
    root: Path | None
    """The campaign folder or bundle that it belongs to."""
    label: str = ""

    @property
    def inside(self) -> str:
        """Its path inside its folder, or its name."""
        return self.path.relative_to(self.root).as_posix() if self.root else self.path.name


@dataclass
class _Parts:
    """What the files of one arm held."""

    runs: list[MeasuredRun] = field(default_factory=list)
    gates: list[GateOutcome] = field(default_factory=list)
    starts: list[tuple[str | None, LoadStart]] = field(default_factory=list)
    profiles: list[NamedProfile] = field(default_factory=list)
    memory: list[MemoryWindow] = field(default_factory=list)
    drafts: list[DraftCounters] = field(default_factory=list)
    failures: list[LoadFailed] = field(default_factory=list)
    artifacts: list[tuple[InputFile, RunArtifact]] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)


def read_arms(groups: Sequence[tuple[str, Sequence[Path]]]) -> tuple[Arm, ...]:
    """One arm for each (name, paths). A folder that holds several lanes gives an arm the lane of its own name.

    Raises BadInput for a file that cannot be read, is of no known kind, or belongs to two arms.
    """
    files = [list(list_files(paths)) for _, paths in groups]
    labels = label_files([one for group in files for one in group])
    shared = Counter(one.path for group in files for one in group if one.root is None)
    for path, times in shared.items():
        if times > 1:
            raise BadInput(str(path), Fault("arm", "given for both arms", "each artifact in one arm"))
    named = [[InputFile(one.path, one.root, labels[one.path]) for one in group] for group in files]
    arms = tuple(_arm(name, group) for (name, _), group in zip(groups, named, strict=True))
    _refuse_copies(zip(arms, named, strict=True))
    return arms


def _refuse_copies(arms: Iterable[tuple[Arm, Sequence[InputFile]]]) -> None:
    """A run that is given twice under two names would count as two."""
    seen: dict[str, InputFile] = {}
    for arm, files in arms:
        measured = {run.path for run in arm.runs}
        for one in files:
            if one.label in measured:
                first = seen.setdefault(arm.hashes[one.label], one)
                if first.path != one.path:
                    raise BadInput(str(one.path), Fault("run", f"the same bytes as {first.label}", "each run once"))


def read_campaign_arms(
    folder: Path, arms: Sequence[tuple[str, str, frozenset[str]]], *, samples: bool = True
) -> tuple[Arm, ...]:
    """The arms of one campaign folder by name, lane and load ids: also where both are the same lane, or one never ran.

    Without `samples` the GPU samples are left unread, hundreds of megabytes after some hours; the arms then know the
    memory of their runs and not the idle memory. Raises BadInput.
    """
    files = [one for one in list_files([folder]) if samples or one.path.parent.name != "vram"]
    labels = label_files(files)
    named = [InputFile(one.path, one.root, labels[one.path]) for one in files]
    return tuple(_arm(name, named, lane, loads) for name, lane, loads in arms)


def list_files(paths: Iterable[Path]) -> Iterator[InputFile]:
    """The files to read, folders opened, each once and in the order of their paths. Raises BadInput."""
    seen: set[Path] = set()
    for path in sorted(paths):
        root = path.resolve() if path.is_dir() else None
        inside = sorted(_folder_files(root)) if root else [path.resolve()]
        if root and not inside:
            raise BadInput(str(path), Fault("folder", "holds none of our artifacts", "a campaign folder or a bundle"))
        for one in inside:
            if one not in seen:
                seen.add(one)
                yield InputFile(one, root)


def _folder_files(root: Path) -> Iterator[Path]:
    for part in _FOLDER_PARTS:
        for path in (root / part).glob("*"):
            if path.suffix in (".json", ".jsonl", ".toml") and not path.name.startswith("."):
                yield path
    if (root / "journal.jsonl").is_file():
        yield root / "journal.jsonl"


def label_files(files: Iterable[InputFile]) -> dict[Path, str]:
    """The shortest tail of each path that names one file only."""
    unique = {one.path: one for one in files}
    labels = {path: one.inside for path, one in unique.items()}
    while doubled := {label for label, times in Counter(labels.values()).items() if times > 1}:
        for path, label in labels.items():
            if label in doubled:
                labels[path] = "/".join(path.parts[-(label.count("/") + 2) :])
    return labels


def load_data(path: Path) -> Any:
    """Plain data of a JSON, JSON-lines or gzipped JSON file, the text of a CSV file. Raises BadInput."""
    raw = read_bytes(path)
    if path.suffix == ".csv":
        return raw.decode("utf-8", "replace")
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(str(path), Fault("gzip", str(error), "a whole gzip file")) from None
    try:
        if path.suffix == ".jsonl":
            return [_json(line) for line in raw.split(b"\n") if line.strip()]
        return _json(raw)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise BadInput(str(path), Fault("syntax", str(error), "JSON")) from None


def _json(raw: bytes) -> Any:
    return json.loads(raw, parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_object)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A key that stands twice has two values, and nobody knows which one was meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(key for key, times in Counter(key for key, _ in pairs).items() if times > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


def _refuse(constant: str) -> float:
    """NaN and Infinity are no JSON, and no measurement."""
    raise ValueError(f"{constant} is not a number")


def _arm(name: str, files: Sequence[InputFile], lane: str | None = None, loads: frozenset[str] | None = None) -> Arm:
    """One arm from its files, of this lane where it is known; `loads` limits it to what happened on these loads."""
    parts = _Parts()
    journals: dict[Path, list[Event]] = {}
    samples: dict[Path, list[VramSample]] = {}
    for one in files:
        parts.hashes[one.label] = hashlib.sha256(read_bytes(one.path)).hexdigest()
        if one.root is not None and one.path.name == "journal.jsonl":
            journals[one.root] = list(read_journal(one.path))
        elif one.root is not None and one.path.parent.name == "vram":
            samples.setdefault(one.root, []).extend(read_samples(one.path))
        else:
            _read_file(one, parts)
    for root, events in journals.items():
        _add_journal(root, events, parts, files)
    if loads is not None:
        parts.artifacts = [(one, artifact) for one, artifact in parts.artifacts if artifact.lane.load_id in loads]
        parts.starts = [(of, start) for of, start in parts.starts if start.load_id in loads]
        parts.failures = [event for event in parts.failures if event.load_id in loads]
    known_lane, lane = lane, lane or _lane_of(name, parts)
    artifacts = [(one, artifact) for one, artifact in parts.artifacts if lane is None or artifact.lane.lane == lane]
    for one, artifact in artifacts:
        _add_artifact(one, artifact, parts)
    for root, taken in samples.items():
        parts.memory += idle_memory(taken, [artifact for one, artifact in artifacts if one.root == root], root.name)
    return Arm(
        name=name,
        runs=tuple(sorted(parts.runs, key=lambda run: (run.started_at or "", run.run, run.path))),
        gates=tuple(sorted(parts.gates, key=lambda gate: (gate.finished_at or "", gate.path))),
        starts=tuple(start for of, start in sorted(parts.starts, key=_start_order) if _belongs(of, lane)),
        profiles=tuple(
            [one for one in parts.profiles if one.lane == lane] or ([] if known_lane is not None else parts.profiles)
        ),
        memory=tuple(sorted(parts.memory, key=lambda window: (window.path, window.phase))),
        drafts=tuple(sorted(parts.drafts, key=lambda counters: (counters.path, counters.scope))),
        load_failures=tuple(
            f"{one.lane}: {one.words}{f'; {one.cause}' if one.cause else ''}"
            for one in parts.failures
            if lane is None or one.lane == lane
        ),
        hashes=dict(sorted(parts.hashes.items())),
    )


def _belongs(start_of: str | None, lane: str | None) -> bool:
    """Whether a start is the arm's: by its journal's lane, else by a file name that begins with the lane's."""
    return start_of is None or lane is None or start_of == lane or start_of.startswith(f"{lane}-")


def _start_order(start: tuple[str | None, LoadStart]) -> tuple[str, str]:
    """Load ids begin with their UTC time."""
    return start[1].load_id or "", start[1].path


def _read_file(one: InputFile, parts: _Parts) -> None:
    source = str(one.path)
    if one.path.suffix == ".toml":
        profile = decode_toml(LaneProfile, read_bytes(one.path), source)
        parts.profiles.append(NamedProfile(path=one.label, lane=one.path.stem, profile=profile))
        return
    data = load_data(one.path)
    schema = data.get("schema") if isinstance(data, dict) else None
    if schema == RUN:
        parts.artifacts.append((one, convert(RunArtifact, data, source)))
    elif schema == STARTUP:
        start = LoadStart(path=one.label, report=convert(StartupReport, data, source))
        parts.starts.append((one.path.stem if one.root else None, start))
    elif (read := reader_of(data)) is not None:
        for record in read(data, one.label):
            plausible.check(record, source)
            _add_imported(record, parts)
    else:
        known = f"{RUN}, {STARTUP}, a lane profile, a campaign folder, or a file that `evidence/imports` knows"
        raise BadInput(source, Fault("schema", repr(schema) if schema else "none that is known", known))


def _add_imported(record: MeasuredRun | GateOutcome | MemoryWindow | DraftCounters, parts: _Parts) -> None:
    match record:
        case MeasuredRun():
            parts.runs.append(record)
        case GateOutcome():
            parts.gates.append(record)
        case MemoryWindow():
            parts.memory.append(record)
        case DraftCounters():
            parts.drafts.append(record)


def _add_artifact(one: InputFile, artifact: RunArtifact, parts: _Parts) -> None:
    if artifact.what == "gate":
        parts.gates.append(gate_outcome(artifact, one.label))
    else:
        parts.runs.append(measured_run(artifact, one.label))
    parts.memory += run_memory(artifact, one.label)
    parts.drafts += run_drafts(artifact, one.label)


def _add_journal(root: Path, events: list[Event], parts: _Parts, files: Sequence[InputFile]) -> None:
    """Give each start its load and its seconds, and keep what the journal says of loads that failed."""
    seconds = {event.load_id: event.startup_seconds for event in events if isinstance(event, LoadReady)}
    reported = {event.path: event for event in events if isinstance(event, StartupReported)}
    inside = {one.label: one.inside for one in files if one.root == root}
    for index, (lane, start) in enumerate(parts.starts):
        event = reported.get(inside.get(start.path, ""))
        if event is not None:
            told = msgspec.structs.replace(start, load_id=event.load_id, startup_seconds=seconds.get(event.load_id))
            parts.starts[index] = (event.lane, told)
        else:
            parts.starts[index] = (lane, start)
    parts.failures += [event for event in events if isinstance(event, LoadFailed)]


def _lane_of(name: str, parts: _Parts) -> str | None:
    """The one lane of an arm; where the files hold several, the one that is called like the arm."""
    lanes = {artifact.lane.lane for _, artifact in parts.artifacts}
    if len(lanes) <= 1:
        return next(iter(lanes), None)
    if name in lanes:
        return name
    raise BadInput(
        name, Fault("arm", f"its files hold {len(lanes)} lanes", f"an arm named like one: {', '.join(sorted(lanes))}")
    )


def read_journal(path: Path) -> Iterator[Event]:
    """The events of a journal that are known; kinds, fields and torn lines that are not are passed over."""
    for line in read_bytes(path).split(b"\n"):
        try:
            envelope = msgspec.json.decode(line, type=Envelope)
            kind = KINDS.get(envelope.kind)
            if kind is not None:
                yield msgspec.json.decode(envelope.body, type=kind)
        except msgspec.MsgspecError:
            continue


def read_samples(path: Path) -> Iterator[VramSample]:
    """The samples of a `vram/` file; other lines are passed over."""
    for line in read_bytes(path).split(b"\n"):
        try:
            decoded = msgspec.json.decode(line, type=SamplerLine)
        except msgspec.MsgspecError:
            continue
        if isinstance(decoded, VramSample):
            yield decoded
