"""The acceptance conditions of a campaign that no runner steers: from its document, else from what is there."""

from __future__ import annotations

import msgspec

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.records.acceptance import AcceptanceDocument, ConditionState
from anvil_tui.records.campaign_file import CampaignFile

ACCEPTANCE = "anvil-acceptance/v1"


def read_acceptance(folder: CampaignFolder, path: str) -> tuple[ConditionState, ...]:
    """The conditions as the document at `path` in the folder tells them; none where it cannot be read."""
    try:
        return msgspec.json.decode((folder.path / path).read_bytes(), type=AcceptanceDocument).conditions
    except (OSError, msgspec.MsgspecError):
        return ()


def judge_acceptance(folder: CampaignFolder, file: CampaignFile) -> tuple[ConditionState, ...]:
    """The conditions from journal and artifacts, of a campaign whose runner wrote no document; none where it cannot be.

    Expensive: every artifact is read.
    """
    # Only a campaign that broke off needs them.
    from anvil_tui.campaigns.pairs.facts import gather, read_artifacts
    from anvil_tui.evidence.acceptance import judge_conditions

    events = [event for _, event in read_journal(folder.journal) if event is not None]
    try:
        artifacts = read_artifacts(folder.path)
    except (OSError, ValueError, msgspec.MsgspecError):
        return ()
    return judge_conditions(file.acceptance, gather(folder.path, events, artifacts, finished=False))
