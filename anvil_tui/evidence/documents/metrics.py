"""The metrics part of a document: values, medians, deltas and effects of the runs that compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import msgspec

from anvil_tui.evidence.arms.runs import (
    HIGHER_IS_BETTER,
    Protocol,
    blocks,
    definitions,
    output_lengths,
    protocols,
    run_value,
    scored,
)
from anvil_tui.evidence.caveats.answers import lengths_differ
from anvil_tui.evidence.documents.unknown import Unknown
from anvil_tui.evidence.statistics import percent_change
from anvil_tui.evidence.verdicts import effect
from anvil_tui.records.arm import Arm, MeasuredRun
from anvil_tui.records.comparison import Effect, VerdictRule
from anvil_tui.records.run_metrics import Clock

_LENGTH_BOUND = frozenset({"ttft_p50_ms", "generation_p50_ms", "e2e_p50_ms", "throughput_tok_s"})
"""Metrics that a longer answer changes by itself."""
_EQUAL_LENGTH_FROM = ("time_to_first_output_p50_ms", "decode_tok_s_p50")


@dataclass(frozen=True)
class Group:
    """The scored runs of both arms under one protocol; `common` is false where the arms share none."""

    protocol: Protocol
    baseline: Sequence[MeasuredRun]
    candidate: Sequence[MeasuredRun]
    common: bool = True

    @property
    def name(self) -> str:
        """The protocol in words: labelled tokens × concurrency."""
        return " × ".join("unknown" if one is None else str(one) for one in self.protocol)


def comparable_groups(baseline: Arm, candidate: Arm) -> list[Group]:
    """The scored runs by common protocol, shortest prompt first; all of them in one group where none is common."""
    old, new = protocols(scored(baseline)), protocols(scored(candidate))
    common = sorted(old.keys() & new.keys(), key=lambda key: (key[0] or 0, -(key[1] or 0)))
    if not common:
        return [Group((None, None), scored(baseline), scored(candidate), common=False)]
    return [Group(key, old[key], new[key]) for key in common]


def metrics_part(
    group: Group, arms: tuple[Arm, Arm], clock: Clock, rule: VerdictRule
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


def equal_length_part(group: Group, arms: tuple[Arm, Arm], clock: Clock, unknown: Unknown) -> dict[str, Any] | None:
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
