"""How a run is stopped: by asking; by SIGTERM when nobody hears; by SIGKILL when that does not help either."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from textual.content import Content

from anvil_tui.console.screens.confirm import Answer
from anvil_tui.console.snapshot import CampaignRow
from anvil_tui.console.views.figures import span
from anvil_tui.console.views.top_view import about

Step = Literal["ask", "wait", "term", "kill"]


@dataclass(frozen=True)
class StopAsked:
    """What was asked of which campaign's runner, and when."""

    campaign: str = ""
    request: str = ""
    asked_us: int = 0
    termed_us: int | None = None
    heard: bool = False
    """The runner took the request."""
    told: bool = False
    """The operator was told that it did not."""
    leave: bool = False
    """The console is to end when the run has."""

    def step(self, now_us: int) -> Step:
        """What may be offered now."""
        if not self.campaign:
            return "ask"
        patience_us = patience_s() * 1e6
        if self.termed_us is not None:
            return "kill" if now_us - self.termed_us > patience_us else "wait"
        if self.heard:
            return "ask"
        return "term" if now_us - self.asked_us > patience_us else "wait"


def patience_s() -> float:
    """How long a runner may take to answer."""
    # Only now: a stop needs the runner's control, the first frame does not.
    from anvil_tui.campaigns.control import ANSWER_SECONDS

    return ANSWER_SECONDS


def stop_question(row: CampaignRow, stop: StopAsked, now_us: int) -> tuple[str, Content, tuple[Answer, ...]]:
    """Title, words and answers of the question that `x` asks now."""
    what = f"The {about(row)}"
    cancel = Answer("cancel", "Cancel", "n")
    match stop.step(now_us):
        case "ask":
            heard = " It was asked to stop already and does so when the open request ends." if stop.heard else ""
            words = f"{what}: what was measured is kept; it can be resumed with r.{heard}"
            answers = [
                cancel,
                Answer("stop_after_request", "After this request", "y", "warning"),
                Answer("stop_now", "Now", "w", "error"),
            ]
            if row.plan is None or row.plan.kind == "startup":
                words = f"{what}: a lane that is coming up is stopped with it."
                del answers[1]
                answers[1] = Answer("stop_now", "Stop it", "y", "error")
            elif any(run.state == "running" and run.what == "rung" for run in row.view.runs):
                answers.append(Answer("skip_rung", "Skip this rung", "s"))
            return "Stop the run?", Content(words), tuple(answers)
        case "wait":
            told = span((now_us - (stop.termed_us or stop.asked_us)) / 1e6)
            words = f"{what} was told {told} ago; give it {patience_s():g} s."
            return "Stop the run?", Content(words), (Answer("cancel", "Wait", "n"),)
        case "term":
            silent = span((now_us - stop.asked_us) / 1e6)
            words = f"{what} has not answered for {silent}.\nSIGTERM means: stop now and leave a clean folder."
            return "The runner does not answer", Content(words), (cancel, Answer("term", "Send SIGTERM", "y", "error"))
    words = (
        f"{what} did not end on SIGTERM.\nKilling the runner leaves the lane untouched; "
        "the campaign is then interrupted and can be resumed or sealed."
    )
    return "The runner does not end", Content(words), (cancel, Answer("kill", "Kill the runner", "y", "error"))
