"""`paired-capacity-comparison/v1`: two arms measured alike; the arm names stand in the field names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from anvil_tui.evidence.arms.differences import lane_differences
from anvil_tui.evidence.arms.invariants import check_invariants
from anvil_tui.evidence.arms.runs import (
    HIGHER_IS_BETTER,
    Protocol,
    blocks,
    common_clock,
    compared_runs,
    definitions,
    is_rehearsal,
    one_value,
    output_lengths,
    paths,
    protocols,
    run_value,
    scored,
    unscored,
)
from anvil_tui.evidence.arms.starts import last_start, told
from anvil_tui.evidence.caveats.answers import lengths_differ
from anvil_tui.evidence.caveats.rules import find_caveats
from anvil_tui.evidence.claims import PAIRED_RULES, Findings, find_claims
from anvil_tui.evidence.documents.decision import TEMPLATE, decision_text
from anvil_tui.evidence.documents.memory import memory_part, reserve_pass
from anvil_tui.evidence.documents.unknown import Unknown
from anvil_tui.evidence.statistics import percent_change, success_interval
from anvil_tui.evidence.verdicts import effect
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
    }
)
"""Names that no arm may have."""

_LENGTH_BOUND = frozenset({"ttft_p50_ms", "generation_p50_ms", "e2e_p50_ms", "throughput_tok_s"})
"""Metrics that a longer answer changes by itself."""
_EQUAL_LENGTH_FROM = ("time_to_first_output_p50_ms", "decode_tok_s_p50")


def paired_document(
    baseline: Arm, candidate: Arm, *, generated_at: str, rule: VerdictRule, template: str = TEMPLATE
) -> dict[str, Any]:
    """The comparison of two arms. Raises BadInput for a template that cannot be filled."""
    unknown = Unknown()
    old, new = compared_runs(baseline, candidate)
    clock = common_clock((baseline, candidate))
    invariants = check_invariants(baseline, candidate)
    groups = _groups(old, new)
    metrics, effects = _metrics(groups[-1], (old, new), clock, rule)
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
        "latency_at_equal_output_length": _equal_length_part(groups[-1], (old, new), clock, unknown),
        "success": {arm.name: _success(arm, rule) for arm in (new, old)},
        "memory": memory,
        "functional_gate": gate,
        "caveats": msgspec.to_builtins(caveats),
        "claims": claims_part(claims),
    }
    if len(groups) > 1:
        document["metrics_by_protocol"] = {
            _group_name(group): _metrics(group, (old, new), clock, rule)[0] for group in groups
        }
    text = decision_text(template, _decision_values(old, new, effects, document, len(caveats)))
    document["decision"] = f"REHEARSAL: {text}" if rehearsal else text
    document["raw_artifact_hashes_sha256"] = {**baseline.hashes, **candidate.hashes}
    document["unknown"] = dict(sorted(unknown.reasons.items()))
    return document


def _group_name(group: _Group) -> str:
    label, concurrency = group.protocol
    return f"{label if label is not None else 'unknown'} × {concurrency if concurrency is not None else 'unknown'}"


@dataclass(frozen=True)
class _Group:
    """The scored runs of both arms under one protocol; `common` is false where the arms share none."""

    protocol: Protocol
    baseline: Sequence[MeasuredRun]
    candidate: Sequence[MeasuredRun]
    common: bool = True


def _groups(baseline: Arm, candidate: Arm) -> list[_Group]:
    """The scored runs by common protocol, shortest prompt first; all of them in one group where none is common."""
    old, new = protocols(scored(baseline)), protocols(scored(candidate))
    common = sorted(old.keys() & new.keys(), key=lambda key: (key[0] or 0, -(key[1] or 0)))
    if not common:
        return [_Group((None, None), scored(baseline), scored(candidate), common=False)]
    return [_Group(key, old[key], new[key]) for key in common]


def _metrics(
    group: _Group, arms: tuple[Arm, Arm], clock: Clock, rule: VerdictRule
) -> tuple[dict[str, Any], dict[str, Effect]]:
    """Each metric with all values, medians and delta, in the seeds' fields, and its effect over blocks."""
    baseline, candidate = arms
    old, new = group.baseline, group.candidate
    invalid = "" if group.common or not (old and new) else "the arms ran no common protocol"
    if any(run.rehearsal for run in (*old, *new)):
        invalid = "a rehearsal is no evidence"
    unequal = lengths_differ(baseline, candidate)
    part: dict[str, Any] = {}
    effects: dict[str, Effect] = {}
    for metric, higher in HIGHER_IS_BETTER.items():
        values = {
            arm.name: [run_value(run, metric, clock) for run in runs]
            for arm, runs in zip(arms, (old, new), strict=True)
        }
        known = {name: [one.value for one in told if one.value is not None] for name, told in values.items()}
        medians = {name: median(told) if told else None for name, told in known.items()}
        unlike = definitions(old, metric) != definitions(new, metric) and bool(old and new)
        delta = None if unlike else percent_change(medians[candidate.name], medians[baseline.name])
        kind = "delta_percent" if higher else "latency_delta_percent"
        one = effect(
            blocks(old, new, metric, clock),
            known[baseline.name],
            known[candidate.name],
            higher_is_better=higher,
            rule=rule,
            invalid="the metric does not mean the same in both arms" if unlike else invalid,
            confounded="the answers differ in length" if unequal and metric in _LENGTH_BOUND else "",
        )
        effects[metric] = one
        part[metric] = {
            **{f"{arm.name}_values": [value.value for value in values[arm.name]] for arm in (candidate, baseline)},
            **{f"{arm.name}_median": medians[arm.name] for arm in (candidate, baseline)},
            f"{candidate.name}_{kind}": delta,
            "basis": _basis(
                [value.recomputed for told in values.values() for value in told if value.value is not None]
            ),
            "effect": msgspec.to_builtins(one),
        }
    return part, effects


def _basis(recomputed: list[bool]) -> str | None:
    if not recomputed:
        return None
    if all(recomputed):
        return "recomputed from request records"
    return "partly as the files state it" if any(recomputed) else "as the files state it"


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


def _protocol_part(group: _Group, baseline: Arm, candidate: Arm, clock: Clock, unknown: Unknown) -> dict[str, Any]:
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
    method = told(start.report, "speculation_method") if start else None
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


def _equal_length_part(group: _Group, arms: tuple[Arm, Arm], clock: Clock, unknown: Unknown) -> dict[str, Any] | None:
    """E2E at one output length: time to first output + (length − 1) / decode of each run, length the common median."""
    baseline, candidate = arms
    old, new = group.baseline, group.candidate
    lengths = [length for run in (*old, *new) for length in output_lengths(run)]
    if not lengths:
        return unknown.note("latency_at_equal_output_length", None, "no run tells its output tokens")
    if any(definitions(old, metric) != definitions(new, metric) for metric in _EQUAL_LENGTH_FROM):
        return unknown.note("latency_at_equal_output_length", None, "the arms do not mean the same by its parts")
    length = round(median(lengths))
    values = {
        arm.name: [_at_length(run, length, clock) for run in runs] for arm, runs in ((candidate, new), (baseline, old))
    }
    medians = {
        name: median(known) if (known := [v for v in told if v is not None]) else None for name, told in values.items()
    }
    return {
        "output_tokens": length,
        **{f"{name}_e2e_ms_values": told for name, told in values.items()},
        **{f"{name}_e2e_ms_median": value for name, value in medians.items()},
        f"{candidate.name}_latency_delta_percent": percent_change(medians[candidate.name], medians[baseline.name]),
    }


def _at_length(run: MeasuredRun, length: int, clock: Clock) -> float | None:
    first = run_value(run, _EQUAL_LENGTH_FROM[0], clock).value
    decode = run_value(run, _EQUAL_LENGTH_FROM[1], clock).value
    return None if first is None or not decode else first + (length - 1) / decode * 1000.0


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
