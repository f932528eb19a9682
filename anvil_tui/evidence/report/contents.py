"""The one place of this room that reads a campaign folder. A file that cannot be read is named, never fatal."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from anvil_tui.errors import BadInput, CannotRun
from anvil_tui.evidence.report.story import Story, tell
from anvil_tui.evidence.report.trace import Trace, traces
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.events import Envelope, Event, body
from anvil_tui.records.lane import LaneProfile, RehearsalLaunch
from anvil_tui.records.startup_report import StartupReport
from anvil_tui.records.validation import decode_json, decode_toml, read_bytes
from anvil_tui.records.vram import VramLine

T = TypeVar("T")
_DECISION = re.compile(r"decision(?:-(\d+))?\.txt")


@dataclass(frozen=True)
class Filed(Generic[T]):
    """A record and the path of its file inside the folder."""

    path: str
    record: T

    @property
    def stem(self) -> str:
        return Path(self.path).stem


@dataclass(frozen=True)
class Contents:
    """What a campaign folder holds, as far as a report tells it."""

    name: str
    plan: dict[str, Any]
    story: Story
    profiles: tuple[Filed[LaneProfile], ...]
    runs: tuple[Filed[RunArtifact], ...]
    """In the order of time."""
    starts: tuple[Filed[StartupReport], ...]
    """In the order of the journal; those that it does not name come last."""
    traces: tuple[Trace, ...]
    documents: tuple[Filed[dict[str, Any]], ...]
    decision: Filed[str] | None
    """The newest one."""
    faults: tuple[str, ...]
    """Files that could not be read, and why."""

    @property
    def kind(self) -> str:
        return str(self.plan.get("kind", "campaign"))

    @property
    def lanes(self) -> tuple[str, ...]:
        """In the order of the plan: the baseline first."""
        planned = [str(lane) for lane in self.plan.get("lanes") or ()]
        return tuple(dict.fromkeys([*planned, *(one.record.lane.lane for one in self.runs)]))

    @property
    def rehearsal(self) -> bool:
        """Whether anything in the folder comes from a simulated engine or simulated GPUs."""
        return (
            self.plan.get("rehearsal") is True
            or any(one.record.rehearsal for one in self.runs)
            or any(one.rehearsal for one in self.story.samplers)
            or any(isinstance(one.record.launch, RehearsalLaunch) for one in self.profiles)
            or any(one.record.get("rehearsal") is True for one in self.documents)
        )

    @property
    def counted(self) -> tuple[Filed[RunArtifact], ...]:
        """The runs without those of loads that were put aside."""
        aside = self.story.put_aside
        return tuple(one for one in self.runs if one.record.lane.load_id not in aside)

    def profile(self, lane: str) -> LaneProfile | None:
        return next((one.record for one in self.profiles if one.stem == lane), None)

    def lane_of_start(self, path: str) -> str:
        """The lane of a start-up report: as the journal says, else as its file is called."""
        told = next((one.lane for one in self.story.reports if one.path == path), None)
        named = [lane for lane in self.lanes if Path(path).name.startswith(f"{lane}-")]
        return told or max(named, key=len, default="unknown lane")


def read_contents(folder: Path) -> Contents:
    """Read a campaign folder. Raises CannotRun where it is none."""
    try:
        plan = json.loads((folder / "plan.json").read_bytes())
    except FileNotFoundError:
        raise CannotRun(f"{folder}: no plan.json; this is not a campaign folder") from None
    except (OSError, ValueError) as error:
        raise CannotRun(f"{folder}/plan.json: {error}") from None
    if not isinstance(plan, dict):
        raise CannotRun(f"{folder}/plan.json: not a JSON object; this is not a campaign folder")
    faults: list[str] = []
    story = tell(_journal(folder / "journal.jsonl", faults))
    runs = _files(folder, "runs/*.json", lambda raw, source: decode_json(RunArtifact, raw, source), faults)
    starts = _files(folder, "startup/*.json", lambda raw, source: decode_json(StartupReport, raw, source), faults)
    told = {one.path: place for place, one in enumerate(story.reports)}
    return Contents(
        name=folder.resolve().name,
        plan=plan,
        story=story,
        profiles=_files(folder, "lanes/*.toml", lambda raw, source: decode_toml(LaneProfile, raw, source), faults),
        runs=tuple(sorted(runs, key=lambda one: (one.record.started_at, _natural(one.path)))),
        starts=tuple(sorted(starts, key=lambda one: told.get(one.path, len(told)))),
        traces=tuple(
            trace
            for path in sorted((folder / "vram").glob("*.jsonl"))
            for trace in traces(f"vram/{path.name}", _samples(path, faults), story.boots)
        ),
        documents=_files(
            folder, "documents/*.json", lambda raw, source: decode_json(dict[str, Any], raw, source), faults
        ),
        decision=_decision(folder, faults),
        faults=tuple(faults),
    )


def _files(folder: Path, pattern: str, decode: Callable[[bytes, str], T], faults: list[str]) -> tuple[Filed[T], ...]:
    """The files of a pattern, decoded; `source` of a fault is the path inside the folder, never one of the machine."""
    found = []
    for path in sorted(folder.glob(pattern), key=lambda one: _natural(one.name)):
        name = path.relative_to(folder).as_posix()
        if path.name.startswith("."):
            continue
        try:
            found.append(Filed(name, decode(read_bytes(path), name)))
        except BadInput as error:
            faults.append(f"{name}: {'; '.join(map(str, error.faults))}")
    return tuple(found)


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """`r2` before `r10`."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name))


def _journal(path: Path, faults: list[str]) -> Iterator[tuple[Envelope, Event | None]]:
    """The events of a journal; a line that is no envelope is counted among the faults."""
    broken = 0
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        faults.append(f"journal.jsonl: {error.strerror}")
        return
    for line in lines:
        try:
            envelope = msgspec.json.decode(line, type=Envelope)
        except msgspec.MsgspecError:
            broken += 1
            continue
        yield envelope, body(envelope)
    if broken:
        faults.append(f"journal.jsonl: {broken} lines that are no events")


def _samples(path: Path, faults: list[str]) -> Iterator[VramLine]:
    """The lines of a `vram/` file, one at a time: a long campaign writes hundreds of megabytes."""
    decoder = msgspec.json.Decoder(VramLine)
    broken = 0
    with path.open("rb") as file:
        for line in file:
            try:
                yield decoder.decode(line)
            except msgspec.MsgspecError:
                broken += 1
    if broken:
        faults.append(f"vram/{path.name}: {broken} lines that are no samples")


def _decision(folder: Path, faults: list[str]) -> Filed[str] | None:
    """The newest decision text."""
    texts = [(int(match[1] or 1), path) for path in folder.iterdir() if (match := _DECISION.fullmatch(path.name))]
    if not texts:
        return None
    path = max(texts)[1]
    try:
        return Filed(path.name, path.read_bytes().decode("utf-8", "replace"))
    except OSError as error:
        faults.append(f"{path.name}: {error.strerror}")
        return None
