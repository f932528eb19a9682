"""The operator's decision: a text in the campaign folder, named in the journal, settled before sealing."""

from __future__ import annotations

import hashlib

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal
from anvil_tui.errors import BadInput, CannotRun, Fault
from anvil_tui.files import write_new
from anvil_tui.records.events import Decided

_LIMIT = 256 * 1024


def decide(folder: CampaignFolder, text: bytes, source: str) -> str:
    """Write `decision.txt`, or `decision-2.txt` … where one stands; the newest one counts. Returns its name.

    Raises BadInput for a text that is empty, too long or not UTF-8, CannotRun where the campaign is sealed or written.
    """
    if not text.strip() or len(text) > _LIMIT:
        raise BadInput(source, Fault("text", f"{len(text)} bytes", f"a text that is not empty, up to {_LIMIT} bytes"))
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(source, Fault(f"byte {error.start}", "not UTF-8", "UTF-8 text")) from None
    if folder.closed:
        raise CannotRun(f"{folder.id} is sealed; a decision belongs in it before that")
    with Journal.take(folder.journal) as journal:
        number, name = 1, "decision.txt"
        while (folder.path / name).exists():
            number += 1
            name = f"decision-{number}.txt"
        write_new(folder.path / name, text)
        journal.append(Decided(path=name, sha256=hashlib.sha256(text).hexdigest()))
    return name
