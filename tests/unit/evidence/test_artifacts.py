"""Our own artifacts as runs, gates, memory and draft counters of an arm."""

from __future__ import annotations

from typing import Any

from anvil_tui.evidence.arms.artifacts import gate_outcome, measured_run, run_drafts, run_memory
from anvil_tui.evidence.caveats.failures import metrics_disagree
from anvil_tui.evidence.run_metrics import run_metrics
from anvil_tui.records.artifact import Counters
from anvil_tui.records.gate import EvidencePolicy, GateBudget, GateCheck, GateObservation, GateResult
from anvil_tui.records.plan import CapacityPlan
from anvil_tui.records.vram import GpuReserve, ReserveVerdict
from tests.unit.evidence.samples import arm, artifact, check, request

MIB = 1 << 20


def test_a_capacity_run_tells_its_protocol() -> None:
    plan = CapacityPlan(context_tokens=4096, max_tokens=512, margin=1024, reasoning_effort="low", concurrency=4)
    rows = (request(0, reasoning_effort="low"), request(1, outcome="timeout", ended_us=9_000_000))
    told = artifact(
        "a-r1",
        rows,
        what="capacity",
        passed=False,
        capacity=plan,
        margin_tokens=1024,
        wall_clock_ms=7000.0,
        warmup=(request(9),),
        checks=(check("requests", passed=False),),
    )
    run = measured_run(told, "runs/a-r1.json")
    assert (run.label_tokens, run.concurrency, run.max_tokens, run.margin_tokens) == (4096, 4, 512, 1024)
    assert (run.completed, run.failed, run.passed, run.warm_up, run.wall_ms) == (1, 1, False, True, 7000.0)
    assert run.failures == ("timeout", "requests: ")


def test_a_rung_tells_its_margin_by_its_limit() -> None:
    run = measured_run(artifact("a-r1", (request(max_tokens=10_240),), target_tokens=119_500), "r")
    assert (run.label_tokens, run.concurrency, run.margin_tokens, run.warm_up) == (119_500, 1, 1024, None)
    assert measured_run(artifact("a-r1", (request(),), limit_tokens=None), "r").margin_tokens is None


def test_stored_metrics_are_checked_against_the_requests() -> None:
    rows = (request(0), request(1))
    right = measured_run(artifact("a-r1", rows, metrics=run_metrics(rows)), "r")
    wrong = measured_run(artifact("a-r1", rows, metrics=run_metrics((request(e2e_ms=900.0),))), "r")
    assert not list(metrics_disagree(arm("a", right), arm("b")))
    assert len(list(metrics_disagree(arm("a", right), arm("b", wrong)))) == 1


def test_a_gate_tells_its_policy_and_its_tool_batch() -> None:
    observations = tuple(
        GateObservation(
            check="tools", request_index=n, passed=n < 19, words="", record=request(n), reasoning_chars=n % 2
        )
        for n in range(20)
    )
    gate = GateResult(
        started_at="",
        finished_at="",
        model="m",
        reasoning_effort="high",
        budget=GateBudget(),
        tool_batch=20,
        policy=EvidencePolicy(reasoning="required"),
        checks=(GateCheck(name="tools", passed=False, words="19/20"),),
        observations=observations,
        policy_errors=(),
        passed=False,
    )
    found = gate_outcome(artifact("a-r9", (), what="gate", passed=False, gate=gate), "g.json")
    assert (found.tool_batch, found.reasoning_evidence, found.reasoning_seen) == ((19, 20), "required", True)
    assert [(one.name, one.passed) for one in found.checks] == [("tools", False)]
    assert (found.passed, found.reasoning_effort) == (False, "high")


def counters(values: dict[str, float], positions: tuple[float, ...] = (), **told: Any) -> Counters:
    return Counters(mono_us=0, at="", values=values, accepted_per_position=positions, **told)


def test_acceptance_comes_from_differences_never_since_start() -> None:
    before = counters({"spec_draft_tokens": 8000, "spec_accepted_tokens": 4000, "spec_drafts": 1600}, (1000, 500))
    after = counters({"spec_draft_tokens": 8830, "spec_accepted_tokens": 4865, "spec_drafts": 1766}, (1492, 718))
    (found,) = run_drafts(artifact("a-r1", (), counters_before=before, counters_after=after), "r")
    assert (found.scope, found.draft_tokens, found.accepted_tokens, found.drafts) == ("run", 830, 865, 166)
    assert found.accepted_per_position == (492, 218)
    restarted = counters({"spec_draft_tokens": 10.0}, process_start=2.0)
    assert not list(run_drafts(artifact("a-r1", (), counters_before=before, counters_after=restarted), "r"))
    assert not list(run_drafts(artifact("a-r1", ()), "r"))


def test_in_request_memory_is_the_minimum_of_free() -> None:
    gpus = tuple(
        GpuReserve(
            uuid=uuid,
            name="g",
            min_free_bytes=free * MIB,
            min_free_at_us=1,
            margin_bytes=0,
            below_seconds=0,
            reserved_bytes=448 * MIB,
            total_bytes=97_887 * MIB,
            verdict="FAIL",
        )
        for uuid, free in (("GPU-b", 2031), ("GPU-a", 1179))
    )
    verdict = ReserveVerdict(
        verdict="FAIL",
        reason="",
        policy="enforce",
        policy_reason=None,
        reserve_mib=3072,
        window_from_us=0,
        window_to_us=1,
        samples=20,
        hz=20,
        max_gap_ms=50,
        coverage_pct=100,
        spill="none",
        spill_witness=None,
        gpus=gpus,
    )
    (window,) = run_memory(artifact("a-r1", (), reserve=verdict), "r")
    assert [(gpu.gpu, gpu.free_mib) for gpu in window.gpus] == [("GPU-a", 1179), ("GPU-b", 2031)]
    assert (window.in_request, window.reserve_mib) == (True, 3072)
    assert not list(run_memory(artifact("a-r1", ()), "r"))
