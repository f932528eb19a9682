"""Arms, runs and files for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from anvil_tui.records.arm import Arm, MeasuredRun
from anvil_tui.records.artifact import Check, LaneObserved, RunArtifact
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.startup_report import Figure, Source, StartupReport, Word

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data"
SEED000 = ROOT.parent / "shared" / "cases" / "seed000"
GOLDENS: dict[str, Any] = json.loads((DATA / "goldens.json").read_bytes())


def request(index: int = 0, **told: Any) -> RequestRecord:
    """A successful request of 1,000 prompt and 101 output tokens: 200 ms to the first output, 100 tok/s after it."""
    given: dict[str, Any] = {
        "outcome": "ok",
        "model": "m",
        "max_tokens": 512,
        "nonce": f"n{index}",
        "connect_ms": 1.0,
        "time_to_first_output_ms": 200.0,
        "ttft_ms": 500.0,
        "e2e_ms": 1200.0,
        "prompt_tokens": 1000,
        "output_tokens": 101,
        "cached_tokens": 0,
        "sent_us": index * 2_000_000,
        "ended_us": index * 2_000_000 + 1_200_000,
        **told,
    }
    return RequestRecord(request_index=index, **given)


def run(name: str = "a-r1", requests: tuple[RequestRecord, ...] | None = None, **told: Any) -> MeasuredRun:
    """A passed capacity run of three requests, warm-up recorded."""
    rows = requests if requests is not None else tuple(request(index) for index in range(3))
    completed = sum(row.outcome in ("ok", "truncated") for row in rows)
    given: dict[str, Any] = {
        "path": f"runs/{name}.json",
        "format": "anvil-run/v1",
        "what": "capacity",
        "passed": completed == len(rows),
        "requests": rows,
        "completed": completed,
        "failed": len(rows) - completed,
        "load_id": "l1",
        "warm_up": True,
        "label_tokens": 1000,
        "concurrency": 1,
        "max_model_len": 131072,
        "started_at": "2026-08-01T00:00:00Z",
        "finished_at": "2026-08-01T00:01:00Z",
        **told,
    }
    return MeasuredRun(run=name, **given)


def arm(name: str = "control", *runs: MeasuredRun, **told: Any) -> Arm:
    return Arm(name=name, runs=runs, **told)


def figure(value: float) -> Figure:
    return Figure(value=value, source=Source(line=1, offset=0, text="line"))


def word(value: str) -> Word:
    return Word(value=value, source=Source(line=1, offset=0, text="line"))


def start(gib: float, tokens: int, concurrency: float, peak: float, **told: Any) -> StartupReport:
    """A ready start of two ranks with seed 004's other figures."""
    given: dict[str, Any] = {
        "state": "ready",
        "max_model_len": figure(131072),
        "kv_available_gib": {"TP0": figure(gib), "TP1": figure(gib + 0.23)},
        "kv_tokens": figure(tokens),
        "max_concurrency": figure(concurrency),
        "weights_gib": {"TP0": figure(75.64), "TP1": figure(75.64)},
        "peak_activation_gib": {"TP0": figure(peak), "TP1": figure(peak)},
        "non_torch_gib": {"TP0": figure(0.35), "TP1": figure(0.12)},
        "cuda_graph_gib": {"TP0": figure(0.04), "TP1": figure(0.04)},
        **told,
    }
    return StartupReport(engine="vllm", **given)


def artifact(
    name: str, requests: tuple[RequestRecord, ...], *, what: str = "rung", passed: bool = True, **told: Any
) -> RunArtifact:
    lane = told.pop("lane", name.rsplit("-r", 1)[0])
    given: dict[str, Any] = {
        "nonce": "0" * 32,
        "rehearsal": False,
        "campaign_id": "c",
        "lane": LaneObserved(
            lane=lane,
            load_id=told.pop("load_id", "20260811T000000Z-a"),
            model="deepseek-ai/DeepSeek-V4-Flash-0731",
            served_name=f"served-{lane}",
            max_model_len=131072,
            engine="vllm",
            engine_version=None,
            rehearsal=False,
        ),
        "target_tokens": None,
        "limit_tokens": 119808,
        "started_at": "2026-08-11T00:00:00Z",
        "finished_at": "2026-08-11T00:01:00Z",
        "boot_id": "b",
        "words": "",
        "checks": (),
        "reserve": None,
        "counters_before": None,
        "counters_after": None,
        **told,
    }
    return RunArtifact(run=name, what=what, passed=passed, requests=requests, **given)


def check(name: str, passed: bool = True) -> Check:
    return Check(name=name, passed=passed, words="")


def write(path: Path, record: Any) -> Path:
    """Write a record or plain data as JSON, or tables as TOML by the name's ending."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".toml":
        path.write_text(tomli_w.dumps(record))
    else:
        path.write_bytes(msgspec.json.encode(record))
    return path
