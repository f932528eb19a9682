"""A plot in text: points as letters, lines between them in braille, both axes with their ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from textual.content import Content

from anvil_tui.console.views.figures import fit, pad

SAME = "*"
"""Where letters of two series fall on one place."""
_GUTTER = 8
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the two columns and four rows of dots in one braille cell."""
_BLANK = 0x2800
_NOISE, _FLAT = 0.01, 0.3
"""Values that differ by a share of the largest between these are drawn on a scale of their own, which says so: on one
from 0 their difference would not be seen, and what differs by less should look flat."""

Words = Callable[[float], str]
Point = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """Points of one kind, drawn as one letter; lines go through the medians of each x."""

    letter: str
    style: str
    points: tuple[Point, ...]
    line: bool = True


@dataclass(frozen=True)
class Scale:
    """From the lowest to the highest value of an axis."""

    low: float
    high: float

    def at(self, value: float, steps: int) -> int:
        """Which of `steps` places stands for a value; the middle one where the axis has no length."""
        if self.high <= self.low:
            return (steps - 1) // 2
        share = (value - self.low) / (self.high - self.low)
        return min(steps - 1, max(0, round(share * (steps - 1))))


def value_scale(values: Sequence[float]) -> Scale:
    """From 0, unless the values lie so close together that their difference would not be seen."""
    low, high = min(values), max(values)
    if low > 0 and _NOISE * high < high - low < _FLAT * high:
        around = (high - low) * 0.1
        return Scale(low - around, high + around)
    return Scale(min(0.0, low), high)


def plot(title: str, series: Sequence[Series], width: int, height: int, y: Words, x: Words) -> list[Content]:
    """A title, `height` rows of dots, the axis and its ends; every line `width` cells wide. One line without points."""
    points = [point for one in series for point in one.points]
    if not points:
        return [Content(pad(f"{title}: none was told", width))]
    across = Scale(min(at for at, _ in points), max(at for at, _ in points))
    up = value_scale([value for _, value in points])
    from_zero = "" if up.low == 0 else ", not from 0"
    columns = max(4, width - _GUTTER - 1)
    cells = _cells(series, across, up, columns, height)
    shown = [Content.styled(pad(title + from_zero, width), "bold")]
    for row in range(height):
        label = y(up.high) if row == 0 else y(up.low) if row == height - 1 else ""
        shown.append(Content.assemble(f"{pad(label, _GUTTER - 1, right=True)} │", *_parts(cells[row])))
    shown.append(Content(f"{' ' * _GUTTER}└{'─' * (columns)}"))
    low, high = x(across.low), x(across.high)
    ends = pad(low, max(0, columns - len(high))) + high if across.high > across.low else low.center(columns)
    shown.append(Content(pad(f"{' ' * (_GUTTER + 1)}{ends}", width)))
    return shown


def beside(plots: Sequence[Sequence[Content]], gap: int = 2) -> list[Content]:
    """Plots of one height beside each other."""
    rows = itertools.zip_longest(*plots, fillvalue=Content(""))
    return [Content(" " * gap).join(row) for row in rows]


def _cells(
    series: Sequence[Series], across: Scale, up: Scale, columns: int, height: int
) -> list[list[tuple[str, str]]]:
    """Every cell of the plot as a character and its style; letters lie over lines."""
    dots: dict[tuple[int, int], tuple[int, str]] = {}
    letters: dict[tuple[int, int], tuple[str, str]] = {}
    for one in series:
        if one.line:
            ends = [
                (across.at(at, columns * 2), height * 4 - 1 - up.at(value, height * 4)) for at, value in _medians(one)
            ]
            for begin, end in itertools.pairwise(ends):
                for column, row in _line(begin, end):
                    cell = (row // 4, column // 2)
                    bits, _ = dots.get(cell, (0, ""))
                    dots[cell] = (bits | _DOTS[row % 4][column % 2], one.style)
        for at, value in one.points:
            place = ((height * 4 - 1 - up.at(value, height * 4)) // 4, across.at(at, columns * 2) // 2)
            there = letters.get(place)
            letters[place] = (SAME, "bold") if there is not None and there[0] != one.letter else (one.letter, one.style)
    drawn = {cell: (chr(_BLANK + bits), style) for cell, (bits, style) in dots.items()} | letters
    return [[drawn.get((row, column), (" ", "")) for column in range(columns)] for row in range(height)]


def _medians(series: Series) -> Iterator[Point]:
    """One point for each x, in their order."""
    for at, group in itertools.groupby(sorted(series.points), key=lambda point: point[0]):
        yield at, median(value for _, value in group)


def _line(begin: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """Dots from one to the other."""
    steps = max(abs(end[0] - begin[0]), abs(end[1] - begin[1]), 1)
    for step in range(steps + 1):
        share = step / steps
        yield round(begin[0] + share * (end[0] - begin[0])), round(begin[1] + share * (end[1] - begin[1]))


def _parts(cells: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    for style, group in itertools.groupby(cells, key=lambda cell: cell[1]):
        yield "".join(text for text, _ in group), style


_EIGHTHS = "▏▎▍▌▋▊▉█"


def bar(value: float, largest: float, width: int) -> str:
    """A bar of at most `width` cells to the eighth of a cell; what is more than nothing has at least the thinnest."""
    if largest <= 0 or value <= 0:
        return ""
    eighths = max(1, round(value / largest * width * 8))
    whole, rest = divmod(eighths, 8)
    return fit("█" * whole + (_EIGHTHS[rest - 1] if rest else ""), width)
