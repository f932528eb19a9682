"""`paired-capacity-comparison/v1`: two arms measured alike; the arm names stand in the field names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from anvil_tui.evidence.arms.differences import lane_differences
from anvil_tui.evidence.arms.invariants import check_invariants
from anvil_tui.evidence.arms.runs import (
    common_clock,
    compared_runs,
    is_rehearsal,
    one_value,
    paths,
    scored,
    unscored,
)
from anvil_tui.evidence.arms.starts import last_start, speculation_method, told
from anvil_tui.evidence.caveats.rules import find_caveats
from anvil_tui.evidence.claims import PAIRED_RULES, Findings, find_claims
from anvil_tui.evidence.documents.decision import TEMPLATE, decision_text
from anvil_tui.evidence.documents.memory import memory_part, reserve_pass
from anvil_tui.evidence.documents.metrics import Group, comparable_groups, equal_length_part, metrics_part
from anvil_tui.evidence.documents.unknown import Unknown
from anvil_tui.evidence.kv.explanation import explain
from anvil_tui.evidence.kv.reports import report_of_start
from anvil_tui.evidence.statistics import success_interval
from anvil_tui.records.arm import Arm, MeasuredRun
from anvil_tui.records.comparison import Effect, VerdictRule
from anvil_tui.records.run_metrics import Clock

SCHEMA = "paired-capacity-comparison/v1"
FIELDS = frozenset(
    {
        "schema",
        "schema_version",
        "generated_at",
        "rehearsal",
        "hardware",
        "model_revision",
        "engine_revision",
        "image_digest",
        "protocol",
        "invariants",
        "metrics",
        "metrics_by_protocol",
        "latency_at_equal_output_length",
        "success",
        "memory",
        "functional_gate",
        "caveats",
        "claims",
        "decision",
        "raw_artifact_hashes_sha256",
        "unknown",
        "text",
        "status",
        "evidence",
        "checks",
        "reasoning_evidence",
        "reasoning_seen",
    }
)
"""Names that no arm may have."""


def paired_document(
    baseline: Arm, candidate: Arm, *, generated_at: str, rule: VerdictRule, template: str = TEMPLATE
) -> dict[str, Any]:
    """The comparison of two arms. Raises BadInput for a template that cannot be filled."""
    unknown = Unknown()
    old, new = compared_runs(baseline, candidate)
    clock = common_clock((baseline, candidate))
    invariants = check_invariants(baseline, candidate)
    groups = comparable_groups(old, new)
    metrics, effects = metrics_part(groups[-1], (old, new), clock, rule)
    caveats = find_caveats(baseline, candidate)
    rehearsal = any(map(is_rehearsal, (baseline, candidate)))
    claims = find_claims(PAIRED_RULES, Findings(old, new, None, effects, None, None))
    memory = memory_part(baseline, candidate, unknown)
    gate = _gate_part(baseline, candidate, unknown)
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "schema_version": SCHEMA,
        "generated_at": generated_at,
        "rehearsal": rehearsal,
        **_identity_part(baseline, candidate, unknown),
        "protocol": _protocol_part(groups[-1], baseline, candidate, clock, unknown),
        "invariants": [
            {
                "text": one.text,
                "status": one.status,
                baseline.name: one.baseline,
                candidate.name: one.candidate,
                "evidence": list(one.evidence),
            }
            for one in invariants
        ],
        candidate.name: _arm_part(candidate, new, unknown),
        baseline.name: _arm_part(baseline, old, unknown),
        "metrics": metrics,
        "latency_at_equal_output_length": equal_length_part(groups[-1], (old, new), clock, unknown),
        "success": {arm.name: _success(arm, rule) for arm in (new, old)},
        "memory": memory,
        "functional_gate": gate,
        "caveats": msgspec.to_builtins(caveats),
        "claims": claims_part(claims),
    }
    if len(groups) > 1:
        document["metrics_by_protocol"] = {
            group.name: metrics_part(group, (old, new), clock, rule)[0] for group in groups
        }
    text = decision_text(template, _decision_values(old, new, effects, document, len(caveats)))
    document["decision"] = f"REHEARSAL: {text}" if rehearsal else text
    document["raw_artifact_hashes_sha256"] = {**baseline.hashes, **candidate.hashes}
    document["unknown"] = dict(sorted(unknown.reasons.items()))
    return document


def _identity_part(baseline: Arm, candidate: Arm, unknown: Unknown) -> dict[str, Any]:
    profiles = [one.profile.identity for arm in (baseline, candidate) for one in arm.profiles]
    fields = {
        "hardware": [
            *(run.hardware for arm in (baseline, candidate) for run in arm.runs),
            *(p.hardware for p in profiles),
        ],
        "model_revision": [p.model_revision for p in profiles],
        "engine_revision": [p.engine_revision for p in profiles],
        "image_digest": [p.image for p in profiles],
    }
    return {
        name: unknown.note(name, one_value(values), "no input tells it" if not any(values) else "the inputs differ")
        for name, values in fields.items()
    }


def _protocol_part(group: Group, baseline: Arm, candidate: Arm, clock: Clock, unknown: Unknown) -> dict[str, Any]:
    (label, concurrency), old, new = group.protocol, group.baseline, group.candidate
    runs = (*old, *new)
    counts = {arm.name: len(scored_runs) for arm, scored_runs in ((candidate, new), (baseline, old))}
    told_runs = [run for arm in (baseline, candidate) for run in arm.runs]

    def one(field: str, values: Any) -> Any:
        known = sorted({value for value in values if value is not None}, key=str)
        words = f"the runs differ: {', '.join(map(str, known))}" if known else "no input tells it"
        return unknown.note(f"protocol.{field}", one_value(known), words)

    return {
        "context_tokens": one("context_tokens", [label]),
        "max_model_len": one("max_model_len", [run.max_model_len for run in told_runs]),
        "max_tokens": one("max_tokens", [run.max_tokens for run in runs]),
        "margin_tokens": one("margin_tokens", [run.margin_tokens for run in runs]),
        "concurrency": one("concurrency", [concurrency]),
        "requests_per_run": one("requests_per_run", [run.completed + run.failed for run in runs]),
        "successful_runs_per_lane": one("successful_runs_per_lane", counts.values()),
        "successful_runs": counts,
        "reasoning_effort": one("reasoning_effort", [run.reasoning_effort for run in runs]),
        "aggregation": "median of each successful run's p50 metric",
        "clock": "from before connecting" if clock == "connect" else "from the first byte on an open connection",
        "paired_variable": unknown.note(
            "protocol.paired_variable", _paired_variable(baseline, candidate), "needs a lane profile of each arm"
        ),
    }


def _paired_variable(baseline: Arm, candidate: Arm) -> str | None:
    if not baseline.profiles or not candidate.profiles:
        return None
    found = lane_differences(baseline.profiles[0].profile, candidate.profiles[0].profile).functional
    words = [f"{one.field}: {one.candidate} versus {one.baseline}" for one in found]
    return "; ".join(words) or "none: the profiles do not differ"


def _arm_part(arm: Arm, compared: Arm, unknown: Unknown) -> dict[str, Any]:
    start = last_start(arm)
    recipe = arm.profiles[0].profile.recipe if arm.profiles else None
    drafted = sum(one.draft_tokens for one in arm.drafts if one.scope == "run")
    scope = "run" if drafted else "since start"
    counters = [one for one in arm.drafts if (one.scope == "run") == (scope == "run") and one.draft_tokens]
    fraction = None
    if counters:
        fraction = sum(one.accepted_tokens for one in counters) / sum(one.draft_tokens for one in counters)
    method = speculation_method(start.report) if start else None
    speculates = bool(method) if method is not None else (recipe.speculation is not None if recipe else None)
    declared = recipe.speculation.tokens if recipe and recipe.speculation else None
    part: dict[str, Any] = {
        "served_model": one_value(run.served_name for run in compared.runs),
        "speculative_decoding": speculates,
        "num_speculative_tokens": declared or (told(start.report, "speculation_tokens") if start else None),
        "cuda_graph_cap": (told(start.report, "cuda_graph_cap") if start else None)
        or (recipe.cuda_graph_cap if recipe else None),
        "kv_cache_tokens": start.report.kv_tokens.value if start and start.report.kv_tokens else None,
        "startup_seconds": start.startup_seconds if start else None,
    }
    if start is not None:
        profile = arm.profiles[0].profile if arm.profiles else None
        part["kv_cache_explanation"] = explain(report_of_start(start.path, start.report, profile)).words
    part["accepted_token_fraction" if scope == "run" else "cumulative_accepted_token_fraction"] = fraction
    reasons = {
        "served_model": "the runs name none, or several",
        "speculative_decoding": "needs a lane profile or a start-up report",
        "num_speculative_tokens": "no speculation, or no profile or start-up report",
        "cuda_graph_cap": "needs a lane profile or a start-up report",
        "kv_cache_tokens": "needs a start-up report",
        "startup_seconds": "needs the journal of the campaign that started the lane",
    }
    for name, value in part.items():
        unknown.note(f"{arm.name}.{name}", value, reasons.get(name, "no speculation counters among the inputs"))
    part["artifacts"] = list(paths(scored(compared)))
    failures = [_retained(run) for run in unscored(compared)]
    if len(failures) == 1:
        part["retained_failure_artifact"] = failures[0]
    part["retained_failure_artifacts"] = failures
    return part


def _retained(run: MeasuredRun) -> dict[str, Any]:
    return {
        "path": run.path,
        "completed": run.completed,
        "failed": run.failed,
        "error": "; ".join(dict.fromkeys(run.failures)) or ("interrupted" if run.interrupted else None),
        "treatment": "retained as reliability evidence and excluded from successful-run median aggregation",
    }


def _success(arm: Arm, rule: VerdictRule) -> dict[str, Any]:
    """Successful requests k of n with the exact interval of the rate, and runs."""
    completed = sum(run.completed for run in arm.runs)
    total = completed + sum(run.failed for run in arm.runs)
    interval = success_interval(completed, total, rule.level)
    return {
        "requests": [completed, total],
        "rate_interval": list(interval) if interval else None,
        "level": rule.level,
        "runs": [len(scored(arm)), len(arm.runs)],
    }


def _gate_part(baseline: Arm, candidate: Arm, unknown: Unknown) -> dict[str, Any]:
    arms = (candidate, baseline)
    part: dict[str, Any] = {}
    for arm in arms:
        result = ("pass" if all(gate.passed for gate in arm.gates) else "fail") if arm.gates else None
        part[arm.name] = unknown.note(f"functional_gate.{arm.name}", result, "no gate among the inputs")
    names = [check.name for arm in arms for gate in arm.gates for check in gate.checks]
    part["checks"] = unknown.note(
        "functional_gate.checks", list(dict.fromkeys(names)) or None, "no gate among the inputs"
    )
    policies = [gate.reasoning_evidence for arm in arms for gate in arm.gates]
    part["reasoning_evidence"] = unknown.note(
        "functional_gate.reasoning_evidence", one_value(policies), "no gate tells its policy, or they differ"
    )
    part["reasoning_seen"] = {arm.name: one_value(gate.reasoning_seen for gate in arm.gates) for arm in arms}
    return part


def claims_part(claims: Sequence[Any]) -> dict[str, Any]:
    """Claims by status, each with its text, rule, evidence and what is missing."""
    plain = msgspec.to_builtins(claims)
    return {
        "proven": [one for one in plain if one["status"] == "proven"],
        "not_proven": [one for one in plain if one["status"] == "not proven"],
    }


def _decision_values(
    baseline: Arm, candidate: Arm, effects: dict[str, Effect], document: dict[str, Any], caveats: int
) -> dict[str, str]:
    def words(metric: str) -> str:
        one = effects[metric]
        return "unknown" if one.estimate_percent is None else f"{one.estimate_percent:+.1f} % ({one.verdict})"

    def reserve(arm: Arm) -> str:
        passed = reserve_pass(arm)
        return "unknown" if passed is None else "pass" if passed else "fail"

    count = effects["decode_tok_s_p50"].blocks
    values = {
        "candidate": candidate.name,
        "baseline": baseline.name,
        "blocks": f"{count} {'block' if count == 1 else 'blocks'}",
        "decode": words("decode_tok_s_p50"),
        "throughput": words("throughput_tok_s"),
        "first_output": words("time_to_first_output_p50_ms"),
        "ttft": words("ttft_p50_ms"),
        "prefill": words("effective_prefill_tok_s_p50"),
        "generation": words("generation_p50_ms"),
        "e2e": words("e2e_p50_ms"),
        "caveats": f"{caveats} {'caveat' if caveats == 1 else 'caveats'}",
    }
    for role, arm in (("candidate", candidate), ("baseline", baseline)):
        completed, total = document["success"][arm.name]["requests"]
        values[f"{role}_success"] = f"{completed} of {total}"
        values[f"{role}_gate"] = document["functional_gate"][arm.name] or "unknown"
        values[f"{role}_reserve"] = reserve(arm)
    return values
