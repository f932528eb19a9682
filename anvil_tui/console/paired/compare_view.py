"""Two arms side by side as lines: loads and conditions, figures, what is proven and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from textual.content import Content

from anvil_tui.campaigns.pairs import order
from anvil_tui.campaigns.store.view import LoadView, RunView
from anvil_tui.console.paired.claims_view import claims
from anvil_tui.console.paired.comparison import Comparison, StartFigures
from anvil_tui.console.paired.figures_view import figures
from anvil_tui.console.paired.plots_view import plots
from anvil_tui.console.paired.reserves import ReserveSoFar
from anvil_tui.console.paired.words import (
    MUTED,
    gib,
    letter_of,
    metric_name,
    paragraph,
    percent,
    title,
    verdict_style,
    wrapped,
)
from anvil_tui.console.snapshot import Level
from anvil_tui.console.views.figures import DASH, STYLES, count, fit, mib, outside, pad, signed_mib, span
from anvil_tui.console.views.rungs_view import running_words
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.plan import PlannedLoad

Tab = Literal["overview", "figures", "claims", "plots"]
TABS: tuple[tuple[Tab, str], ...] = (
    ("overview", "Loads and acceptance"),
    ("figures", "Figures"),
    ("claims", "Claims and caveats"),
    ("plots", "Plots"),
)
CONDITIONS: dict[str, tuple[str, Level]] = {
    "met": ("met", "good"),
    "not met": ("NOT MET", "bad"),
    "not yet known": ("open", "info"),
}

RESUMABLE = ("interrupted", "stopped")
_WIDE = 100
"""From this width on a load has its worst free memory beside its other figures."""


def lines(comparison: Comparison, tab: Tab, now_us: int, width: int) -> list[Content]:
    """All lines of a tab."""
    match tab:
        case "overview":
            return overview(comparison, now_us, width)
        case "figures":
            return figures(comparison, width)
        case "claims":
            return claims(comparison, width)
    return plots(comparison, width)


def head(comparison: Comparison, time: str, width: int) -> Content:
    """The first line: what is compared, how it stands."""
    right: list[tuple[str, str]] = []
    if comparison.view.rehearsal:
        right.append((" REHEARSAL ", "bold $text-warning on $warning-muted"))
    state = {"running": "bold $text-primary", "failed": STYLES["bad"], "interrupted": STYLES["warn"]}
    right += [(f" {comparison.standing}", state.get(comparison.standing, "")), (f"  {time}", "")]
    used = sum(len(text) for text, _ in right) + 2
    old, new = comparison.baseline, comparison.candidate
    names = outside(new.name, 40) if old is None else f"{outside(new.name, 40)} against {outside(old.name, 40)}"
    return Content.assemble(" ", (pad(f"Compare  {names}", max(0, width - used)), "bold"), *right)


def tab_line(tab: Tab) -> Content:
    """The tabs, the open one told by its look and by a mark."""
    parts: list[tuple[str, str]] = []
    for number, (name, words) in enumerate(TABS, 1):
        here = name == tab
        parts.append((f" {number} ", "bold $text-primary"))
        parts.append((f"[{words}]" if here else f" {words} ", "bold" if here else MUTED))
    return Content.assemble(*parts)


def overview(comparison: Comparison, now_us: int, width: int) -> list[Content]:
    """Loads done so far, the acceptance conditions, the figure that decides."""
    shown = paragraph(comparison.title, width, MUTED)
    for role, arm in comparison.arms.items():
        name = outside(arm.name, 40)
        lane = fit(f"  lane {outside(arm.lane, 64)}", max(0, width - 12 - len(name)))
        shown.append(Content.assemble((letter_of(role), "bold"), f" {role} ", (name, "bold"), (lane, MUTED)))
        if (reserve := comparison.conclusions.reserves.get(role)) is not None:
            shown += _reserve_lines(reserve, width)
    shown += [Content(""), *load_lines(comparison, now_us, width)]
    if comparison.standing in RESUMABLE:
        words = f"{comparison.standing}: r goes on with it, its open block is redone whole; b seals it as it is"
        shown += paragraph(words, width, STYLES["warn"])
    shown.append(Content(""))
    if comparison.acceptance:
        shown.append(title(f"Acceptance  {acceptance_words(comparison.acceptance)}"))
        for one in comparison.acceptance:
            shown += condition_lines(one, width)
    else:
        shown += [title("Acceptance"), Content.styled("no condition is told", MUTED)]
    return [*shown, Content(""), *_result(comparison, width)]


def load_lines(comparison: Comparison, now_us: int, width: int) -> list[Content]:
    """One line a load, in order: those begun, those that are redone, those to come."""
    heads = f"{pad('Loads', 6)}{pad('block', 6)}{pad('start-up', 10, right=True)}{pad('KV tokens', 11, right=True)}"
    heads += pad("KV GiB", 8, right=True) + (pad("worst free", 12, right=True) if width >= _WIDE else "")
    heads += f"  {pad('runs', 12)}state"
    shown = [Content.styled(fit(heads, width), f"bold {MUTED}")]
    for place, load in enumerate(comparison.view.loads):
        start = comparison.conclusions.starts.get(place, StartFigures(startup_seconds=load.startup_seconds))
        words, style = _load_state(comparison, place, load, now_us)
        cells = f"{pad(count(load.block), 6)}{pad(span(start.startup_seconds), 10, right=True)}"
        cells += f"{pad(count(start.kv_tokens), 11, right=True)}{pad(gib(start.kv_gib), 8, right=True)}"
        free = _worst_cell(comparison.conclusions.load_reserves.get(place)) if width >= _WIDE else ("", "")
        runs = pad(run_count([run for run in comparison.view.runs if run.load == place]), 12)
        used = 6 + len(cells) + len(free[0]) + 2 + 12
        # What does not fit beside the figures stands whole below them; a run that goes on, always.
        goes_on = load.state == "open" and comparison.live is not None and comparison.live.run is not None
        first, rest = ("", words) if goes_on or len(words) > width - used else (words, "")
        head = (pad(load_letter(load), 6), "bold")
        shown.append(Content.assemble(head, cells, free, "  ", runs, (fit(first, max(0, width - used)), style)))
        shown += paragraph(rest, width, style, "      ")
        for run in comparison.view.runs:
            if run.load == place and run.state == "failed" and load.state != "put aside":
                shown += paragraph(f"{run.run} FAILED: {run.words}", width, STYLES["bad"], "      ")
    for planned in to_come(comparison.planned, comparison.view.loads):
        words = "planned" if comparison.standing == "running" else "not run"
        cells = f"{pad(order.letter(planned), 6)}{pad(count(planned.block), 6)}"
        shown.append(Content.styled(fit(f"{pad(cells, 67 if width >= _WIDE else 55)}{words}", width), MUTED))
    return shown


def _reserve_lines(reserve: ReserveSoFar, width: int) -> list[Content]:
    """The worst free memory of an arm against its reserve, and where it was seen."""
    verdicts = ", ".join(f"{many} {verdict}" for verdict, many in sorted(reserve.verdicts.items()))
    if reserve.policy in ("waived", "off"):
        verdicts += f", {reserve.policy}"
    words = f"reserve: {verdicts}"
    if (worst := reserve.worst) is not None:
        words = f"worst free {mib(worst.free_bytes)} MiB on {worst.gpu}, {signed_mib(worst.margin_bytes)} "
        words += f"to the reserve of {mib(worst.reserve_bytes)}: {verdicts}; {worst.path}"
    return paragraph(words, width, STYLES["bad"] if reserve.bad else MUTED, "  ")


def _worst_cell(reserve: ReserveSoFar | None) -> tuple[str, str]:
    """MiB of the GPU that had least, over the runs of a load; a mark where that is below the reserve."""
    if reserve is None or reserve.worst is None:
        return pad(DASH, 12, right=True), ""
    mark = "!" if reserve.worst.margin_bytes < 0 else " "
    return pad(mib(reserve.worst.free_bytes) + mark, 12, right=True), STYLES["bad"] if reserve.bad else ""


def to_come(planned: Sequence[PlannedLoad], begun: Sequence[LoadView]) -> list[PlannedLoad]:
    """Loads of the plan that were not begun, or whose block is to be redone."""
    there = {load.number for load in begun if load.state != "put aside"}
    return [load for load in planned if load.number not in there]


def run_count(runs: Sequence[RunView]) -> str:
    """How many runs of a load passed, of those that are over; empty where none is."""
    over = [run for run in runs if run.run is not None and run.state != "running"]
    passed = sum(run.state == "passed" for run in over)
    return f"{passed}/{len(over)} passed" if over else ""


def load_letter(load: LoadView) -> str:
    """A, B, or A' for a replay."""
    return letter_of(load.arm) + ("'" if load.replay else "")


def _load_state(comparison: Comparison, place: int, load: LoadView, now_us: int) -> tuple[str, str]:
    match load.state:
        case "whole":
            failed = any(run.load == place and run.state == "failed" for run in comparison.view.runs)
            return ("done, a run FAILED", STYLES["bad"]) if failed else ("done", STYLES["good"])
        case "put aside":
            return "put aside, redone", STYLES["warn"]
        case "cut short":
            return f"CUT SHORT: {outside(load.words)}", STYLES["bad"]
    if comparison.standing != "running":
        return "its end is not told", STYLES["warn"]
    live = comparison.live
    if live is None:
        return "running", "$text-primary"
    if live.run is None:
        return f"▸ {outside(live.step, 200).removeprefix(f'{outside(load.lane, 64)} ')}", "$text-primary"
    run = outside(live.run.run, 60).removeprefix(f"{outside(load.lane, 64)}-")
    what = count(live.run.target_tokens) + " tokens" if live.run.target_tokens else run
    return f"▸ {what}  {running_words(live.run, (), now_us)}", "$text-primary"


def acceptance_words(conditions: Sequence[ConditionState]) -> str:
    """How many conditions are met, and how many are not."""
    met = sum(one.state == "met" for one in conditions)
    failed = sum(one.state == "not met" for one in conditions)
    return f"{met} of {len(conditions)} met" + (f", {failed} NOT MET" if failed else "")


def condition_lines(one: ConditionState, width: int) -> list[Content]:
    """A condition: its state in a word, its sentence, why it stands so."""
    word, level = CONDITIONS[one.state]
    text, why = outside(one.text, 400), outside(one.words, 400)
    first = (pad(word, 9), STYLES[level] or MUTED)
    if 9 + len(text) + 2 + len(why) <= width:
        return [Content.assemble(first, text, "  ", (why, MUTED))]
    told, *rest = wrapped(text, width - 9) or [""]
    below = [*(Content(" " * 9 + line) for line in rest), *paragraph(why, width, MUTED, " " * 9)]
    return [Content.assemble(first, told), *below]


def _result(comparison: Comparison, width: int) -> list[Content]:
    """The primary metric and its verdict, what is violated, the decision."""
    found = comparison.conclusions
    shown = [title(f"Result  {outside(found.origin, 100)}")]
    if found.refused:
        shown += paragraph(f"no comparison can be made: {found.refused}", width, STYLES["bad"])
    primary = [
        (protocol.name, metric)
        for protocol in found.protocols
        for metric in protocol.metrics
        if metric.name == comparison.primary_metric and metric.delta_percent is not None
    ]
    for name, metric in primary[:1]:
        words = f"primary: {metric_name(metric.name)} at {name}: {metric.words}"
        shown += paragraph(words, width)
        shown += paragraph(metric.verdict, width, verdict_style(metric.verdict))
    old, new = comparison.last_start("baseline"), comparison.last_start("candidate")
    if old is not None and new is not None and old.kv_tokens and new.kv_tokens:
        tokens = f"{count(old.kv_tokens)} → {count(new.kv_tokens)} ({percent(old.kv_tokens, new.kv_tokens)})"
        memory = f"{gib(old.kv_gib)} → {gib(new.kv_gib)} GiB ({percent(old.kv_gib, new.kv_gib)})"
        shown += paragraph(f"reported KV tokens {tokens}, KV memory {memory}", width)
    for text in found.violated:
        shown += paragraph(f"VIOLATED: {text}", width, STYLES["bad"])
    if found.proven or found.not_proven:
        shown.append(
            Content(f"{len(found.proven)} claims proven, {len(found.not_proven)} not; {len(found.caveats)} caveats")
        )
    shown += [Content(outside(one, 200)) for one in found.gates]
    if comparison.view.words and comparison.standing != "running":
        shown += paragraph(comparison.view.words, width)
    if comparison.decided is not None:
        edits = "" if comparison.standing == "sealed" else "; d edits it"
        shown.append(Content(f"decision: stands in {outside(comparison.decided, 60)}{edits}"))
    elif comparison.standing not in ("running", "sealed"):
        shown.append(Content.styled("no decision yet: d writes one, b seals", STYLES["warn"]))
    return shown
