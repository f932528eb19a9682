"""The end of a paired campaign: its documents and its report, from the folder alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.pairs.facts import counted_loads
from anvil_tui.campaigns.pairs.watched import changed
from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.errors import AnvilError
from anvil_tui.evidence.arms.inputs import read_campaign_arms
from anvil_tui.evidence.declared_invariants import check_named
from anvil_tui.evidence.documents.change import change_document
from anvil_tui.evidence.documents.paired import paired_document
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.arm import Arm
from anvil_tui.records.campaign_file import CampaignFile
from anvil_tui.records.comparison import VerdictRule
from anvil_tui.records.events import BlockLoadEnded, DocumentWritten, Ending, Event, Validated

_ACCEPTANCE = "anvil-acceptance/v1"


def write_documents(
    session: Session, file: CampaignFile, conditions: Sequence[ConditionState], ending: tuple[Ending, str]
) -> None:
    """Write what follows from the artifacts: the acceptance, and the comparison where there are two arms.

    `ending` is how the last load was left, in a word and a sentence.

    A comparison that cannot be made is said in the journal's words by its absence and in the acceptance document.
    """
    events = [event for _, event in read_journal(session.folder.journal) if event is not None]
    refused = ""
    if file.arms.baseline is not None and file.document is not None:
        try:
            document = _comparison(session, file, events, ending)
        except AnvilError as error:
            refused = str(error)
        else:
            _write(session, "documents/comparison.json", document)
    acceptance = {
        "schema": _ACCEPTANCE,
        "campaign": file.name,
        "rehearsal": session.plan.rehearsal,
        "conditions": msgspec.to_builtins(conditions),
        "comparison_refused": refused or None,
    }
    _write(session, "documents/acceptance.json", acceptance)


def _comparison(
    session: Session, file: CampaignFile, events: Sequence[Event], ending: tuple[Ending, str]
) -> dict[str, Any]:
    """The document of the two arms, completed by what only the campaign knows. Raises BadInput."""
    assert file.arms.baseline is not None, "the caller looked"
    loads = counted_loads(events)
    arms = {"baseline": file.arms.baseline, "candidate": file.arms.candidate}
    baseline, candidate = read_campaign_arms(
        session.folder.path,
        [(arm.name or role, arm.lane, loads.get(role, frozenset())) for role, arm in arms.items()],
    )
    when = clock.utc_now()
    if file.document == "change":
        document = change_document(baseline, candidate, generated_at=when)
        document["repository_validation"] = _validations(events) or None
        document["external_documentation"] = msgspec.to_builtins(file.external_documentation)
        closeout = document["campaign_closeout"]
    else:
        rule = VerdictRule(equivalence_percent=file.equivalence_margin_pct)
        document = paired_document(baseline, candidate, generated_at=when, rule=rule)
        closeout = document["campaign_closeout"] = {}
        if file.paired_variable:
            document["protocol"]["paired_variable"] = file.paired_variable
    _close(closeout, file, events)
    document["invariants"] = [
        *document["invariants"],
        *_named_invariants(file, baseline, candidate, document["schema"]),
    ]
    document["caveats"] = [*document["caveats"], *_broken_off(session, events, ending)]
    document["campaign"] = {
        "id": session.plan.campaign_id,
        "name": file.name,
        "order": file.order,
        "blocks": file.blocks,
        "primary_metric": file.primary_metric,
        "equivalence_margin_pct": file.equivalence_margin_pct,
        "controlled_fields": list(file.controlled_fields),
        "undeclared_ok": {one.field: one.why for one in file.undeclared_ok} | session.plan.accepted_differences,
    }
    unknown: dict[str, str] = document["unknown"]
    for key in [key for key in unknown if _filled(document, key)]:
        del unknown[key]
    return document


def _broken_off(session: Session, events: Sequence[Event], ending: tuple[Ending, str]) -> list[dict[str, Any]]:
    """A campaign that did not come to its end compares what there is; whoever reads that must know."""
    how, words = ending
    if how == "complete":
        return []
    whole = {(event.block, event.number) for event in events if isinstance(event, BlockLoadEnded) and event.whole}
    done = f"{len(whole)} of {len(session.plan.loads)} loads were done"
    text = f"The campaign did not come to its end ({how}, {done}): {words}."
    return [{"rule": "broken_off", "text": text, "evidence": ["journal.jsonl"]}]


def _close(closeout: dict[str, Any], file: CampaignFile, events: Sequence[Event]) -> None:
    """What was seen when the last load of the candidate was closed."""
    ended = [event for event in events if isinstance(event, BlockLoadEnded) and event.arm == "candidate"]
    last = ended[-1] if ended else None
    closeout |= {
        "candidate": file.arms.candidate.name or "candidate",
        "health_at_close": last.health if last else None,
        "qualification_mode": file.qualification_mode,
        "shared_memory_reclaimable_bytes": last.shared_memory_reclaimable_bytes if last else None,
        "route_changed": changed("route", events),
        "promotion_changed": changed("promotion", events),
        "post_session_owner": file.post_session_owner,
    }


def _validations(events: Sequence[Event]) -> dict[str, str]:
    return {
        event.name: "passed" if event.exit_code == 0 else f"exit code {event.exit_code}"
        for event in events
        if isinstance(event, Validated)
    }


def _named_invariants(file: CampaignFile, baseline: Arm, candidate: Arm, schema: str) -> list[dict[str, Any]]:
    """The invariants that the campaign file names, in the shape of the document that they join."""
    checked = check_named(file.invariants, baseline, candidate)
    if schema.startswith("controlled-change"):
        return [msgspec.to_builtins(one) for one in checked]
    return [
        {
            "text": one.text,
            "status": one.status,
            baseline.name: one.baseline,
            candidate.name: one.candidate,
            "evidence": list(one.evidence),
        }
        for one in checked
    ]


def _filled(document: Mapping[str, Any], key: str) -> bool:
    """Whether a field that the artifacts could not fill has its value by now."""
    value: Any = document
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False
        value = value[part]
    return value is not None


def _write(session: Session, path: str, document: dict[str, Any]) -> None:
    name = session.free_name(path)
    raw = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    sha256, _ = session.write_bytes(name, raw)
    session.event(DocumentWritten(path=name, sha256=sha256, schema=document["schema"]))
