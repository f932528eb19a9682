"""Two arms side by side as lines: loads and conditions, figures, what is proven and what is not."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import Literal

from textual.content import Content

from anvil_tui.campaigns.pairs import order
from anvil_tui.campaigns.store.view import LoadView, RunView
from anvil_tui.console.paired.comparison import ByLoad, Claim, Comparison, Metric, StartFigures
from anvil_tui.console.snapshot import Level
from anvil_tui.console.views.figures import DASH, STYLES, count, fit, outside, pad, rate, span
from anvil_tui.console.views.rungs_view import running_words
from anvil_tui.records.acceptance import ArmRole, ConditionState
from anvil_tui.records.plan import PlannedLoad

Tab = Literal["overview", "figures", "claims"]
TABS: tuple[tuple[Tab, str], ...] = (
    ("overview", "Loads and acceptance"),
    ("figures", "Figures"),
    ("claims", "Claims and caveats"),
)
_MUTED = "$foreground-muted"
_METRICS = {
    "decode_tok_s_p50": "decode tok/s",
    "throughput_tok_s": "throughput tok/s",
    "time_to_first_output_p50_ms": "first output ms",
    "ttft_p50_ms": "TTFT ms",
    "effective_prefill_tok_s_p50": "prefill tok/s",
    "generation_p50_ms": "generation ms",
    "e2e_p50_ms": "E2E ms",
}
CONDITIONS: dict[str, tuple[str, Level]] = {
    "met": ("met", "good"),
    "not met": ("NOT MET", "bad"),
    "not yet known": ("open", "info"),
}
_LABEL, _VALUE, _CHANGE, _RANGE, _VERDICT = 18, 12, 10, 21, 36
_INTERVALS = "interval: of the change over blocks, with its confidence; `runs`: run against run, between loads unknown"
_TEXT = 2000
"""Characters of one sentence that are shown."""


def lines(comparison: Comparison, tab: Tab, now_us: int, width: int) -> list[Content]:
    """All lines of a tab."""
    match tab:
        case "overview":
            return overview(comparison, now_us, width)
        case "figures":
            return figures(comparison, width)
    return claims(comparison, width)


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
        parts.append((f"[{words}]" if here else f" {words} ", "bold" if here else _MUTED))
    return Content.assemble(*parts)


def overview(comparison: Comparison, now_us: int, width: int) -> list[Content]:
    """Loads done so far, the acceptance conditions, the figure that decides."""
    shown = _paragraph(comparison.title, width, _MUTED)
    for role, arm in comparison.arms.items():
        name = outside(arm.name, 40)
        lane = fit(f"  lane {outside(arm.lane, 64)}", max(0, width - 12 - len(name)))
        shown.append(Content.assemble((_letter(role), "bold"), f" {role} ", (name, "bold"), (lane, _MUTED)))
    shown += [Content(""), *load_lines(comparison, now_us, width), Content("")]
    if comparison.acceptance:
        shown.append(_title(f"Acceptance  {acceptance_words(comparison.acceptance)}"))
        for one in comparison.acceptance:
            shown += condition_lines(one, width)
    else:
        shown += [_title("Acceptance"), Content.styled("no condition is told yet", _MUTED)]
    return [*shown, Content(""), *_result(comparison, width)]


def load_lines(comparison: Comparison, now_us: int, width: int) -> list[Content]:
    """One line a load, in order: those begun, those that are redone, those to come."""
    heads = f"{pad('Loads', 6)}{pad('block', 6)}{pad('start-up', 10, right=True)}{pad('KV tokens', 11, right=True)}"
    heads += f"{pad('KV GiB', 8, right=True)}  {pad('runs', 12)}state"
    shown = [Content.styled(fit(heads, width), f"bold {_MUTED}")]
    for place, load in enumerate(comparison.view.loads):
        start = comparison.conclusions.starts.get(place, StartFigures(startup_seconds=load.startup_seconds))
        words, style = _load_state(comparison, place, load, now_us)
        cells = f"{pad(count(load.block), 6)}{pad(span(start.startup_seconds), 10, right=True)}"
        cells += f"{pad(count(start.kv_tokens), 11, right=True)}{pad(_gib(start.kv_gib), 8, right=True)}"
        runs = pad(run_count([run for run in comparison.view.runs if run.load == place]), 12)
        used = 6 + len(cells) + 2 + 12
        shown.append(
            Content.assemble(
                (pad(load_letter(load), 6), "bold"), cells, "  ", runs, (fit(words, max(0, width - used)), style)
            )
        )
    for planned in to_come(comparison.planned, comparison.view.loads):
        words = "planned" if comparison.standing == "running" else "not run"
        cells = f"{pad(order.letter(planned), 6)}{pad(count(planned.block), 6)}"
        shown.append(Content.styled(fit(f"{pad(cells, 55)}{words}", width), _MUTED))
    return shown


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
    return _letter(load.arm) + ("'" if load.replay else "")


def _letter(arm: ArmRole) -> str:
    """A is the baseline."""
    return "A" if arm == "baseline" else "B"


def _load_state(comparison: Comparison, place: int, load: LoadView, now_us: int) -> tuple[str, str]:
    match load.state:
        case "whole":
            failed = any(run.load == place and run.state == "failed" for run in comparison.view.runs)
            return ("done, a run FAILED", STYLES["bad"]) if failed else ("done", STYLES["good"])
        case "put aside":
            return "put aside: its block is redone", STYLES["warn"]
        case "cut short":
            return f"CUT SHORT: {outside(load.words)}", STYLES["bad"]
    if comparison.standing != "running":
        return "its end is not told", STYLES["warn"]
    live = comparison.live
    if live is None:
        return "running", "$text-primary"
    if live.run is None:
        return f"▸ {outside(live.step, 200)}", "$text-primary"
    what = count(live.run.target_tokens) + " tokens" if live.run.target_tokens else outside(live.run.run, 60)
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
    first = (pad(word, 9), STYLES[level] or _MUTED)
    if 9 + len(text) + 2 + len(why) <= width:
        return [Content.assemble(first, text, "  ", (why, _MUTED))]
    return [Content.assemble(first, fit(text, width - 9)), Content.styled(fit(" " * 9 + why, width), _MUTED)]


def _result(comparison: Comparison, width: int) -> list[Content]:
    """The primary metric and its verdict, what is violated, the decision."""
    found = comparison.conclusions
    shown = [_title(f"Result  {outside(found.origin, 100)}")]
    if found.refused:
        shown += _paragraph(f"no comparison can be made: {found.refused}", width, STYLES["bad"])
    primary = [
        (protocol.name, metric)
        for protocol in found.protocols
        for metric in protocol.metrics
        if metric.name == comparison.primary_metric and metric.delta_percent is not None
    ]
    for name, metric in primary[:1]:
        words = f"primary: {_metric_name(metric.name)} at {name}: {metric.words}"
        shown += _paragraph(words, width)
        shown += _paragraph(metric.verdict, width, _verdict_style(metric.verdict))
    old, new = comparison.last_start("baseline"), comparison.last_start("candidate")
    if old is not None and new is not None and old.kv_tokens and new.kv_tokens:
        tokens = f"{count(old.kv_tokens)} → {count(new.kv_tokens)} ({_percent(old.kv_tokens, new.kv_tokens)})"
        gib = f"{_gib(old.kv_gib)} → {_gib(new.kv_gib)} GiB ({_percent(old.kv_gib, new.kv_gib)})"
        shown.append(Content(fit(f"reported KV tokens {tokens}, KV memory {gib}", width)))
    for text in found.violated:
        shown += _paragraph(f"VIOLATED: {text}", width, STYLES["bad"])
    if found.proven or found.not_proven:
        shown.append(
            Content(f"{len(found.proven)} claims proven, {len(found.not_proven)} not; {len(found.caveats)} caveats")
        )
    shown += [Content(outside(one, 200)) for one in found.gates]
    if comparison.view.words and comparison.standing != "running":
        shown += _paragraph(comparison.view.words, width)
    if comparison.decided is not None:
        shown.append(Content(f"decision: stands in {outside(comparison.decided, 60)}; d edits it"))
    elif comparison.standing not in ("running", "sealed"):
        shown.append(Content.styled("no decision yet: d writes one, b seals", STYLES["warn"]))
    return shown


def figures(comparison: Comparison, width: int) -> list[Content]:
    """Start-up figures and the metrics of each protocol."""
    shown = _start_table(comparison, width)
    for protocol in comparison.conclusions.protocols:
        shown += [Content(""), *_metric_table(comparison, protocol.name, protocol.metrics, width)]
    if not comparison.conclusions.protocols:
        return [*shown, Content(""), Content.styled("no measured run has passed yet", _MUTED)]
    if comparison.baseline is not None:
        shown += [Content(""), *_paragraph(_INTERVALS, width, _MUTED)]
    return shown


def _start_table(comparison: Comparison, width: int) -> list[Content]:
    old, new = comparison.last_start("baseline"), comparison.last_start("candidate")
    shown = [_heads(comparison, "Newest start", "B − A", "", width)]
    for label, name, places in (
        ("KV tokens", "kv_tokens", 0),
        ("KV memory GiB", "kv_gib", 2),
        ("concurrency", "concurrency", 2),
        ("peak activ. GiB", "peak_activation_gib", 2),
        ("start-up s", "startup_seconds", 1),
    ):
        before: float | None = getattr(old, name) if old is not None else None
        after: float | None = getattr(new, name) if new is not None else None
        cells = pad(label, _LABEL)
        if comparison.baseline is not None:
            cells += pad(_number(before, places), _VALUE, right=True)
        cells += pad(_number(after, places), _VALUE, right=True)
        change = ""
        if before is not None and after is not None:
            change = pad(_signed(after - before, places), _CHANGE, right=True) + f"  {_percent(before, after)}"
        shown.append(Content(fit(cells + change, width)))
    return shown


def _heads(comparison: Comparison, first: str, change: str, rest: str, width: int) -> Content:
    arms = "".join(
        pad(f"{_letter(role)} {outside(arm.name, 40)}", _VALUE - 1, right=True).rjust(_VALUE)
        for role, arm in comparison.arms.items()
    )
    change = change if comparison.baseline is not None else ""
    words = f"{pad(first, _LABEL)}{arms}{pad(change, _CHANGE, right=True)}  {rest}"
    return Content.styled(fit(words.rstrip(), width), f"bold {_MUTED}")


def _metric_table(comparison: Comparison, name: str, metrics: Sequence[Metric], width: int) -> list[Content]:
    room = width >= _LABEL + 2 * _VALUE + _CHANGE + _RANGE + _VERDICT
    rest = f"{pad('interval', _RANGE)}{'verdict' if room else ''}" if comparison.baseline is not None else ""
    shown = [_heads(comparison, name, "B vs A", rest, width)]
    for metric in metrics:
        if metric.baseline_median is None and metric.candidate_median is None:
            continue
        shown += _metric_lines(comparison, metric, width)
    return shown


def _metric_lines(comparison: Comparison, metric: Metric, width: int) -> Iterator[Content]:
    mark = "*" if metric.name == comparison.primary_metric else ""
    cells = pad(_metric_name(metric.name) + mark, _LABEL)
    if comparison.baseline is not None:
        cells += pad(rate(metric.baseline_median), _VALUE, right=True)
    cells += pad(rate(metric.candidate_median), _VALUE, right=True)
    interval = verdict = ""
    if metric.delta_percent is not None:
        cells += pad(f"{metric.delta_percent:+.1f} %", _CHANGE, right=True) + "  "
        interval = pad(_interval(metric), min(_RANGE, max(0, width - len(cells))))
        verdict = outside(metric.verdict, 300)
    style = _verdict_style(verdict)
    room = width - len(cells) - len(interval)
    if room >= min(_VERDICT, len(verdict)):
        yield Content.assemble(cells, (interval, _MUTED), (fit(verdict, room), style))
    else:
        yield Content.assemble(cells, (interval, _MUTED))
        yield Content.styled(fit(f"  {verdict}", width), style)
    values = [
        f"{letter} {_values(one)}"
        for letter, one in (("A", metric.baseline), ("B", metric.candidate))
        if sum(map(len, one)) > 1
    ]  # fmt: skip
    together = "   ".join(values)
    for one in [together] if len(together) <= width - 11 else values:
        if one:
            yield Content.styled(fit(f"  by load  {one}", width), _MUTED)


def _metric_name(name: str) -> str:
    return _METRICS.get(name, outside(name, 40))


def _values(by_load: ByLoad) -> str:
    """Values of runs, loads apart by a bar."""
    return " | ".join(", ".join(rate(value) for value in load) for load in by_load)


def _interval(metric: Metric) -> str:
    """The interval with its confidence; a range of run against run says so."""
    if metric.low_percent is None or metric.high_percent is None:
        return DASH
    ends = f"{metric.low_percent:+.1f}…{metric.high_percent:+.1f}"
    return f"{ends} at {metric.level:.0%}" if metric.level is not None else f"{ends} runs"


def _verdict_style(verdict: str) -> str:
    word = verdict.partition(" ")[0]
    levels: dict[str, Level] = {"faster": "good", "slower": "bad", "invalid": "warn", "inconclusive": "warn"}
    return STYLES[levels.get(word, "info")]


def claims(comparison: Comparison, width: int) -> list[Content]:
    """KV tokens explained, claims proven and not proven, caveats."""
    found = comparison.conclusions
    if found.refused:
        return _paragraph(f"no comparison can be made: {found.refused}", width, STYLES["bad"])
    if comparison.baseline is None:
        return [Content("one arm alone: it ends in its acceptance conditions, not in a comparison")]
    if not found.proven and not found.not_proven and not found.caveats:
        return [Content.styled("nothing to compare yet: both arms need a run that was kept", _MUTED)]
    shown: list[Content] = []
    for title, texts in (("Reported KV tokens", found.kv), ("Violated invariants", found.violated)):
        shown += _section(title, [Claim(text) for text in texts], width)
    shown += _section(f"Proven  {len(found.proven)}", found.proven, width, "good")
    shown += _section(f"Not proven  {len(found.not_proven)}", found.not_proven, width, "warn")
    shown += _section(f"Caveats  {len(found.caveats)}", [Claim(text) for text in found.caveats], width)
    if found.decision:
        shown += _section("Decision text of the document", [Claim(found.decision)], width)
    return shown


def _section(title: str, claims: Sequence[Claim], width: int, level: Level = "info") -> list[Content]:
    if not claims:
        return []
    shown = [_title(title)]
    for claim in claims:
        first, *rest = textwrap.wrap(outside(claim.text, _TEXT), max(20, width - 2)) or [""]
        shown.append(Content.assemble(("· ", STYLES[level]), first))
        shown += [Content(f"  {line}") for line in rest]
        if claim.missing:
            shown += _paragraph(f"missing: {claim.missing}", width, _MUTED, "  ")
    return [*shown, Content("")]


def _title(words: str) -> Content:
    return Content.styled(words, "bold $text-primary")


def _paragraph(text: str, width: int, style: str = "", indent: str = "") -> list[Content]:
    """A sentence in lines that fit."""
    folded = textwrap.wrap(outside(text, _TEXT), max(20, width - len(indent)))
    return [Content.styled(indent + line, style) for line in folded]


def _number(value: float | None, places: int) -> str:
    return DASH if value is None else f"{value:,.{places}f}"


def _signed(value: float, places: int) -> str:
    return f"{value:+z,.{places}f}"


def _gib(value: float | None) -> str:
    return _number(value, 2)


def _percent(old: float | None, new: float | None) -> str:
    return DASH if old is None or new is None or not old else f"{(new / old - 1) * 100:+.1f} %"
