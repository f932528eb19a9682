"""The list of caveat rules, in the order in which they are told."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from anvil_tui.evidence.arms.runs import compared_runs
from anvil_tui.evidence.caveats import answers, failures, identity, memory, order, prompts, starts
from anvil_tui.records.arm import Arm
from anvil_tui.records.comparison import Caveat

Rule = Callable[[Arm, Arm], Iterable[Caveat]]

ABOUT_ARMS: tuple[Rule, ...] = (
    identity.rehearsal,
    failures.loads_failed,
    identity.served_context,
    identity.identity_missing,
    identity.identity_unequal,
    identity.unlike_definitions,
    memory.memory_phases,
    memory.memory_not_captured,
    memory.reserve_not_passed,
    starts.unlike_cache_state,
    starts.kv_tokens_unlike,
)
"""Rules about everything that is known of an arm."""

ABOUT_RUNS: tuple[Rule, ...] = (
    order.too_few_blocks,
    order.no_warm_up,
    order.not_interleaved,
    order.far_apart,
    prompts.warm_prefixes,
    prompts.cache_not_told,
    prompts.labels_exceed_tokens,
    prompts.unequal_prompt_lengths,
    answers.unequal_output_lengths,
    answers.rate_from_a_burst,
    answers.cut_answers,
    failures.failures_excluded,
    failures.metrics_disagree,
    failures.metrics_not_recomputed,
    failures.host_pauses,
)
"""Rules about the runs that are compared: those of a protocol that both arms ran."""


def find_caveats(baseline: Arm, candidate: Arm) -> tuple[Caveat, ...]:
    """What every rule has to say of these arms."""
    compared = compared_runs(baseline, candidate)
    about_arms = [caveat for rule in ABOUT_ARMS for caveat in rule(baseline, candidate)]
    return (*about_arms, *(caveat for rule in ABOUT_RUNS for caveat in rule(*compared)))
