"""Campaign folders and journals for the tests of the report, written from records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from anvil_tui.records import events
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.events import Envelope, Event, kind_of
from anvil_tui.records.vram import Gpu, GpuReading, Inventory, VramLine, VramSample
from tests.unit.evidence.samples import write

MIB = 1 << 20
GPU = Gpu(uuid="GPU-a", name="Card", index=0)
BOOT = "b"
SECOND = 1_000_000


def envelopes(told: Iterable[Event], first_us: int = 0, step_us: int = SECOND) -> list[Envelope]:
    """The events as lines of a journal, one second apart."""
    return [
        Envelope(
            seq=number,
            prev="0" * 64,
            t=f"2026-08-11T00:{number // 60:02d}:{number % 60:02d}.000Z",
            mono_us=first_us + number * step_us,
            kind=kind_of(type(event)),
            body=msgspec.Raw(msgspec.json.encode(event)),
        )
        for number, event in enumerate(told)
    ]


def runner_started(boot: str = BOOT, resumed: bool = False) -> Event:
    return events.RunnerStarted(tool_version="0.1.0", python="3.11", pid=1, boot_id=boot, resumed=resumed)


def sample(at_us: int, free_mib: int | None, **told: Any) -> VramSample:
    reading = GpuReading(uuid=GPU.uuid, free=None if free_mib is None else free_mib * MIB, **told)
    return VramSample(mono_us=at_us, at="2026-08-11T00:00:30.000Z", gpus=(reading,))


INVENTORY = Inventory(source="nvml", gpus=(GPU,))


def campaign(
    folder: Path,
    runs: Sequence[RunArtifact] = (),
    *,
    journal: Sequence[Event] = (),
    samples: Sequence[VramLine] = (),
    documents: dict[str, Any] | None = None,
    **plan: Any,
) -> Path:
    """Write a campaign folder; returns its path."""
    lanes = list(dict.fromkeys(run.lane.lane for run in runs)) or ["lane"]
    write(
        folder / "plan.json", {"schema": "anvil-plan/v1", "kind": "ladder", "lanes": lanes, "rehearsal": False} | plan
    )
    for run in runs:
        write(folder / "runs" / f"{run.run}.json", run)
    lines = [msgspec.json.encode(one) for one in envelopes(journal or [runner_started()])]
    (folder / "journal.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    if samples:
        (folder / "vram").mkdir(exist_ok=True)
        (folder / "vram" / "samples.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, samples)) + b"\n")
    for name, document in (documents or {}).items():
        write(folder / "documents" / name, document)
    return folder


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Every row of data in a chart, of all its layers and panels."""
    found: list[dict[str, Any]] = []
    stack: list[Any] = [spec]
    while stack:
        one = stack.pop()
        if isinstance(one, dict):
            found += one.get("data", {}).get("values", []) if isinstance(one.get("data"), dict) else []
            stack += [value for key, value in one.items() if key != "data"]
        elif isinstance(one, list):
            stack += one
    return found


def plain(spec: dict[str, Any]) -> dict[str, Any]:
    """A chart as JSON carries it; raises where it holds NaN or no JSON at all."""
    again: dict[str, Any] = json.loads(json.dumps(spec, allow_nan=False))
    return again
