"""Caveats about who was measured: served context, identity, rehearsals, definitions."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.evidence.arms.invariants import check_invariants
from anvil_tui.evidence.arms.runs import HIGHER_IS_BETTER, definitions, is_rehearsal, paths, scored
from anvil_tui.records.arm import Arm
from anvil_tui.records.comparison import Caveat

_IDENTITY = ("model revision", "image digest", "engine version")


def served_context(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """The served context that each artifact tells, against what is claimed: by the profile, else by the others."""
    told = {run.max_model_len for arm in (baseline, candidate) for run in arm.runs if run.max_model_len is not None}
    said = {
        one.profile.recipe.max_model_len
        for arm in (baseline, candidate)
        for one in arm.profiles
        if one.profile.recipe.max_model_len is not None
    }
    claimed = max(said or told, default=0)
    for arm in (baseline, candidate):
        less = [run for run in arm.runs if run.max_model_len is not None and run.max_model_len < claimed]
        if less and not _declared(arm, less[0].max_model_len):
            found = ", ".join(str(one) for one in sorted({run.max_model_len or 0 for run in less}))
            yield Caveat(
                rule="served_context",
                text=f"{arm.name}: {len(less)} of {len(arm.runs)} runs say served context {found}, against "
                f"{claimed} claimed.",
                evidence=paths(less),
            )


def _declared(arm: Arm, length: int | None) -> bool:
    return any(one.profile.recipe.max_model_len == length for one in arm.profiles)


def identity_missing(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Without revision and digest nobody can serve the same again."""
    known = {one.text.removeprefix("same ") for one in check_invariants(baseline, candidate)}
    missing = [name for name in _IDENTITY if name not in known and not _told(baseline, candidate, name)]
    if missing:
        yield Caveat(
            rule="identity_missing",
            text=f"The inputs do not tell {', '.join(missing)} of both arms.",
            evidence=tuple(dict.fromkeys((*baseline.hashes, *candidate.hashes))),
        )


def _told(baseline: Arm, candidate: Arm, name: str) -> bool:
    """Whether both profiles declare it; they then differ, which `identity_unequal` or the change says."""
    field = {"model revision": "model_revision", "image digest": "image", "engine version": "runtime"}[name]
    return all(
        any(getattr(one.profile.identity, field) is not None for one in arm.profiles) for arm in (baseline, candidate)
    )


def identity_unequal(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """Invariants that do not hold."""
    for one in check_invariants(baseline, candidate):
        if one.status == "violated":
            yield Caveat(
                rule="identity_unequal",
                text=f"Not the {one.text.removeprefix('same ')} in both arms as far as the files tell: {baseline.name} "
                f"{one.baseline}; {candidate.name} {one.candidate}.",
                evidence=one.evidence,
            )


def unlike_definitions(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """A metric that does not mean the same in both arms is not compared; one that is not ours is labelled."""
    for metric in HIGHER_IS_BETTER:
        old, new = definitions(scored(baseline), metric), definitions(scored(candidate), metric)
        both = sorted((old | new) - {""})
        if not both or not old or not new:
            continue
        verb = "means" if old == new else "does not mean the same in both arms and is not compared"
        yield Caveat(
            rule="unlike_definitions",
            text=f"{metric} {verb}: {'; '.join(both)}.",
            evidence=paths([run for run in (*scored(baseline), *scored(candidate)) if run.definitions.get(metric)]),
        )


def rehearsal(baseline: Arm, candidate: Arm) -> Iterator[Caveat]:
    """A simulated engine is never evidence."""
    for arm in (baseline, candidate):
        if is_rehearsal(arm):
            yield Caveat(
                rule="rehearsal",
                text=f"REHEARSAL: {arm.name} is a simulated engine; nothing here is evidence.",
                evidence=(*paths(arm.runs), *(one.path for one in arm.profiles)),
            )
