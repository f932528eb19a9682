"""The log pane's words: its title, its state, one row."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from anvil_tui.console.snapshot import LogSnapshot
from anvil_tui.console.views.figures import count, fit, outside, span


def log_title(
    log: LogSnapshot, *, follow: bool, below: int, now_us: int, width: int, modes: Sequence[str] = ()
) -> Content:
    """What is shown of which log: follow or not, how many lines, what is filtered, how long it has been silent.

    `modes` are words for how its lines are shown now.
    """
    if log.path is None:
        return Content("Log")
    if log.page is not None:
        return Content(fit("  ".join((f"Log  at byte {log.page:,}  (f: back to the end)", *modes)), width))
    state = "follow" if follow else f"held, +{count(below)} lines below"
    parts = [f"Log  {state}"]
    if log.filter:
        parts.append(f"{count(len(log.lines))}/{count(log.kept)} match {outside(log.filter, 60)!r}")
    else:
        parts.append(f"{count(log.kept)} lines")
    if log.warnings:
        parts.append(f"{count(log.warnings)} warn")
    if log.errors:
        parts.append(f"{count(log.errors)} error")
    if log.grew_us is not None and now_us - log.grew_us > 5_000_000:
        parts.append(f"silent {span((now_us - log.grew_us) / 1e6)}")
    return Content(fit("  ".join((*parts, *modes)), width))


def log_modes(*, wrap: bool, times: bool, marks: int) -> list[str]:
    """How the lines are shown, where that is not as at first."""
    marked = [f"{count(marks)} mark{'s' if marks > 1 else ''}"] if marks else []
    return ["wrap"] * wrap + ["no times"] * (not times) + marked


def empty_words(log: LogSnapshot) -> str:
    """Why the pane is empty."""
    if log.unread:
        return ""
    if log.path is None:
        return "no log: no lane was started from here, or it is attached without a log file"
    if log.filter and log.kept:
        return "no line matches"
    return "the log is empty so far"
