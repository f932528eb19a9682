"""The plots of a pair in text: the ladder of both arms, the primary metric load by load, start-up phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from rich.cells import cell_len
from textual.content import Content

from anvil_tui.console.paired.comparison import Comparison
from anvil_tui.console.paired.plotted import Plotted, RungPoint, StartPhases
from anvil_tui.console.paired.words import MUTED, letter_of, metric_name, title
from anvil_tui.console.views.figures import DASH, STYLES, count, fit, outside, pad, rate, span
from anvil_tui.console.views.plot import SAME, Series, bar, beside, plot
from anvil_tui.records.acceptance import ArmRole

_ARM_STYLES: dict[ArmRole, str] = {"baseline": "bold $text-primary", "candidate": "bold $text-accent"}
_BESIDE = 100
"""From this width on plots stand beside each other."""
_NAME = 15
_PANELS: tuple[tuple[str, Callable[[RungPoint], float | None]], ...] = (
    ("TTFT s", lambda point: point.ttft_s),
    ("prefill tok/s", lambda point: point.prefill_tok_s),
    ("decode tok/s", lambda point: point.decode_tok_s),
)


def plots(comparison: Comparison, width: int) -> list[Content]:
    """All lines of the tab."""
    told = comparison.conclusions.plotted
    shown = [_legend(comparison, width)]
    if told.rungs:
        shown += [Content(""), title("Ladder over prompt tokens"), *_ladder(comparison, told, width)]
    if told.by_load:
        shown += [Content(""), *_by_load(comparison, told, width)]
    if told.starts:
        shown += [Content(""), *_starts(comparison, told.starts, width)]
    if len(shown) == 1:
        shown.append(Content.styled("nothing to draw yet: no start and no run is told", MUTED))
    return shown


def _legend(comparison: Comparison, width: int) -> Content:
    parts: list[tuple[str, str]] = []
    for role, arm in comparison.arms.items():
        parts += [(letter_of(role), _ARM_STYLES[role]), (f" {outside(arm.name, 30)}   ", "")]
    words = f"{SAME} both at one place; the line goes through medians" if len(comparison.arms) > 1 else ""
    used = sum(cell_len(text) for text, _ in parts)
    return Content.assemble(*parts, (fit(words, max(0, width - used)), MUTED))


def _ladder(comparison: Comparison, told: Plotted, width: int) -> Iterator[Content]:
    side = width >= _BESIDE
    each, height = ((width - 4) // 3, 8) if side else (width, 5)
    panels = []
    for name, take in _PANELS:
        series = [
            Series(
                letter_of(role),
                _ARM_STYLES[role],
                tuple(
                    (float(point.tokens), value)
                    for point in told.rungs
                    if point.arm == role and (value := take(point)) is not None
                ),
            )
            for role in comparison.arms
        ]
        panels.append(plot(name, series, each, height, _value, count))
    if side:
        yield from beside(panels)
    else:
        yield from (line for panel in panels for line in panel)
    for role in comparison.arms:
        targets = sorted({one.tokens for one in told.failed if one.arm == role})
        if targets:
            words = f"{letter_of(role)} FAILED at {', '.join(map(count, targets))} tokens: no point there"
            yield Content.styled(fit(words, width), STYLES["bad"])


def _by_load(comparison: Comparison, told: Plotted, width: int) -> list[Content]:
    """In the order of time, so that a drift is seen as one."""
    series = [
        Series(
            letter_of(role),
            _ARM_STYLES[role],
            tuple((float(point.place), point.value) for point in told.by_load if point.arm == role),
        )
        for role in comparison.arms
    ]
    about = f"{metric_name(told.metric)} of each run, load by load in their order"
    return plot(about, series, min(width, 80), 8, _value, lambda place: f"load {place:.0f}")


def _starts(comparison: Comparison, starts: Mapping[ArmRole, StartPhases], width: int) -> Iterator[Content]:
    """Phases side by side on one scale."""
    roles = [role for role in comparison.arms if role in starts]
    each = (width - _NAME) // max(1, len(comparison.arms))
    largest = max((took for role in roles for _, took in starts[role].phases if took is not None), default=0.0)
    yield title("Start-up phases of the newest start")
    heads = [(pad("", _NAME), "")]
    for role in roles:
        whole = sum(took or 0.0 for _, took in starts[role].phases)
        words = f"{letter_of(role)} {outside(comparison.arms[role].name, 30)}  {span(whole)}"
        heads.append((pad(words, each), _ARM_STYLES[role]))
    yield Content.assemble(*heads)
    for name in _names([starts[role] for role in roles]):
        parts = [(pad(outside(name, 40), _NAME), "")]
        for role in roles:
            parts += _phase(starts[role], name, largest, each, _ARM_STYLES[role])
        yield Content.assemble(*parts)


def _phase(start: StartPhases, name: str, largest: float, width: int, style: str) -> list[tuple[str, str]]:
    """The bar of a phase and its seconds, in exactly `width` cells."""
    took = [seconds for one, seconds in start.phases if one == name]
    if not took:
        return [(pad("", width), "")]
    last = start.phases[-1][0] == name
    known = [one for one in took if one is not None]
    if start.failed and last:
        words, style = f" {span(sum(known)) if known else ''} FAILED", STYLES["bad"]
    else:
        words = f" {span(sum(known)) if known else DASH}"
    drawn = bar(sum(known), largest, max(1, width - 12))
    return [(drawn, style), (pad(words, width - len(drawn)), STYLES["bad"] if start.failed and last else MUTED)]


def _names(starts: Sequence[StartPhases]) -> list[str]:
    """Every phase once: in the order of the first start, what only a later one had after what it followed there."""
    names: list[str] = []
    for start in starts:
        before = -1
        for name, _ in start.phases:
            if name in names:
                before = names.index(name)
            else:
                before += 1
                names.insert(before, name)
    return names


def _value(value: float) -> str:
    return rate(value) if value >= 100 else f"{value:.3g}"
