"""Invariants that a campaign file names, each with the one thing that checks it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from anvil_tui.evidence.arms.differences import flat
from anvil_tui.records.arm import Arm
from anvil_tui.records.campaign_file import DeclaredInvariant
from anvil_tui.records.comparison import Invariant
from anvil_tui.records.lane import ProcessLaunch


def check_named(named: Iterable[DeclaredInvariant], baseline: Arm, candidate: Arm) -> tuple[Invariant, ...]:
    """Each named invariant: `observed` where both arms show one and the same value, `violated` where they show others.

    A profile's field or variable says what was asked for: it is `declared`, or `violated` where it differs.
    """
    return tuple(_check(one, baseline, candidate) for one in named)


def _check(one: DeclaredInvariant, baseline: Arm, candidate: Arm) -> Invariant:
    old, old_files = _values(one, baseline)
    new, new_files = _values(one, candidate)
    seen = one.log is not None or one.api is not None
    status: Literal["observed", "declared", "violated"]
    if not old or not new:
        status = "declared"
    elif old != new or len(old) > 1:
        status = "violated"
    else:
        status = "observed" if seen else "declared"
    return Invariant(
        text=one.text,
        status=status,
        baseline=", ".join(sorted(old)) or None,
        candidate=", ".join(sorted(new)) or None,
        evidence=tuple(sorted({*old_files, *new_files})),
    )


def _values(one: DeclaredInvariant, arm: Arm) -> tuple[set[str], set[str]]:
    """What the arm shows of it, over all its loads and runs, and the files that show it."""
    values: set[str] = set()
    files: set[str] = set()
    for path, value in _shown(one, arm):
        if value is not None:
            values.add(str(value))
            files.add(path)
    return values, files


def _shown(one: DeclaredInvariant, arm: Arm) -> Iterable[tuple[str, object]]:
    if one.field is not None:
        return [(named.path, flat(named.profile).get(one.field)) for named in arm.profiles]
    if one.env is not None:
        launches = [(named.path, named.profile.launch) for named in arm.profiles]
        return [(path, launch.env.get(one.env)) for path, launch in launches if isinstance(launch, ProcessLaunch)]
    if one.log is not None:
        return [(start.path, _logged(one.log, start.report)) for start in arm.starts]
    if one.api is not None:
        return [(run.path, getattr(run, one.api)) for run in arm.runs]
    return []


def _logged(name: str, report: object) -> object:
    """A fact or a figure of a start-up report by its name."""
    facts: dict[str, object] = getattr(report, "facts", {})
    found = facts.get(name) or getattr(report, name, None)
    return getattr(found, "value", None)
