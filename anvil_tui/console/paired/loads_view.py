"""The loads of a paired campaign on the live screen: each with its runs, those to come, and the result at the end."""

from __future__ import annotations

from textual.content import Content

from anvil_tui.campaigns.pairs import order
from anvil_tui.campaigns.store.view import LoadView
from anvil_tui.console.paired.compare_view import (
    CONDITIONS,
    RESUMABLE,
    acceptance_words,
    load_letter,
    run_count,
    to_come,
)
from anvil_tui.console.paired.words import MUTED
from anvil_tui.console.snapshot import Shown
from anvil_tui.console.views.figures import STYLES, Row, fit, outside, pad, span
from anvil_tui.console.views.rungs_view import measured_runs, run_row


def load_rows(shown: Shown, now_us: int, width: int) -> tuple[Row, ...]:
    """One row a load with a row for each of its runs; after the end the conditions come first."""
    view, rows = shown.row.view, []
    if not shown.row.running:
        for number, one in enumerate(shown.acceptance):
            word, level = CONDITIONS[one.state]
            text = fit(f"{outside(one.text, 300)}  {outside(one.words, 300)}", width - 9)
            rows.append(Row(f"condition-{number}", Content.assemble((pad(word, 9), STYLES[level]), text), choice=False))
    measured = {what: measured_runs(shown, what) for what in ("rung", "capacity")}
    for place, load in enumerate(view.loads):
        runs = [run for run in view.runs if run.load == place]
        words = "  ".join(filter(None, (_start(shown, load), run_count(runs), _state(shown, load))))
        head = f"{pad(load_letter(load), 3)}block {load.block}  {outside(load.lane, 64)}"
        content = Content.assemble((fit(head, width), "bold"), fit(f"  {words}", width - len(head)))
        rows.append(Row(f"load-{place}", content, choice=False))
        for number, run in enumerate(runs):
            if run.run is not None:
                rows.append(Row(run.run, run_row(run, shown, measured.get(run.what, ()), now_us, width)))
            else:
                text = fit(f"   not run: {outside(run.words, 300)}", width)
                rows.append(Row(f"skipped-{place}-{number}", Content.styled(text, MUTED), choice=False))
    for planned in to_come(shown.row.plan.loads if shown.row.plan is not None else (), view.loads):
        words = "planned" if shown.row.running else "not run"
        text = f"{pad(order.letter(planned), 3)}block {planned.block}  {outside(planned.lane, 64)}  {words}"
        rows.append(Row(f"planned-{planned.number}", Content.styled(fit(text, width), MUTED), choice=False))
    return tuple(rows)


def standing_words(shown: Shown) -> Content:
    """How the acceptance conditions stand, and what comes next."""
    if shown.row.standing in RESUMABLE:
        return Content.styled("r resumes  b seals  C compares", STYLES["warn"])
    words = acceptance_words(shown.acceptance) if shown.acceptance else ""
    failed = any(one.state == "not met" for one in shown.acceptance)
    return Content.styled(f"acceptance {words}  C compares" if words else "C compares", STYLES["bad"] if failed else "")


def _start(shown: Shown, load: LoadView) -> str:
    if load.startup_seconds is not None:
        return f"came up in {span(load.startup_seconds)}"
    if load.state == "open" and shown.row.running:
        return outside(shown.live.step, 80).removeprefix(f"{load.lane} ") if shown.live is not None else "starting"
    return "did not come up" if load.load_id is None or load.state == "cut short" else ""


def _state(shown: Shown, load: LoadView) -> str:
    match load.state:
        case "whole":
            return "done"
        case "put aside":
            return "put aside, redone"
        case "cut short":
            return f"CUT SHORT: {outside(load.words, 200)}"
    return "" if shown.row.running else "its end is not told"
