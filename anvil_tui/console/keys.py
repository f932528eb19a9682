"""Every key of the live screen, once: the bindings, the help, the key line and the command palette come from here."""

from __future__ import annotations

from dataclasses import dataclass

from textual.binding import Binding, BindingType


@dataclass(frozen=True)
class Key:
    """One thing that the operator can do. `action` is a method of the live screen, or the app's where it says so."""

    id: str
    keys: str
    action: str
    title: str
    """As the palette lists it: `area: what it does`."""
    hint: str = ""
    """Short word for the key line; none keeps it out of there."""
    shown: str = ""
    """The key as it is written for people, where that differs."""
    palette: bool = True

    @property
    def label(self) -> str:
        return self.shown or self.keys.split(",")[0]


KEYS = (
    Key("app.quit", "q", "leave", "console: Quit; a run goes on unless you stop it", "Quit"),
    Key("app.help", "question_mark,f1", "help", "console: Show every key", "Help", "?"),
    Key("lane.start", "u", "lanes", "lane: Pick a lane, start it", "Lanes"),
    Key("run.ladder", "l", "ladder", "run: Climb a ladder of prompt lengths", "Ladder"),
    Key("run.paired", "p", "paired", "run: Pick a paired campaign, see what it does, start it", "Paired"),
    Key("run.stop", "x", "stop_run", "run: Stop the run", "Stop run"),
    Key("bundle.make", "b", "seal", "bundle: Seal and sign the campaign", "Seal"),
    Key("campaign.compare", "C", "compare", "campaign: Compare its arms side by side", "Compare"),
    Key("bundle.verify", "v", "verify", "bundle: Verify the campaign's bundle", "Verify"),
    Key("campaign.pick", "c", "campaigns", "campaign: Pick one of the history", "Campaigns"),
    Key("log.filter", "slash", "filter", "log: Filter lines; ! in front inverts", "Filter", "/"),
    Key("log.follow", "f", "follow", "log: Follow its end", "Follow"),
    Key("lane.stop", "X", "stop_lane", "lane: Stop the lane", "Stop lane"),
    Key("run.resume", "r", "resume", "run: Go on with an interrupted or stopped campaign", "Resume"),
    Key("campaign.decide", "d", "decide", "campaign: Edit the decision that is sealed with it"),
    Key("campaign.report", "o", "report", "campaign: Tell where its report is; write it where there is none"),
    Key("alarm.acknowledge", "a", "acknowledge", "alarm: Acknowledge"),
    Key("live.pause", "space", "pause", "console: Freeze the display; recording goes on"),
    Key("pane.gpus", "1", "pane('gpus')", "pane: GPUs"),
    Key("pane.rungs", "2", "pane('rungs')", "pane: Rungs"),
    Key("pane.startup", "3", "pane('startup')", "pane: Start-up report; enter jumps to the log line"),
    Key("pane.log", "4", "pane('log')", "pane: Log"),
    Key("pane.notes", "5", "notes", "pane: All messages of the campaign"),
    Key("pane.zoom", "z", "zoom", "pane: Zoom the focused pane; esc goes back"),
    Key("log.top", "g", "log_top", "log: Go to the top"),
    Key("log.end", "G", "log_end", "log: Go to the end and follow"),
    Key("log.error", "e", "log_error('before')", "log: Mark the error before"),
    Key("log.error_after", "E", "log_error('after')", "log: Mark the error after"),
    Key("log.hit", "n", "log_hit('after')", "log: Mark the next line that the filter matches"),
    Key("log.hit_before", "N", "log_hit('before')", "log: Mark the one before that the filter matches"),
    Key("log.copy", "y", "copy_line", "log: Copy the marked line (a click marks one), else the lowest seen"),
    Key("log.copy_seen", "Y", "copy_seen", "log: Copy every line that is seen"),
    Key("app.screenshot", "s", "screenshot", "console: Save a screenshot (SVG) in the state folder"),
    Key("app.theme", "T", "theme", "console: Next theme, until the console is left"),
    Key("app.redraw", "ctrl+l", "redraw", "console: Draw the screen again", shown="^l"),
    Key(
        "app.interrupt",
        "ctrl+c",
        "app.interrupt",
        "console: Copy what is selected, else stop the run; without a run, twice quits",
        shown="^c",
        palette=False,
    ),
    Key("app.palette", "colon", "palette", "console: Command palette", shown="^p :", palette=False),
    Key("app.escape", "escape", "escape", "console: Back; clear the filter", shown="esc", palette=False),
)


def bindings() -> list[BindingType]:
    """The bindings of the live screen."""
    return [
        Binding(key.keys, key.action, key.hint or key.title, show=False, id=key.id, tooltip=key.title) for key in KEYS
    ]
