"""Caveats about what was sent: warm prefixes, labels that exceed the tokens."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from anvil_tui.evidence.arms.runs import cached_share, paths, prompt_lengths, scored
from anvil_tui.records.arm import Arm
from anvil_tui.records.comparison import Caveat

_COLD_SHARE = 0.01
_LABEL_TOLERANCE = 0.01


def warm_prefixes(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """A prefill over cached tokens says little about the engine's prefill; shares that differ compare unlike work."""
    for arm in (baseline, candidate):
        shares = [(run, share) for run in scored(arm) if (share := cached_share(run)) is not None]
        if any(share > _COLD_SHARE for _, share in shares):
            told = ", ".join(f"{share:.3f}" for _, share in shares)
            yield Caveat(
                rule="warm_prefixes",
                text=f"{arm.name}: cached share of the prompt {told} by run: effective prefill and time to first "
                "output are those of a warm prefix cache.",
                evidence=paths([run for run, _ in shares]),
            )


def cache_not_told(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Cold or warm is unknown where the server tells no cached tokens."""
    for arm in (baseline, candidate):
        silent = [run for run in scored(arm) if cached_share(run) is None]
        if silent:
            yield Caveat(
                rule="cache_not_told",
                text=f"{arm.name}: {len(silent)} runs tell no cached tokens; whether their prompts were cold is "
                "unknown.",
                evidence=paths(silent),
            )


def labels_exceed_tokens(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """The API's count is what a prompt held, not the label."""
    for arm in (baseline, candidate):
        over = {
            (run.label_tokens, round(median(lengths)))
            for run in scored(arm)
            if run.label_tokens is not None
            and (lengths := prompt_lengths(run))
            and run.label_tokens > median(lengths) * (1 + _LABEL_TOLERANCE)
        }
        if over:
            told = ", ".join(f"{label:,} labelled, {actual:,} counted" for label, actual in sorted(over))
            yield Caveat(
                rule="labels_exceed_tokens",
                text=f"{arm.name}: prompts are shorter than their label ({told}).",
                evidence=paths([run for run in scored(arm) if run.label_tokens in {label for label, _ in over}]),
            )


def unequal_prompt_lengths(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Prompts of other lengths are other work."""
    old = sorted({length for run in scored(baseline) for length in prompt_lengths(run)})
    new = sorted({length for run in scored(candidate) for length in prompt_lengths(run)})
    if old and new and abs(median(new) - median(old)) > _LABEL_TOLERANCE * median(old):
        yield Caveat(
            rule="unequal_prompt_lengths",
            text=f"The prompts differ in length: {baseline.name} {old[0]:,} to {old[-1]:,} tokens, {candidate.name} "
            f"{new[0]:,} to {new[-1]:,}.",
            evidence=paths([*scored(baseline), *scored(candidate)]),
        )
