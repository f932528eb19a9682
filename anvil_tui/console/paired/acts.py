"""What the operator asks for around paired campaigns, done in threads: read files, begin, decide, report.

What only they need is imported in their threads, as by the other acts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from anvil_tui.console.acts import await_writer
from anvil_tui.errors import BadInput, CannotRun
from anvil_tui.locations import Locations

if TYPE_CHECKING:
    from anvil_tui.campaigns.pairs.pace import Past
    from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign
    from anvil_tui.campaigns.store.folder import CampaignFolder
    from anvil_tui.records.campaign_file import NamedDifference

    CampaignFiles = Mapping[str, PlannedCampaign | BadInput]


@dataclass(frozen=True)
class Prospect:
    """A campaign that could begin, what is known of it from before, and the key that could sign it at its end."""

    campaign: PlannedCampaign
    past: Past
    sealer: str | None = None
    """Who would sign unattended; None where every key asks for a passphrase, or there is none."""


@dataclass(frozen=True)
class Draft:
    """A decision text to begin with, and where it is from."""

    text: str
    origin: str


def read_files(locations: Locations) -> CampaignFiles:
    """Every campaign file by name, or why it is not valid here."""
    from anvil_tui.campaigns.pairs.campaign_file import all_campaign_files

    return all_campaign_files(locations)


def prospect(campaign: PlannedCampaign) -> Callable[[Locations], Prospect]:
    """Look at the past of a campaign and at the keys."""

    def work(locations: Locations) -> Prospect:
        from anvil_tui.campaigns import sealing
        from anvil_tui.campaigns.pairs.pace import read_past

        try:
            sealer = sealing.choose_key(locations, unattended=True).principal
        except CannotRun:
            sealer = None
        return Prospect(campaign, read_past(campaign, locations), sealer)

    return work


def begin(
    campaign: PlannedCampaign, named: tuple[NamedDifference, ...], *, seal: bool = False
) -> Callable[[Locations], str]:
    """Check a campaign as it was shown and start it; the campaign's id. `seal`: seal and sign it at its end."""

    def work(locations: Locations) -> str:
        from anvil_tui.campaigns import preflight, sealing
        from anvil_tui.campaigns.begin import begin_paired
        from anvil_tui.campaigns.pairs.campaign_file import check_declared

        check_declared(campaign, named)
        if seal:
            sealing.choose_key(locations, unattended=True)
        preflight.check_paired(campaign, locations)
        return begin_paired(locations, campaign, {one.field: one.why for one in named}, seal=seal).folder.id

    return work


def draft_decision(folder: CampaignFolder) -> Callable[[Locations], Draft]:
    """The newest decision text of a campaign, else one that its documents propose."""

    def work(_: Locations) -> Draft:
        from anvil_tui.campaigns.store.journal import read_journal
        from anvil_tui.console.paired.acceptance import ACCEPTANCE
        from anvil_tui.console.paired.decision_view import starting_text
        from anvil_tui.evidence.documents import change, paired
        from anvil_tui.records.events import Decided, DocumentWritten

        if folder.closed:
            raise CannotRun(f"{folder.id} is sealed; a decision belongs in it before that")
        events = [event for _, event in read_journal(folder.journal) if event is not None]
        decided = [event.path for event in events if isinstance(event, Decided)]
        if decided:
            text = (folder.path / decided[-1]).read_bytes().decode("utf-8", "replace")
            return Draft(text, decided[-1])
        written = {event.schema: event.path for event in events if isinstance(event, DocumentWritten)}
        comparison = written.get(paired.SCHEMA) or written.get(change.SCHEMA)
        acceptance = written.get(ACCEPTANCE)
        told = comparison or acceptance
        text = starting_text(_read(folder, comparison), _read(folder, acceptance))
        return Draft(text, told if told is not None and text else "nothing: no document proposes one")

    return work


def _read(folder: CampaignFolder, path: str | None) -> dict[str, Any]:
    """A document of the folder; empty where there is none."""
    if path is None:
        return {}
    try:
        return msgspec.json.decode((folder.path / path).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError) as error:
        raise CannotRun(f"{folder.id}/{path}: {error}") from None


def decide(folder: CampaignFolder, text: str) -> Callable[[Locations], str]:
    """Put a decision text into a campaign; the sentence about it."""

    def work(_: Locations) -> str:
        from anvil_tui.campaigns import deciding

        await_writer(folder)
        name = deciding.decide(folder, text.encode("utf-8"), "the decision text")
        return f"the decision stands in {name}; b seals the campaign with it"

    return work


def report(folder: CampaignFolder) -> Callable[[Locations], Path]:
    """The path of the campaign's report: the newest one, written anew where it lacks the decision or there is none.

    Raises CannotRun for a sealed campaign without a report, and for one that is still written.
    """

    def work(_: Locations) -> Path:
        from anvil_tui.campaigns import reporting
        from anvil_tui.campaigns.store.journal import read_journal
        from anvil_tui.records.events import DocumentWritten

        await_writer(folder)
        events = [event for _, event in read_journal(folder.journal) if event is not None]
        reports = [one.path for one in events if isinstance(one, DocumentWritten) and one.schema == reporting.HTML]
        if reports and (folder.closed or not reporting.stale(folder)):
            return folder.path / reports[-1]
        return reporting.write(folder, None)

    return work
