"""The report of a campaign: written at the end of a paired one, and on request."""

from __future__ import annotations

import hashlib
from pathlib import Path

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal, read_journal
from anvil_tui.errors import CannotRun
from anvil_tui.evidence.report.report import write_report
from anvil_tui.files import write_atomic, write_new
from anvil_tui.records.events import Decided, DocumentWritten

HTML = "text/html"


def stale(folder: CampaignFolder) -> bool:
    """Whether a report was written before the operator's last decision, which it should tell."""
    events = [event for _, event in read_journal(folder.journal) if event is not None]
    reports = [at for at, event in enumerate(events) if isinstance(event, DocumentWritten) and event.schema == HTML]
    decisions = [at for at, event in enumerate(events) if isinstance(event, Decided)]
    return bool(reports and decisions and decisions[-1] > reports[-1])


def write(folder: CampaignFolder, output: Path | None) -> Path:
    """Write `report.html`, or `report-2.html` … where one stands; with `output`, only there. Returns its path.

    Raises CannotRun where the campaign is sealed or written and no `output` is named.
    """
    if output is not None:
        write_atomic(output, write_report(folder.path), mode=0o644)
        return output
    if folder.closed:
        raise CannotRun(f"{folder.id} is sealed; --output FILE writes its report elsewhere")
    with Journal.take(folder.journal) as journal:
        return write_held(folder, journal)


def write_held(folder: CampaignFolder, journal: Journal) -> Path:
    """Write the report of a campaign whose journal this process holds."""
    number, name = 1, "report.html"
    while (folder.path / name).exists():
        number += 1
        name = f"report-{number}.html"
    raw = write_report(folder.path)
    write_new(folder.path / name, raw)
    journal.append(DocumentWritten(path=name, sha256=hashlib.sha256(raw).hexdigest(), schema=HTML))
    return folder.path / name
