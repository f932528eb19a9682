"""A paired campaign as a runner writes it: a real journal, real artifacts, real documents, without a lane."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.pairs.order import loads_in_order
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal
from anvil_tui.console.paired.comparison import CompareRead, Comparison
from anvil_tui.console.paired.source import CompareSource
from anvil_tui.files import write_atomic
from anvil_tui.locations import Locations
from anvil_tui.records import events
from anvil_tui.records.acceptance import AcceptanceDocument, ConditionState
from anvil_tui.records.live import Live, LiveRun
from anvil_tui.records.plan import CampaignPlan, PlannedLoad
from anvil_tui.records.vram import MIB, Gpu, GpuReserve, ReserveVerdict, Verdict
from tests.unit.console import scenes
from tests.unit.evidence import samples

ID = "anvil-20261201T120400Z-paired-batch-0123ab"
LANES = {"baseline": "old-lane", "candidate": "new-lane"}
FILE = """
schema = "anvil-campaign/v1"
name = "8,192 against 4,096 batched tokens"
document = "{document}"
controlled_fields = ["recipe.max_num_batched_tokens"]
operational_differences = ["port", "served model name"]
order = "ABA"
primary_metric = "decode_tok_s_p50"
[arms.baseline]
lane = "old-lane"
name = "old"
[arms.candidate]
lane = "new-lane"
name = "new"
[gate]
[ladder]
targets = [1000, 2000]
max_tokens = 64
margin = 0
[[acceptance]]
what = "healthy_start"
[[acceptance]]
what = "actual_prompt_tokens"
above = 1500
"""
CONDITIONS = (
    ConditionState(
        what="healthy_start", text="candidate: healthy start", state="met", words="1 load came up",
        evidence=("journal.jsonl",),
    ),
    ConditionState(
        what="actual_prompt_tokens", text="candidate: an actual prompt above 1,500 tokens", state="not yet known",
        words="no run passed", evidence=(),
    ),
)  # fmt: skip
GPUS = tuple(Gpu(index=index, uuid=uuid, name="card") for index, uuid in enumerate(("GPU-a", "GPU-b")))
PLANNED = loads_in_order("ABA", 1, LANES)  # type: ignore[arg-type]


@dataclass
class Pair:
    """One campaign folder, and the journal that is written into it."""

    folder: CampaignFolder
    journal: Journal
    runs: int = 0

    def begin(self, load: PlannedLoad, *, kv_tokens: int = 283_917, gib: float = 15.27) -> str:
        """A load that comes up; its id."""
        load_id = f"20261201T12000{load.number}Z-{self.runs:06d}"
        self.journal.append(
            events.BlockLoadBegun(
                number=load.number, block=load.block, arm=load.arm, lane=load.lane, replay=load.replay
            )
        )
        self.journal.append(events.LoadStarted(lane=load.lane, load_id=load_id, launch="process", pid=1))
        self.journal.append(
            events.LoadReady(
                lane=load.lane, load_id=load_id, startup_seconds=240.0 + load.number, served_name="m",
                max_model_len=131072, engine_version=None,
            )
        )  # fmt: skip
        path = f"startup/{load.lane}-{load_id}.json"
        report = samples.start(gib, kv_tokens, round(kv_tokens / 131072, 2), 1.5)
        (self.folder.path / path).write_bytes(msgspec.json.encode(report))
        self.journal.append(events.StartupReported(lane=load.lane, load_id=load_id, path=path, sha256="0"))
        return load_id

    def rung(self, load: PlannedLoad, load_id: str, target: int, *, e2e_ms: float, passed: bool = True) -> None:
        """A rung of one request, kept as its artifact."""
        self.runs += 1
        name = f"{load.lane}-r{self.runs}"
        self.journal.append(events.RunStarted(lane=load.lane, run=name, what="rung", target_tokens=target))
        request = samples.request(self.runs, prompt_tokens=target, e2e_ms=e2e_ms, nonce=f"n{target}")
        artifact = samples.artifact(
            name, (request,), lane=load.lane, load_id=load_id, arm=load.arm, block=load.block, target_tokens=target,
            passed=passed, started_at=f"2026-12-01T12:{self.runs:02d}:00Z", reserve=reserve(load.arm),
        )  # fmt: skip
        (self.folder.path / "runs" / f"{name}.json").write_bytes(msgspec.json.encode(artifact))
        self.journal.append(
            events.RunFinished(
                run=name, path=f"runs/{name}.json", sha256="0", bytes=1, passed=passed, outcome="ok",
                reserve="PASS" if load.arm == "baseline" else "FAIL",
                words="good" if passed else "outcome: the request failed",
            )
        )  # fmt: skip

    def end(self, load: PlannedLoad, load_id: str, *, whole: bool = True, words: str = "all was done") -> None:
        self.journal.append(
            events.BlockLoadEnded(
                number=load.number, block=load.block, arm=load.arm, load_id=load_id, whole=whole, health="healthy",
                shared_memory_reclaimable_bytes=0, words=words,
            )
        )  # fmt: skip

    def load(self, load: PlannedLoad, **start: float) -> str:
        """A whole load: two rungs that pass; the candidate answers faster."""
        load_id = self.begin(load, **start)  # type: ignore[arg-type]
        for target in (1000, 2000):
            self.rung(load, load_id, target, e2e_ms=1200.0 if load.arm == "baseline" else 1100.0)
        self.end(load, load_id)
        return load_id

    def live(self, *, run: LiveRun | None = None, step: str = "new-lane is coming up") -> None:
        """The figures of this moment, with how the conditions stand."""
        live = Live(
            mono_us=clock.mono_us(), at=scenes.AT, boot_id=clock.boot_id(), pid=1, step=step, run=run,
            acceptance=CONDITIONS,
        )  # fmt: skip
        write_atomic(self.folder.live, msgspec.json.encode(live))

    def conclude(self, document: dict[str, object] | None = None, *, met: bool = True) -> None:
        """The end: documents and the last word of the runner."""
        conditions = tuple(
            msgspec.structs.replace(one, state="met" if met else "not met", words="told") for one in CONDITIONS
        )
        acceptance = AcceptanceDocument(campaign="batch", rehearsal=False, conditions=conditions)
        for name, written in (("comparison", document), ("acceptance", msgspec.to_builtins(acceptance))):
            if written is not None:
                path = f"documents/{name}.json"
                (self.folder.path / path).write_bytes(msgspec.json.encode(written))
                schema = str(written["schema"])
                self.journal.append(events.DocumentWritten(path=path, sha256="0", schema=schema))
        self.journal.append(events.RunnerEnded(ending="complete", words="the campaign is done", exit_code=0))

    def compared(self) -> Comparison:
        """What the compare screen's thread reads now."""
        return compared(self.folder)


def reserve(arm: str) -> ReserveVerdict:
    """Two GPUs over a window: the candidate leaves 500 MiB less than the reserve on the second one."""
    free = {"GPU-a": 4000, "GPU-b": 3100 if arm == "baseline" else 2572}
    gpus = tuple(
        GpuReserve(
            uuid=uuid, name="card", min_free_bytes=mib * MIB, min_free_at_us=1, margin_bytes=(mib - 3072) * MIB,
            below_seconds=0.0, reserved_bytes=None, total_bytes=None, verdict="PASS" if mib >= 3072 else "FAIL",
        )
        for uuid, mib in free.items()
    )  # fmt: skip
    verdict: Verdict = "PASS" if arm == "baseline" else "FAIL"
    return ReserveVerdict(
        verdict=verdict, reason="", policy="enforce", policy_reason=None, reserve_mib=3072, window_from_us=0,
        window_to_us=1, samples=2, hz=20.0, max_gap_ms=50.0, coverage_pct=100.0, spill="not applicable",
        spill_witness=None, gpus=gpus,
    )  # fmt: skip


def compared(folder: CampaignFolder) -> Comparison:
    """What a fresh thread of the compare screen reads of a folder."""
    posted: list[CompareRead] = []
    CompareSource(folder, lambda message: posted.append(message)).look()  # type: ignore[arg-type]
    return posted[-1].comparison


@contextmanager
def pair(where: Locations, document: str = "change") -> Iterator[Pair]:
    """A paired campaign that this process writes: it runs for as long as the block is open."""
    path = where.campaigns / ID
    for name in ("runs", "startup", "inbox", "vram", "lanes", "documents"):
        (path / name).mkdir(parents=True)
    plan = CampaignPlan(
        campaign_id=ID, kind="paired", lanes=tuple(LANES.values()), up=True, rehearsal=False, nonce_seed="0" * 32,
        loads=PLANNED, created_at=scenes.AT, tool_version="0",
    )  # fmt: skip
    (path / "plan.json").write_bytes(msgspec.json.encode(plan))
    (path / "campaign.toml").write_text(FILE.replace("{document}", document))
    raw = scenes.practice().raw.decode()
    for lane, batched in (("old-lane", 8192), ("new-lane", 4096)):
        profile = raw.replace("max_num_batched_tokens = 4096", f"max_num_batched_tokens = {batched}")
        (path / "lanes" / f"{lane}.toml").write_text(profile)
    with Journal.take(path / "journal.jsonl") as journal:
        journal.append(
            events.RunnerStarted(tool_version="0", python="3", pid=1, boot_id=clock.boot_id(), resumed=False)
        )
        journal.append(
            events.CampaignPlanned(
                campaign_id=ID, campaign_kind="paired", lanes=plan.lanes, plan_sha256="0", rehearsal=False
            )
        )
        journal.append(events.SamplerStarted(source="nvml", hz=20.0, gpus=GPUS, driver=None, rehearsal=False))
        yield Pair(CampaignFolder(path), journal)


def done(where: Locations, document: str = "change") -> CampaignFolder:
    """A campaign that ended: every load whole, conditions met, no comparison document of its own."""
    with pair(where, document) as told:
        for planned in PLANNED:
            candidate = planned.arm == "candidate"
            told.load(planned, kv_tokens=553_243 if candidate else 283_917, gib=15.99 if candidate else 15.27)
        told.conclude()
        return told.folder


def site(root: Path) -> Locations:
    return Locations(state=root / "state", profiles=root / "profiles", config=root / "config")
