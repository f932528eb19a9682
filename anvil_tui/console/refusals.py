"""Why a key does nothing now: one sentence each, which the key itself tells, and the help."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.console.keys import KEYS
from anvil_tui.console.snapshot import CampaignRow, Desk, LaneRow, LogSnapshot

READ_ONLY = "READ ONLY: this console only looks"


def refusals(desk: Desk, *, read_only: bool) -> dict[str, str]:
    """By the id of a key why it does nothing with this desk; keys that work are not among it."""
    found = dict(_of_desk(desk))
    return found | {key.id: READ_ONLY for key in KEYS if key.acts} if read_only else found


def log_refusals(log: LogSnapshot, marks: int) -> dict[str, str]:
    """The same of the keys of the log; `marks` is how many of its lines are marked."""
    found: dict[str, str] = {}
    if not log.lines:
        found |= {"log.copy": "no log line to copy", "log.copy_seen": "no log line to copy"}
        found |= {"log.save": "no log line to save", "log.mark": "no log line to mark"}
    if not log.filter:
        found |= dict.fromkeys(("log.hit", "log.hit_before"), "no filter is set: / sets one")
    if not marks:
        found["log.back"] = "no line is marked: m marks one"
    return found


def _of_desk(desk: Desk) -> Iterator[tuple[str, str]]:
    row, running = desk.shown.row if desk.shown is not None else None, desk.running is not None
    whys = {
        "run.stop": "" if running else "no run to stop",
        "alarm.acknowledge": "" if running else "no run, so no alarm to acknowledge",
        "lane.stop": _stopping(desk.lane),
        **dict.fromkeys(
            ("run.ladder", "run.gate", "run.capacity"),
            "no lane is shown: u picks one" if desk.lane is None or desk.lane.lane is None else "",
        ),
        "bundle.make": _sealing(row),
        "bundle.verify": "nothing to verify: the shown campaign is not sealed; b seals it"
        if row is None or row.standing != "sealed"
        else "",
        "run.resume": "only an interrupted or stopped campaign can be resumed"
        if row is None or row.standing not in ("interrupted", "stopped")
        else "",
        "campaign.compare": "only a paired campaign has arms to compare: p starts one, c picks one of the history"
        if row is None or not row.paired
        else "",
        "campaign.decide": _deciding(row),
        "campaign.report": _reporting(row),
        "campaign.pick": _picking(desk),
    }
    return ((id, why) for id, why in whys.items() if why)


def _picking(desk: Desk) -> str:
    if desk.unread:
        return "the campaigns are being read"
    return "" if desk.campaigns else "no campaign yet: u starts a lane, l climbs a ladder"


def _stopping(lane: LaneRow | None) -> str:
    if lane is None:
        return "no lane of this console runs here"
    return "" if lane.living else f"{lane.name} is {lane.state}: nothing to stop"


def _sealing(row: CampaignRow | None) -> str:
    if row is None:
        return "no campaign is shown"
    if row.running:
        return "it still runs: x stops it"
    return "it is signed already; v verifies it" if row.signed else ""


def _deciding(row: CampaignRow | None) -> str:
    if row is None:
        return "no campaign is shown"
    if row.running:
        return "it still runs: a decision follows its end"
    return "it is sealed: a decision belongs in it before that" if row.standing == "sealed" else ""


def _reporting(row: CampaignRow | None) -> str:
    if row is None:
        return "no campaign is shown"
    return "it still runs: its report follows its end" if row.running else ""
