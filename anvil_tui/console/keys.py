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
    acts: bool = False
    """Whether it changes something beside this console: `--read-only` switches it off."""

    @property
    def label(self) -> str:
        return self.shown or self.keys.split(",")[0]


KEYS = (
    Key("app.quit", "q", "leave", "console: Quit; a run goes on unless you stop it", "Quit"),
    Key("app.help", "question_mark,f1", "help", "console: Show every key", "Help", "? f1"),
    Key("lane.start", "u", "lanes", "lane: Pick a lane; one that is down is started", "Lanes"),
    Key("run.ladder", "l", "ladder", "run: Climb a ladder of prompt lengths", "Ladder", acts=True),
    Key("run.gate", "F", "gate", "run: Check what the lane can do: the functional gate", acts=True),
    Key("run.capacity", "L", "capacity", "run: Measure equal requests, so many at a time: capacity runs", acts=True),
    Key("run.paired", "p", "paired", "run: Pick a paired campaign, see what it does, start it", "Paired", acts=True),
    Key("run.stop", "x", "stop_run", "run: Stop the run", "Stop run", acts=True),
    Key("bundle.make", "b", "seal", "bundle: Seal and sign the campaign", "Seal", acts=True),
    Key("campaign.compare", "C", "compare", "campaign: Compare its arms side by side", "Compare"),
    Key("bundle.verify", "v", "verify", "bundle: Verify the campaign's bundle", "Verify"),
    Key("campaign.pick", "c", "campaigns", "campaign: Pick one of the history", "Campaigns"),
    Key("log.filter", "slash", "filter", "log: Filter lines; ! in front inverts", "Filter", "/"),
    Key("log.follow", "f", "follow", "log: Follow its end", "Follow"),
    Key("lane.stop", "X", "stop_lane", "lane: Stop the lane", "Stop lane", acts=True),
    Key("run.resume", "r", "resume", "run: Go on with an interrupted or stopped campaign", "Resume", acts=True),
    Key("campaign.decide", "d", "decide", "campaign: Edit the decision that is sealed with it", acts=True),
    Key(
        "campaign.report", "o", "report", "campaign: Tell where its report is; write it where there is none", acts=True
    ),
    Key("alarm.acknowledge", "a", "acknowledge", "alarm: Acknowledge", acts=True),
    Key("live.pause", "space", "pause", "console: Freeze the display; recording goes on"),
    Key("pane.gpus", "1", "pane('gpus')", "pane: GPUs"),
    Key("pane.rungs", "2", "pane('rungs')", "pane: Rungs"),
    Key("pane.startup", "3", "pane('startup')", "pane: Start-up report"),
    Key("pane.log", "4", "pane('log')", "pane: Log"),
    Key("pane.notes", "5", "notes", "pane: All messages of the campaign"),
    Key("pane.next", "tab", "app.focus_next", "pane: The next one"),
    Key("pane.previous", "shift+tab", "app.focus_previous", "pane: The one before", shown="S-tab"),
    Key("pane.zoom", "z", "zoom", "pane: Zoom the focused one; esc goes back"),
    Key("pane.down", "j,down", "move(1)", "pane: Down a row or a log line", shown="j ↓"),
    Key("pane.up", "k,up", "move(-1)", "pane: Up a row or a log line", shown="k ↑"),
    Key("pane.page_down", "pagedown", "page(1)", "pane: Down a page", shown="pgdn"),
    Key("pane.page_up", "pageup", "page(-1)", "pane: Up a page", shown="pgup"),
    Key(
        "pane.open", "enter", "open", "pane: Open the row: a rung's checks, the log line of a figure, a log line whole"
    ),
    Key("log.top", "g,home", "log_top", "log: Go to the top", shown="g"),
    Key("log.end", "G,end", "log_end", "log: Go to the end and follow", shown="G"),
    Key("log.left", "left", "log_sideways(-1)", "log: To the left of long lines", shown="←"),
    Key("log.right", "right", "log_sideways(1)", "log: To the right of long lines", shown="→"),
    Key("log.wrap", "w", "log_wrap", "log: Wrap long lines, or not"),
    Key("log.times", "t", "log_times", "log: Hide the time stamps at the heads of lines, or show them"),
    Key("log.error", "e", "log_error('after')", "log: Go to the next error"),
    Key("log.error_before", "E", "log_error('before')", "log: Go to the error before"),
    Key("log.hit", "n", "log_hit('after')", "log: Go to the next line that the filter matches"),
    Key("log.hit_before", "N", "log_hit('before')", "log: Go to the one before that the filter matches"),
    Key("log.mark", "m", "log_mark", "log: Mark the line, or take its mark away"),
    Key("log.back", "apostrophe", "log_back", "log: Go back to the next marked line, round", shown="'"),
    Key("log.copy", "y", "copy_line", "log: Copy the line"),
    Key("log.copy_seen", "Y", "copy_seen", "log: Copy every line that is seen"),
    Key("log.save", "ctrl+s", "log_save", "log: Save the lines that pass the filter as a file", shown="^s"),
    Key("app.screenshot", "s", "screenshot", "console: Save a screenshot (SVG) in the state folder"),
    Key("app.theme", "T", "theme", "console: Next theme, until the console is left"),
    Key("app.mouse", "M", "mouse", "console: Give the mouse to the terminal, for its own selection, or take it back"),
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
    Key("app.escape", "escape", "escape", "console: Back; clear the filter", shown="esc"),
)


def bindings() -> list[BindingType]:
    """The bindings of the live screen."""
    return [
        Binding(key.keys, key.action, key.hint or key.title, show=False, id=key.id, tooltip=key.title) for key in KEYS
    ]
