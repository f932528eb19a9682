"""What each arm's start reported and its runs measured, with the change, its interval and its verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.content import Content

from anvil_tui.console.paired.comparison import ByLoad, Comparison, Metric
from anvil_tui.console.paired.words import (
    MUTED,
    hanging,
    letter_of,
    metric_name,
    number,
    paragraph,
    percent,
    signed,
    verdict_style,
)
from anvil_tui.console.views.figures import DASH, fit, outside, pad, rate

_LABEL, _VALUE, _CHANGE, _RANGE, _VERDICT = 18, 12, 10, 21, 36
_PRIMARY = "* the primary metric, which alone decides"
_INTERVALS = (
    "B vs A: change of the medians. interval: of the change block by block, with its confidence, whose middle the "
    "claims tell; `runs`: run against run, between loads unknown"
)


def figures(comparison: Comparison, width: int) -> list[Content]:
    """Start-up figures and the metrics of each protocol."""
    shown = _start_table(comparison, width)
    for protocol in comparison.conclusions.protocols:
        shown += [Content(""), *_metric_table(comparison, protocol.name, protocol.metrics, width)]
    if not comparison.conclusions.protocols:
        return [*shown, Content(""), Content.styled("no measured run has passed yet", MUTED)]
    if comparison.baseline is not None:
        shown += [Content(""), *paragraph(_INTERVALS, width, MUTED)]
    if comparison.primary_metric is not None:
        shown += paragraph(_PRIMARY, width, MUTED)
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
            cells += pad(number(before, places), _VALUE, right=True)
        cells += pad(number(after, places), _VALUE, right=True)
        change = ""
        if before is not None and after is not None:
            change = pad(signed(after - before, places), _CHANGE, right=True) + f"  {percent(before, after)}"
        shown.append(Content(fit(cells + change, width)))
    return shown


def _heads(comparison: Comparison, first: str, change: str, rest: str, width: int) -> Content:
    arms = "".join(
        pad(f"{letter_of(role)} {outside(arm.name, 40)}", _VALUE - 1, right=True).rjust(_VALUE)
        for role, arm in comparison.arms.items()
    )
    change = change if comparison.baseline is not None else ""
    words = f"{pad(first, _LABEL)}{arms}{pad(change, _CHANGE, right=True)}  {rest}"
    return Content.styled(fit(words.rstrip(), width), f"bold {MUTED}")


def _metric_table(comparison: Comparison, name: str, metrics: Sequence[Metric], width: int) -> list[Content]:
    room = width >= _LABEL + 2 * _VALUE + _CHANGE + _RANGE + _VERDICT
    rest = f"{pad('interval', _RANGE)}{'verdict' if room else ''}" if comparison.baseline is not None else ""
    shown = [_heads(comparison, name, "B vs A", rest, width)]
    for metric in metrics:
        if metric.baseline_median is None and metric.candidate_median is None:
            continue
        shown += _metric_lines(comparison, metric, width)
    told = "\n".join(line.plain for line in shown)
    long = dict.fromkeys(outside(one.verdict, 300) for one in metrics if one.delta_percent is not None)
    for verdict in long:
        if room and verdict not in told:
            shown += hanging(verdict, width, verdict_style(verdict), 2)
    return shown


def _metric_lines(comparison: Comparison, metric: Metric, width: int) -> Iterator[Content]:
    mark = "*" if metric.name == comparison.primary_metric else ""
    cells = pad(metric_name(metric.name) + mark, _LABEL)
    if comparison.baseline is not None:
        cells += pad(rate(metric.baseline_median), _VALUE, right=True)
    cells += pad(rate(metric.candidate_median), _VALUE, right=True)
    interval = verdict = ""
    if metric.delta_percent is not None:
        cells += pad(f"{metric.delta_percent:+.1f} %", _CHANGE, right=True) + "  "
        interval = pad(_interval(metric), min(_RANGE, max(0, width - len(cells))))
        verdict = outside(metric.verdict, 300)
    style = verdict_style(verdict)
    room = width - len(cells) - len(interval)
    if room >= min(_VERDICT, len(verdict)):
        # A reason that does not fit stands below the table, once for all that have it.
        told = verdict if len(verdict) <= room else _word(verdict)
        yield Content.assemble(cells, (interval, MUTED), (fit(told, room), style))
    else:
        yield Content.assemble(cells, (interval, MUTED))
        yield from paragraph(verdict, width, style, "  ")
    values = [
        f"{letter} {_values(one)}"
        for letter, one in (("A", metric.baseline), ("B", metric.candidate))
        if sum(map(len, one)) > 1
    ]  # fmt: skip
    together = "   ".join(values)
    for one in [together] if len(together) <= width - 11 else values:
        if one:
            yield from hanging(f"  by load  {one}", width, MUTED, 13)


def _word(verdict: str) -> str:
    """A verdict without its reason."""
    return verdict.partition(" (")[0]


def _values(by_load: ByLoad) -> str:
    """Values of runs, loads apart by a bar."""
    return " | ".join(", ".join(rate(value) for value in load) for load in by_load)


def _interval(metric: Metric) -> str:
    """The interval with its confidence; a range of run against run says so."""
    if metric.low_percent is None or metric.high_percent is None:
        return DASH
    ends = f"{metric.low_percent:+.1f}…{metric.high_percent:+.1f}"
    return f"{ends} at {metric.level:.0%}" if metric.level is not None else f"{ends} runs"
