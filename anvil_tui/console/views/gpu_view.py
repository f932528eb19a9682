"""One GPU: its free memory against the reserve, now, at worst and over the last minutes, on a scale that stays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from textual.content import Content

from anvil_tui.console.snapshot import Bucket, GpuNow, GpuSnapshot
from anvil_tui.console.views.figures import clock_of, count, fit, mib, outside, signed_mib, span
from anvil_tui.records.vram import MIB, contradiction

SCALE_BYTES = 8 << 30
"""The band shows the last 8 GiB only: on a whole 96 GiB card a reserve of 3 GiB is two cells."""
NEAR_BYTES = 256 * MIB
"""So little above the reserve is worth a warning."""
STALE_PERIODS = 3
COLUMN_SECONDS = 2
_GUTTER = 4

Word = Literal["OK", "NEAR", "ALARM", "WAIVED", "NO DATA", "STALE", "WAITING", "OFF"]

STYLES: dict[Word, str] = {
    "OK": "$text-success",
    "NEAR": "$text-warning",
    "ALARM": "bold $text-error",
    "WAIVED": "$text-warning",
    "NO DATA": "bold $text-error",
    "STALE": "bold $text-warning",
    "WAITING": "$foreground-muted",
    "OFF": "$foreground-muted",
}
_FILLS: dict[str, str] = {"ok": "$success-darken-2", "near": "$warning", "below": "$error", "far": "$success-muted"}


@dataclass(frozen=True)
class GpuState:
    """What may be said of a GPU now. Figures that are too old or contradict themselves are not among it."""

    word: Word
    free: int | None = None
    margin: int | None = None
    age_s: float | None = None
    why: str = ""


def gpu_state(gpu: GpuNow, snapshot: GpuSnapshot, now_us: int) -> GpuState:
    """Judge the newest reading of a GPU against the reserve."""
    if snapshot.failed is not None:
        return GpuState("NO DATA", why=outside(snapshot.failed))
    if gpu.reading is None or gpu.at_us is None:
        return GpuState("WAITING", why="no sample yet")
    age_s = max(0.0, (now_us - gpu.at_us) / 1e6)
    reading = gpu.reading
    if reading.error is not None:
        return GpuState("NO DATA", age_s=age_s, why=outside(reading.error))
    if reading.free is None:
        return GpuState("NO DATA", age_s=age_s, why="NVML gives no figure of free memory")
    doubt = contradiction(total=reading.total, free=reading.free, used=reading.used, reserved=reading.reserved)
    if doubt is not None:
        return GpuState("NO DATA", age_s=age_s, why=doubt)
    if age_s > STALE_PERIODS * snapshot.period_us / 1e6:
        return GpuState("STALE", age_s=age_s, why=f"newest sample {span(age_s)} old")
    margin = reading.free - snapshot.reserve_mib * MIB
    if snapshot.policy == "off":
        word: Word = "OFF"
    elif margin < 0:
        word = "ALARM" if snapshot.policy == "enforce" else "WAIVED"
    else:
        word = "NEAR" if margin < NEAR_BYTES else "OK"
    return GpuState(word, reading.free, margin, age_s)


def head_line(state: GpuState, snapshot: GpuSnapshot, width: int) -> Content:
    """The word, free memory, the signed margin and the reserve; what does not fit is left out from the end."""
    if state.free is None:
        why = fit(state.why, width - len(state.word) - 2)
        return Content.assemble((state.word, STYLES[state.word]), "  ", why)
    parts = [
        (state.word, STYLES[state.word]),
        (f"  free {mib(state.free)} MiB", "bold"),
        (f"  {signed_mib(state.margin)}", STYLES[state.word]),
        (f"  reserve {count(snapshot.reserve_mib)}", "$foreground-muted"),
    ]
    return _fitting(parts, width)


def foot_line(gpu: GpuNow, state: GpuState, width: int) -> Content:
    """The worst point, then the other sensors as far as they fit."""
    reading = gpu.reading
    parts = [
        ("worst ", "$foreground-muted"),
        (mib(gpu.worst), ""),
        (f" at {clock_of(gpu.worst_at)}", "$foreground-muted"),
    ]
    if reading is not None and state.word != "STALE":
        for value, form in (
            (reading.util_pct, "  util {:d}%"),
            (reading.temperature_c, "  {:d} °C"),
            (reading.power_w, "  {:.0f} W"),
            (reading.total // MIB if reading.total is not None else None, "  of {:,d} MiB"),
        ):
            if value is not None:
                parts.append((form.format(value), "$foreground-muted"))
    return _fitting(parts, width)


def title(gpu: GpuNow, width: int) -> Content:
    """`GPU 0  name`."""
    return Content(fit(f"GPU {gpu.gpu.index}  {outside(gpu.gpu.name, 80)}", max(6, width)))


def subtitle(state: GpuState, snapshot: GpuSnapshot) -> Content:
    """Who samples, and how old the figure is."""
    who = {"console": "own sampler", "runner": "runner's sampler", "none": ""}[snapshot.source]
    if state.age_s is None:
        return Content(who)
    return Content(f"{who}, {'<1 s' if state.age_s < 1 else span(state.age_s)} old")


def gauge(snapshot: GpuSnapshot, state: GpuState, width: int) -> Content:
    """The last 8 GiB as one line: free memory filled, the reserve as a tick, for where no band fits."""
    cells = width - 2
    if state.free is None or cells < 8:
        return Content("")
    filled = round(cells * min(state.free, SCALE_BYTES) / SCALE_BYTES)
    tick = min(cells - 1, round(cells * snapshot.reserve_mib * MIB / SCALE_BYTES))
    fill = _FILLS[_kind(state.free, snapshot.reserve_mib * MIB)]
    line = "".join("│" if at == tick else "█" if at < filled else "·" for at in range(cells))
    return Content.assemble(
        "▕",
        *(
            (one, "bold $text-warning" if one == "│" else fill if one == "█" else "$foreground-disabled")
            for one in line
        ),
        "▏",
    )


def columns(history: tuple[Bucket, ...], now_us: int, width: int, seconds: int = COLUMN_SECONDS) -> list[Bucket | None]:
    """The last `width × seconds` seconds, one column each, the newest last; None where no sample was taken."""
    last = now_us // 1_000_000 // seconds
    found: list[Bucket | None] = [None] * width
    for bucket in reversed(history):
        place = width - 1 - (last - bucket.second // seconds)
        if place < 0:
            break
        if place >= width:
            continue
        old = found[place]
        found[place] = (
            bucket
            if old is None
            else Bucket(
                bucket.second,
                min(bucket.low, old.low),
                max(bucket.high, old.high),
                bucket.total + old.total,
                bucket.count + old.count,
            )
        )
    return found


def band(gpu: GpuNow, snapshot: GpuSnapshot, now_us: int, width: int, height: int) -> list[Content]:
    """The band of free memory, `height` lines: solid up to the least of each column, shaded up to its most, a line
    for its mean, dashes for the reserve. A column is coloured by its least, for that is what the reserve is about."""
    reserve = snapshot.reserve_mib * MIB
    cells = [_bar(column, height, reserve) for column in columns(gpu.history, now_us, width - _GUTTER)]
    reserve_row = _row_of(reserve, height)
    lines = []
    for row in range(height):
        label = (
            "8G" if row == 0 else "0" if row == height - 1 else f"{reserve / 2**30:.2g}G" if row == reserve_row else ""
        )
        parts: list[tuple[str, str]] = [
            (f"{label:>3}", "$text-warning" if row == reserve_row else "$foreground-muted"),
            ("│", "$foreground-disabled"),
        ]
        for cell in cells:
            parts.append(_cell(cell, row, height, dashed=row == reserve_row))
        lines.append(Content.assemble(*_joined(parts)))
    return lines


class _Bar(NamedTuple):
    """One column of the band: its least and most in eighths of a row, the row of its mean, and its colour."""

    low: int
    high: int
    mean_row: int
    fill: str


def _bar(column: Bucket | None, height: int, reserve: int) -> _Bar | None:
    if column is None:
        return None
    low, high = (round(8 * height * min(size, SCALE_BYTES) / SCALE_BYTES) for size in (column.low, column.high))
    mean_row = _row_of(min(round(column.mean), SCALE_BYTES), height)
    return _Bar(low, high, mean_row, _FILLS[_kind(column.low, reserve)])


def _cell(bar: _Bar | None, row: int, height: int, *, dashed: bool) -> tuple[str, str]:
    """One cell of the band: its character and style. The reserve is dashed."""
    blank = ("╌", "$text-warning") if dashed else (" ", "")
    if bar is None:
        return blank
    low, high, mean_row, fill = bar
    bottom = 8 * (height - 1 - row)
    solid = max(0, min(8, low - bottom))
    if solid == 8:
        return ("╌", f"$text-warning on {fill}") if dashed else ("█", fill)
    if high > bottom and high - low >= 4 and solid == 0:
        if mean_row == row:
            return "─", "bold"
        return ("▒" if high >= bottom + 4 else "░"), fill
    if solid:
        return " ▁▂▃▄▅▆▇"[solid], fill
    return blank


def _row_of(size: int, height: int) -> int:
    """The row in which a figure lies; row 0 is the top."""
    return max(0, min(height - 1, height - 1 - size * height // SCALE_BYTES))


def _kind(free: int, reserve: int) -> str:
    if free < reserve:
        return "below"
    if free < reserve + NEAR_BYTES:
        return "near"
    return "far" if free > SCALE_BYTES else "ok"


def _joined(parts: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Neighbours of one style as one part."""
    joined: list[tuple[str, str]] = []
    for text, style in parts:
        if joined and joined[-1][1] == style:
            joined[-1] = (joined[-1][0] + text, style)
        else:
            joined.append((text, style))
    return joined


def _fitting(parts: list[tuple[str, str]], width: int) -> Content:
    """As many parts as fit into `width`; the first one is cut if it must be."""
    kept: list[tuple[str, str]] = []
    left = width
    for text, style in parts:
        if len(text) > left:
            break
        kept.append((text, style))
        left -= len(text)
    return Content.assemble(*(kept or [(fit(parts[0][0], width), parts[0][1])]))
