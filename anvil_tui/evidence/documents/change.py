"""`controlled-change/v1`: one field of a recipe changed; start-ups, gate, matched ladder and what they prove."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import msgspec

from anvil_tui.evidence.arms.differences import Differences, lane_differences
from anvil_tui.evidence.arms.invariants import check_invariants
from anvil_tui.evidence.arms.runs import common_clock, compared_runs, is_rehearsal, prompt_lengths, run_value, scored
from anvil_tui.evidence.arms.starts import difference, kv_figures, last_start
from anvil_tui.evidence.caveats.rules import find_caveats
from anvil_tui.evidence.claims import CHANGE_RULES, Findings, find_claims
from anvil_tui.evidence.documents.next_test import next_test
from anvil_tui.evidence.documents.paired import claims_part
from anvil_tui.evidence.documents.unknown import Unknown
from anvil_tui.evidence.kv.change import explain_change
from anvil_tui.evidence.kv.explanation import explain
from anvil_tui.evidence.kv.reports import report_of_start
from anvil_tui.evidence.statistics import percent_change
from anvil_tui.records.arm import Arm, GateOutcome, LoadStart, MeasuredRun
from anvil_tui.records.kv_explanation import KvExplanation
from anvil_tui.records.run_metrics import Clock
from anvil_tui.records.startup_report import Figure

SCHEMA = "controlled-change/v1"
_IDENTITY = ("model", "model_revision", "image", "runtime", "hardware", "topology")
_RECIPE = {
    "context_tokens": "max_model_len",
    "max_num_seqs": "max_num_seqs",
    "gpu_memory_utilization": "gpu_memory_utilization",
    "weight_path": "weight_path",
    "kv_cache": "kv_cache_dtype",
    "host_kv_offload_gib": "host_kv_offload_gib",
}
_LADDER = {
    "largest_ttft_ms": "ttft_p50_ms",
    "largest_time_to_first_output_ms": "time_to_first_output_p50_ms",
    "largest_e2e_ms": "e2e_p50_ms",
    "largest_effective_prefill_tokens_per_second": "effective_prefill_tok_s_p50",
    "largest_decode_tokens_per_second": "decode_tok_s_p50",
}


def change_document(baseline: Arm, candidate: Arm, *, generated_at: str, at: int | None = None) -> dict[str, Any]:
    """The controlled change of two arms; `at` is the context length that the operator thinks of next, in tokens."""
    unknown = Unknown()
    differences = _differences(baseline, candidate)
    explained = {arm.name: _explained(arm, at) for arm in (baseline, candidate)}
    old, new = explained[baseline.name], explained[candidate.name]
    change = explain_change(old, new) if old is not None and new is not None else None
    findings = Findings(*compared_runs(baseline, candidate), differences, {}, change, at)
    clock = common_clock((baseline, candidate))
    arms = ((f"baseline_{baseline.name}", baseline), (f"candidate_{candidate.name}", candidate))
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "generated_at": generated_at,
        "observed_date_utc": unknown.note("observed_date_utc", _date(baseline, candidate), "no run tells its time"),
        "rehearsal": any(map(is_rehearsal, (baseline, candidate))),
        "evidence_types": _evidence_types(baseline, candidate),
        "identity": _identity(baseline, candidate, differences, unknown),
        "controlled_change": _controlled(differences, unknown),
        "invariants": msgspec.to_builtins(check_invariants(baseline, candidate)),
        "startup_measurements": _startups(arms, unknown),
        "kv_explanation": {
            "reports": {name: msgspec.to_builtins(one) for name, one in explained.items() if one is not None},
            "change": msgspec.to_builtins(change),
        },
    }
    for arm in (baseline, candidate):
        if arm.gates:
            document[f"functional_gate_{arm.name}"] = _gate(arm.gates)
    unknown.note(f"functional_gate_{candidate.name}", candidate.gates or None, "no gate of it among the inputs")
    document["matched_context_ladder"] = _ladder(arms, clock, unknown)
    document["private_raw_artifact_hashes_sha256"] = {**baseline.hashes, **candidate.hashes}
    document["interpretation"] = {
        **claims_part(find_claims(CHANGE_RULES, findings)),
        "next_test": unknown.note(
            "interpretation.next_test",
            next_test(candidate, at),
            "the candidate tells no KV tokens, or was at its length",
        ),
    }
    document["campaign_closeout"] = _closeout(candidate, unknown)
    document["caveats"] = msgspec.to_builtins(find_caveats(baseline, candidate))
    document["unknown"] = dict(sorted(unknown.reasons.items()))
    return document


def _differences(baseline: Arm, candidate: Arm) -> Differences | None:
    if not baseline.profiles or not candidate.profiles:
        return None
    return lane_differences(baseline.profiles[0].profile, candidate.profiles[0].profile)


def _explained(arm: Arm, at: int | None) -> KvExplanation | None:
    start = last_start(arm)
    if start is None:
        return None
    profile = arm.profiles[0].profile if arm.profiles else None
    return explain(report_of_start(start.path, start.report, profile), at)


def _date(baseline: Arm, candidate: Arm) -> str | None:
    times = [run.started_at for arm in (baseline, candidate) for run in arm.runs if run.started_at]
    return max(times)[:10] if times else None


def _evidence_types(baseline: Arm, candidate: Arm) -> list[str]:
    """Which kinds of evidence the inputs hold."""
    arms = (baseline, candidate)
    kinds = {
        "functional": any(arm.gates for arm in arms),
        "capacity": any(arm.starts or any(run.what == "rung" for run in arm.runs) for arm in arms),
        "bounded-performance": any(scored(arm) for arm in arms),
    }
    return [kind for kind, there in kinds.items() if there]


def _identity(baseline: Arm, candidate: Arm, differences: Differences | None, unknown: Unknown) -> dict[str, Any]:
    """What both profiles declare alike; a field in which they differ is null and stands in the controlled change."""
    profile = candidate.profiles[0].profile if candidate.profiles else None
    changed = {one.field for one in differences.functional} if differences else set()
    reason = "the profiles differ in it" if profile else "needs a lane profile of each arm"
    part: dict[str, Any] = {}
    for field in _IDENTITY:
        value = getattr(profile.identity, field) if profile and f"identity.{field}" not in changed else None
        part[field] = unknown.note(
            f"identity.{field}", value, reason if profile is None else "not declared, or differs"
        )
    for name, field in _RECIPE.items():
        value = getattr(profile.recipe, field) if profile and f"recipe.{field}" not in changed else None
        part[name] = unknown.note(f"identity.{name}", value, reason if profile is None else "not declared, or differs")
    alike = profile is not None and bool(baseline.profiles) and not any("speculation" in one for one in changed)
    speculates = profile.recipe.speculation is not None if profile is not None and alike else None
    part["speculative_decoding"] = unknown.note("identity.speculative_decoding", speculates, reason)
    return part


def _controlled(differences: Differences | None, unknown: Unknown) -> dict[str, Any]:
    names: dict[str, Any] = {"field": None, "baseline": None, "candidate": None}
    if differences is None:
        unknown.note("controlled_change", None, "needs a lane profile of each arm")
        return {**names, "other_functional_recipe_differences": None, "operational_identity_differences": None}
    functional = list(differences.functional)
    recipe = [one for one in functional if one.field.startswith("recipe.")]
    main = recipe[0] if recipe else functional[0] if functional else None
    if main is None:
        unknown.note("controlled_change.field", None, "the profiles do not differ functionally")
    else:
        names = {
            "field": main.field.removeprefix("recipe."),
            "baseline": main.baseline,
            "candidate": main.candidate,
        }
    return {
        **names,
        "other_functional_recipe_differences": [
            {"field": one.field, "baseline": one.baseline, "candidate": one.candidate}
            for one in functional
            if one is not main
        ],
        "operational_identity_differences": list(differences.operational),
    }


def _startups(arms: Sequence[tuple[str, Arm]], unknown: Unknown) -> dict[str, Any]:
    old_name, new_name = (name for name, _ in arms)
    starts = {name: last_start(arm) for name, arm in arms}
    part: dict[str, Any] = {}
    for name, arm in arms:
        start = starts[name]
        part[name] = unknown.note(
            f"startup_measurements.{name}", _startup(start, arm) if start else None, "no start-up report of it"
        )
    before, after = starts[old_name], starts[new_name]
    part["candidate_minus_baseline"] = (
        _minus(part[old_name], part[new_name]) if before is not None and after is not None else None
    )
    unknown.note("startup_measurements.candidate_minus_baseline", part["candidate_minus_baseline"], "needs both starts")
    return part


def _startup(start: LoadStart, arm: Arm) -> dict[str, Any]:
    report = start.report
    gib, tokens, concurrency = kv_figures(start)
    part: dict[str, Any] = {
        "available_kv_cache_gib_min_rank": gib,
        "gpu_kv_cache_tokens_reported": tokens,
        "reported_full_context_concurrency": concurrency,
        "weight_gib_per_rank": _per_rank(report.weights_gib),
        "peak_activation_gib_per_rank": _per_rank(report.peak_activation_gib),
    }
    for rank, figure in sorted(report.non_torch_gib.items()):
        part[f"non_torch_gib_{rank.lower()}"] = figure.value
    part["cuda_graph_gib_per_rank"] = _per_rank(report.cuda_graph_gib)
    part["startup_seconds"] = start.startup_seconds
    part["source"] = start.path
    part["replays"] = [
        dict(zip(("gib", "tokens", "concurrency"), kv_figures(one), strict=True)) | {"source": one.path}
        for one in arm.starts
        if one is not start
    ]
    return part


def _per_rank(figures: dict[str, Figure]) -> float | dict[str, float] | None:
    """One figure where all ranks agree, else each rank's own; None where the log says none."""
    values = {figure.value for figure in figures.values()}
    if len(values) == 1:
        return next(iter(values))
    return {rank: figure.value for rank, figure in sorted(figures.items())} or None


def _minus(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    gib, tokens, concurrency, peak = (
        "available_kv_cache_gib_min_rank",
        "gpu_kv_cache_tokens_reported",
        "reported_full_context_concurrency",
        "peak_activation_gib_per_rank",
    )
    peaks = [_largest(part[peak]) for part in (old, new)]
    return {
        "available_kv_cache_gib": difference(old[gib], new[gib]),
        "available_kv_cache_percent": _percent(new[gib], old[gib]),
        "gpu_kv_cache_tokens_reported": difference(old[tokens], new[tokens]),
        "gpu_kv_cache_tokens_reported_percent": _percent(new[tokens], old[tokens]),
        "reported_full_context_concurrency": difference(old[concurrency], new[concurrency]),
        "peak_activation_gib_per_rank": difference(*peaks),
        "peak_activation_percent": _percent(peaks[1], peaks[0]),
    }


def _largest(value: float | dict[str, float] | None) -> float | None:
    return max(value.values()) if isinstance(value, dict) else value


def _gate(gates: Sequence[GateOutcome]) -> dict[str, Any]:
    last = gates[-1]
    return {
        "passed": all(gate.passed for gate in gates),
        "checks_passed": sum(check.passed is True for check in last.checks),
        "checks_total": len(last.checks),
        "tool_batch_passed": last.tool_batch[0] if last.tool_batch else None,
        "tool_batch_total": last.tool_batch[1] if last.tool_batch else None,
        "checks": [check.name for check in last.checks],
        "reasoning_effort": last.reasoning_effort,
        "source": [gate.path for gate in gates],
    }


def _ladder(arms: Sequence[tuple[str, Arm]], clock: Clock, unknown: Unknown) -> dict[str, Any] | None:
    """The rungs that both arms were asked for, and each arm's largest one."""
    rungs = {name: [run for run in arm.runs if run.what == "rung" and not run.interrupted] for name, arm in arms}
    targets = set.intersection(*({run.label_tokens for run in one if run.label_tokens} for one in rungs.values()))
    if not targets:
        return unknown.note("matched_context_ladder", None, "no rung target that both arms were asked for")
    part: dict[str, Any] = {"targets": sorted(targets)}
    for name, runs in rungs.items():
        part[name] = _largest_rung([run for run in runs if run.label_tokens in targets], clock)
    old, new = (part[name] for name, _ in arms)
    same = old["largest_actual_prompt_tokens"] == new["largest_actual_prompt_tokens"]
    part["largest_request_candidate_minus_baseline_percent"] = unknown.note(
        "matched_context_ladder.largest_request_candidate_minus_baseline_percent",
        {name.removeprefix("largest_").removesuffix("_ms"): _percent(new[name], old[name]) for name in _LADDER}
        if same and old["largest_actual_prompt_tokens"] is not None
        else None,
        "the largest prompts of the arms differ in actual tokens",
    )
    counts = {len(run.requests) or run.completed for runs in rungs.values() for run in runs}
    each = "One request per target" if counts == {1} else "Few requests per target"
    part["measurement_note"] = (
        f"{each} is sufficient for a bounded capacity replay, not a performance-ranking claim. API-reported prompt "
        "tokens are authoritative, targets are labels."
    )
    return part


def _largest_rung(runs: Sequence[MeasuredRun], clock: Clock) -> dict[str, Any]:
    sizes = [(max(prompt_lengths(run)), run) for run in runs if run.passed and prompt_lengths(run)]
    largest = max((size for size, _ in sizes), default=None)
    chosen = [run for size, run in sizes if size == largest]
    part: dict[str, Any] = {"all_passed": all(run.passed for run in runs), "largest_actual_prompt_tokens": largest}
    for field, metric in _LADDER.items():
        known = [value for run in chosen if (value := run_value(run, metric, clock).value) is not None]
        part[field] = median(known) if known else None
    return part


def _closeout(candidate: Arm, unknown: Unknown) -> dict[str, Any]:
    """What only a campaign's own closeout can know stays null."""
    part = {"candidate": candidate.name, "health_at_close": None, "route_changed": None, "promotion_changed": None}
    if candidate.load_failures:
        part["health_at_close"] = "failed: " + "; ".join(candidate.load_failures)
    unknown.note("campaign_closeout.health_at_close", part["health_at_close"], "no closeout among the inputs")
    for field in ("route_changed", "promotion_changed"):
        unknown.note(f"campaign_closeout.{field}", part[field], "no file or URL was watched")
    return part


def _percent(new: float | None, old: float | None) -> float | None:
    """To three decimals, as the seeds print it."""
    percent = percent_change(new, old)
    return None if percent is None else round(percent, 3)
