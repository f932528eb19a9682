"""The next test, written as a campaign file: what would settle what this result leaves open."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from anvil_tui.evidence.arms.runs import prompt_lengths, scored
from anvil_tui.evidence.arms.starts import last_start
from anvil_tui.records.arm import Arm

SCHEMA = "anvil-campaign/v1"
_ROUND = 50_000


def next_test(candidate: Arm, at: int | None) -> dict[str, Any] | None:
    """A ladder at a longer context, as the tables of a TOML file; None where the candidate tells no KV tokens.

    Without `at` the length is as many full lengths as the report says would fit. The prompt to reach is three quarters
    of it, rounded up to 50,000 where the room allows. The lane that the file names is not there yet: the recipe beside
    its name says what it must be.
    """
    start = last_start(candidate)
    report = start.report if start is not None else None
    if report is None or report.kv_tokens is None or report.max_model_len is None:
        return None
    length = int(report.max_model_len.value)
    longer = at if at is not None else int(report.kv_tokens.value) // length * length
    largest = max((n for run in scored(candidate) for n in prompt_lengths(run)), default=0)
    if longer <= length and largest >= length // 2:
        return None
    profile = candidate.profiles[0].profile if candidate.profiles else None
    recipe: dict[str, Any] = {"max_model_len": longer}
    if profile is not None:
        told = {name: value for name, value in msgspec.to_builtins(profile.recipe).items() if value not in (None, {})}
        recipe = {**told, "max_model_len": longer}
    rungs = [run for run in scored(candidate) if run.what == "rung"]
    last = rungs[-1] if rungs else None
    max_tokens = last.max_tokens if last and last.max_tokens else profile.endpoint.max_tokens if profile else 2048
    margin = (
        last.margin_tokens if last and last.margin_tokens is not None else profile.endpoint.margin if profile else 1024
    )
    limit = longer - max_tokens - margin
    above = min(math.ceil(longer * 0.75 / _ROUND) * _ROUND, limit - 1)
    ladder: dict[str, Any] = {
        "targets": sorted({min(above + 1_000, limit), limit}),
        "max_tokens": max_tokens,
        "margin": margin,
    }
    effort = last.reasoning_effort if last else profile.endpoint.reasoning_effort if profile else None
    gate: dict[str, Any] = {}
    if effort is not None:
        ladder["reasoning_effort"] = gate["reasoning_effort"] = effort
    lane = candidate.profiles[0].lane if candidate.profiles else candidate.name
    return {
        "schema": SCHEMA,
        "name": f"{longer:,} tokens of context, really asked",
        "about": f"Whether {candidate.name} really serves {longer:,} tokens of context: a separate lane that differs "
        f"in max_model_len only.",
        "gate_arms": ["candidate"],
        "arms": {"candidate": {"lane": f"{lane}-{longer}", "recipe": recipe}},
        "ladder": ladder,
        "post_gate": gate,
        "acceptance": [
            {"what": "healthy_start", "words": "healthy start"},
            {
                "what": "reported_kv_tokens",
                "at_least": longer,
                "words": f"a reported KV pool of at least {longer:,} tokens",
            },
            {"what": "actual_prompt_tokens", "above": above, "words": f"an actual prompt above {above:,} tokens"},
            {"what": "post_probe_gate", "words": "functional checks pass after the longest probe"},
            {"what": "no_route_change", "words": "no route change"},
            {"what": "no_promotion_change", "words": "no promotion change"},
        ],
        "watch": [
            {"means": "route", "file": "{site.route_file}"},
            {"means": "promotion", "file": "{site.promotion_file}"},
        ],
    }
