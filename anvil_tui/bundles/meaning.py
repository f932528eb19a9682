"""What the contents of a bundle must mean once every byte is known to be the sealed one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from anvil_tui.bundles import journal_check, manifest
from anvil_tui.bundles.contents import Contents
from anvil_tui.bundles.journal_check import Journal
from anvil_tui.bundles.refused import Refused, finding
from anvil_tui.records.bundle import Finding

Check = Callable[[Contents], Iterator[Finding]]
"""Judges the kept bytes and yields what is wrong, or a note."""


class _Told(msgspec.Struct, frozen=True):
    """The one field that every artifact, plan and document has in common."""

    rehearsal: bool = False


class _Profiles(msgspec.Struct, frozen=True):
    lane_sha256: dict[str, str] = {}


def journal_holds(contents: Contents) -> Iterator[Finding]:
    """The chain is whole, `sealed` is last, every started run is accounted for, artifacts are as recorded."""
    raw = contents.kept.get(journal_check.NAME)
    if raw is None:
        if journal_check.NAME in contents.withheld:
            yield finding("JOURNAL_WITHHELD", "without the journal nobody can tell whether runs were left out")
        elif journal_check.NAME not in contents.hashes:
            yield finding("JOURNAL_BROKEN", "there is none", journal_check.NAME)
        return
    try:
        journal = journal_check.read(raw)
    except Refused as refused:
        yield refused.finding
        return
    yield from journal_check.check(journal, contents.hashes, contents.sizes)
    yield from _manifest_as_journal(contents, journal)


def profiles_as_planned(contents: Contents) -> Iterator[Finding]:
    """Each lane profile is the one that the plan hashed before the first load."""
    raw = contents.kept.get("plan.json")
    if raw is None:
        return
    try:
        planned = msgspec.json.decode(raw, type=_Profiles).lane_sha256
    except (msgspec.MsgspecError, ValueError, RecursionError):
        yield finding("ARTIFACT_NOT_AS_RECORDED", "the plan cannot be read", "plan.json")
        return
    for lane, sha256 in planned.items():
        path = f"lanes/{lane}.toml"
        if contents.hashes.get(path) != sha256:
            yield finding("ARTIFACT_NOT_AS_RECORDED", "it is not the profile that the plan was made with", path)


def rehearsal_is_told(contents: Contents) -> Iterator[Finding]:
    """Nothing that calls itself a rehearsal may stand in a bundle that does not."""
    if contents.manifest.rehearsal:
        return
    for path, raw in contents.kept.items():
        if path == manifest.NAME or not path.endswith(".json"):
            continue
        try:
            rehearsal = msgspec.json.decode(raw, type=_Told).rehearsal
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        if rehearsal:
            yield finding("MANIFEST_DISAGREES", "it is a rehearsal, and the manifest says that this is none", path)


CHECKS: tuple[Check, ...] = (journal_holds, profiles_as_planned, rehearsal_is_told)


def _manifest_as_journal(contents: Contents, journal: Journal) -> Iterator[Finding]:
    """The manifest's campaign, ending, runs and rehearsal are those of the journal."""
    told = contents.manifest
    planned = journal.planned
    if planned is None or (planned.campaign_id, planned.campaign_kind) != (told.bundle_id, told.kind):
        yield finding("MANIFEST_DISAGREES", "the journal is that of another campaign", manifest.NAME)
    if journal.sealed is not None and journal.sealed.ending != told.status:
        yield finding("MANIFEST_DISAGREES", f"the journal ended {journal.sealed.ending}", manifest.NAME)
    if journal.rehearsal and not told.rehearsal:
        yield finding("MANIFEST_DISAGREES", "the journal is that of a rehearsal", manifest.NAME)
    try:
        runs = journal_check.runs(journal)
    except Refused:
        return  # named by the check of the journal itself
    if runs != told.runs:
        yield finding("MANIFEST_DISAGREES", "its runs are not those of the journal", manifest.NAME)
