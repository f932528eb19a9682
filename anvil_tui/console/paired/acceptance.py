"""The acceptance conditions of a campaign that has ended, from its document."""

from __future__ import annotations

import msgspec

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.records.acceptance import AcceptanceDocument, ConditionState

ACCEPTANCE = "anvil-acceptance/v1"


def read_acceptance(folder: CampaignFolder, path: str) -> tuple[ConditionState, ...]:
    """The conditions as the document at `path` in the folder tells them; none where it cannot be read."""
    try:
        return msgspec.json.decode((folder.path / path).read_bytes(), type=AcceptanceDocument).conditions
    except (OSError, msgspec.MsgspecError):
        return ()
