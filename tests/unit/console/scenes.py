"""Desks as the console may find them, with every figure fixed: what snapshots and tables are made of."""

from __future__ import annotations

from pathlib import Path

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.view import CampaignView, RunView
from anvil_tui.console.snapshot import (
    Bucket,
    CampaignRow,
    Desk,
    GpuNow,
    GpuSnapshot,
    LaneRow,
    LogLine,
    LogSnapshot,
    Note,
    RunFigures,
    Rung,
    Shown,
)
from anvil_tui.lanes.profile import Lane, decode_lane
from anvil_tui.locations import Locations
from anvil_tui.records.artifact import Check
from anvil_tui.records.live import Live, LiveRun
from anvil_tui.records.load import Ready
from anvil_tui.records.plan import CampaignPlan, LadderPlan
from anvil_tui.records.startup_report import Figure, Phase, Source, StartupReport, Word
from anvil_tui.records.vram import MIB, Gpu, GpuReading, Policy

NOW_US = 1_000_000_000
AT = "2026-12-01T12:04:31.000Z"
LOAD = "20261201T120000Z-abc123"
CAMPAIGN = "anvil-20261201T120400Z-ladder-practice-0123ab"


def practice() -> Lane:
    """A shipped rehearsal under another name."""
    raw = (Locations.default().shipped_profiles / "lanes" / "rehearsal-batch4096.toml").read_bytes()
    return decode_lane(Path("practice.toml"), raw, {})


def lane_row(state: str = "up", words: str = "") -> LaneRow:
    ready = Ready(
        at=AT, mono_us=NOW_US - 200_000_000, startup_seconds=267.4, served_name="practice", max_model_len=131072,
        engine_version="0.32.0",
    )  # fmt: skip
    return LaneRow(
        "practice",
        practice(),
        state,  # type: ignore[arg-type]
        load_id=LOAD,
        launched_us=NOW_US - 467_400_000,
        ready=ready if state == "up" else None,
        words=words,
    )


def figures(tokens: int, *, passed: bool = True) -> RunFigures:
    return RunFigures(
        prompt_tokens=tokens,
        ttft_ms=tokens / 6.9,
        prefill_tok_s=6_903.4,
        decode_tok_s=75.4,
        e2e_ms=tokens / 6.9 + 400,
        output_tokens=109,
        outcome="ok",
        reserve="PASS (spill not checked)" if passed else "FAIL",
        policy="enforce",
        checks=(
            Check(name="request", passed=True, words="outcome ok"),
            Check(name="reserve", passed=passed, words="843 MiB free at least: 2229 MiB short of 3072 MiB"),
            Check(name="cold", passed=None, words="the engine does not say what was cached"),
        ),
        words=f"{tokens:,} tokens, decode 75.4 tok/s",
    )


def campaign_row(standing: str = "running", runs: tuple[RunView, ...] = (), *, kind: str = "ladder") -> CampaignRow:
    ladder = LadderPlan(targets=(117500, 118500, 119500), max_tokens=10240, margin=1024, reasoning_effort="high")
    plan = CampaignPlan(
        campaign_id=CAMPAIGN, kind=kind, lanes=("practice",), up=False, rehearsal=True, nonce_seed="0" * 32,
        ladder=ladder if kind == "ladder" else None, created_at=AT, tool_version="0",
    )  # type: ignore[arg-type]  # fmt: skip
    view = CampaignView(
        CAMPAIGN, kind=kind, lanes=("practice",), rehearsal=True, began_at=AT, load_id=LOAD, startup_seconds=267.4,
        runs=runs, words="", sealed=standing == "sealed",
    )  # fmt: skip
    return CampaignRow(CampaignFolder(Path("/state/campaigns") / CAMPAIGN), view, standing, plan, signed=False)  # type: ignore[arg-type]


RUNS = (
    RunView("practice-r1", "rung", 117500, "passed", "117,500 tokens"),
    RunView("practice-r2", "rung", 118500, "failed", "reserve: FAIL"),
    RunView("practice-r3", "rung", 119500, "running"),
)


def ladder_desk() -> Desk:
    """Two rungs measured, one of them failed, a third one open."""
    row = campaign_row(runs=RUNS)
    live = Live(
        mono_us=NOW_US,
        at=AT,
        boot_id="boot",
        pid=4711,
        step="practice-r3",
        run=LiveRun(run="practice-r3", target_tokens=119500, phase="answer", since_us=NOW_US - 17_900_000, tokens=64),
    )
    shown = Shown(
        row=row,
        live=live,
        figures={"practice-r1": figures(117500), "practice-r2": figures(118500, passed=False)},
        seconds={"practice-r1": 17.4, "practice-r2": 17.6},
        notes=(
            Note(AT, "practice is up; measuring load " + LOAD),
            Note(AT, "practice-r1: passed: 117,500 tokens, TTFT 17,028 ms", "good"),
            Note(AT, "practice-r2: FAILED: reserve: FAIL: 843 MiB free at least", "bad"),
            Note(AT, "practice-r3: 119,500 tokens"),
        ),
        asked=frozenset(),
        began_us=NOW_US - 60_000_000,
        pid=4711,
    )
    lane = lane_row()
    return Desk(lanes=(lane,), campaigns=(row,), lane=lane, shown=shown, report=report())


def starting_desk() -> Desk:
    row = campaign_row(kind="startup")
    shown = Shown(
        row=row, live=None, figures={}, seconds={}, notes=(Note(AT, "practice started"),), asked=frozenset(),
        began_us=NOW_US - 61_000_000, pid=4711,
    )  # fmt: skip
    lane = lane_row("starting")
    return Desk(lanes=(lane,), campaigns=(row,), lane=lane, shown=shown, report=report(loading=True))


def empty_desk() -> Desk:
    """Nothing was ever started: lanes are there, one of them refused."""
    lane = LaneRow("practice", practice())
    return Desk(lanes=(LaneRow("broken", None, "refused", words="broken.toml: gpus.reserve_mib: -1"), lane))


def sealed_desk() -> Desk:
    desk = ladder_desk()
    assert desk.shown is not None
    row = campaign_row("sealed", RUNS[:2])
    lane = lane_row("stopped", "it was stopped (signal 15)")
    shown = Shown(row, None, desk.shown.figures, desk.shown.seconds, desk.shown.notes, frozenset(), None, None)
    return Desk(lanes=(lane,), campaigns=(row,), lane=lane, shown=shown, report=report())


def report(*, loading: bool = False) -> StartupReport:
    def figure(value: float, line: int) -> Figure:
        return Figure(value=value, source=Source(line=line, offset=line * 100, text=f"line {line}"))

    phases = tuple(
        Phase(name=name, source=Source(line=at, offset=at * 100, text=name), seconds=seconds)
        for at, (name, seconds) in enumerate((("args", None), ("load_weights", 76.8), ("compile", 28.8)), 1)
    )
    if loading:
        return StartupReport(engine="vllm", phases=phases, last_phase="compile")
    return StartupReport(
        engine="vllm",
        engine_version=Word(value="0.32.0", source=Source(line=1, offset=0, text="v")),
        state="ready",
        max_model_len=figure(131072, 2),
        kv_tokens=figure(553243, 40),
        max_concurrency=figure(4.22, 40),
        kv_available_gib={"TP0": figure(15.99, 38), "TP1": figure(16.22, 39)},
        weights_gib={"TP0": figure(75.51, 20), "TP1": figure(75.51, 21)},
        peak_activation_gib={"TP0": figure(1.14, 30)},
        non_torch_gib={"TP0": figure(0.35, 31), "TP1": figure(0.12, 32)},
        phases=phases,
        unread_count=1,
    )


def gpus(free_mib: tuple[int, ...] = (843, 3787), policy: Policy = "enforce", *, age_us: int = 100_000) -> GpuSnapshot:
    """GPUs with a dip 20 s ago and a gap in the sampling 60 s ago."""
    found = []
    for index, free in enumerate(free_mib):
        history = tuple(
            Bucket(second, low * MIB, (low + 200) * MIB, (low + 100) * MIB * 20, 20)
            for second in range(NOW_US // 1_000_000 - 90, NOW_US // 1_000_000 + 1)
            if not NOW_US // 1_000_000 - 64 < second < NOW_US // 1_000_000 - 56
            for low in [free - 600 if NOW_US // 1_000_000 - 22 < second < NOW_US // 1_000_000 - 16 else free]
        )
        reading = GpuReading(
            uuid=f"GPU-{index}", free=free * MIB, total=97887 * MIB, used=(97887 - 448 - free) * MIB,
            reserved=448 * MIB, util_pct=41, power_w=231.4, temperature_c=58,
        )  # fmt: skip
        gpu = Gpu(uuid=f"GPU-{index}", name="RTX PRO 6000 Max-Q", index=index)
        found.append(GpuNow(gpu, reading, NOW_US - age_us, history, (free - 600) * MIB, "2026-12-01T12:04:10.500Z"))
    return GpuSnapshot("runner", 200_000, tuple(found), 3072, policy)


def log(*lines: str) -> LogSnapshot:
    shown = lines or (
        "(EngineCore pid=212) INFO 08-10 12:00:03 [core.py:58] Initializing a V1 LLM engine",
        "(Worker_TP0 pid=301) Loading safetensors checkpoint shards:  61% Completed | 59/96 [04:27<02:55]",
        "(Worker_TP1 pid=302) WARNING 08-10 12:00:04 [marlin.py:12] weight is not aligned",
        "(EngineCore pid=212) ERROR 08-10 12:00:05 [core.py:99] a request failed",
        "(APIServer pid=1) INFO:     Application startup complete.",
    )
    rows, offset = [], 0
    for number, text in enumerate(shown):
        rows.append(LogLine(number, offset, text))
        offset += len(text) + 1
    return LogSnapshot(
        Path("/state/lanes/practice/lane.log"), tuple(rows), len(rows), offset, 1, 1, grew_us=NOW_US - 1_000_000
    )


PAST = (Rung(2000, 1.0), Rung(60000, 9.0))
