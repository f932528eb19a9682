"""How figures are written: thousands separated, as many digits as they are worth, unknown as n/a."""

from __future__ import annotations

from anvil_tui.evidence.report.markup import NA, Html, shown
from anvil_tui.records.vram import MIB


def whole(value: float | None, unit: str = "") -> Html:
    """A count, `117,500`."""
    return _with(None if value is None else f"{value:,.0f}", unit)


def measured(value: float | None, unit: str = "") -> Html:
    """A measured figure with three or four significant digits: `2,003`, `604.6`, `36.3`, `1.23`."""
    if value is None:
        return NA
    size = abs(value)
    digits = 0 if size >= 1000 else 1 if size >= 10 else 2
    return _with(f"{value:,.{digits}f}", unit)


def as_told(value: float | int | None, unit: str = "") -> Html:
    """A figure just as its source tells it."""
    if value is None:
        return NA
    return _with(f"{value:,}", unit)


def mib(size: int | None, *, signed: bool = False) -> Html:
    """Bytes as MiB, rounded down, so that a shortage is never rounded away."""
    if size is None:
        return NA
    return shown(f"{size // MIB:+,}" if signed else f"{size // MIB:,}")


def percent(value: float | None, digits: int = 1) -> Html:
    """A signed change, `+2.4 %`."""
    return NA if value is None else shown(f"{value:+.{digits}f} %")


def interval(low: float | None, high: float | None) -> Html:
    """`-1.0 … +2.0 %`."""
    return NA if low is None or high is None else shown(f"{low:+.1f} … {high:+.1f} %")


def seconds(value: float | None) -> Html:
    """A duration: `4.6 s`, `3 min 20 s`, `2 h 05 min`."""
    if value is None:
        return NA
    if value < 120:
        return shown(f"{value:.1f} s")
    minutes, rest = divmod(round(value), 60)
    if minutes < 120:
        return shown(f"{minutes} min {rest:02d} s")
    return shown(f"{minutes // 60} h {minutes % 60:02d} min")


def moment(stamp: str | None) -> Html:
    """`2026-12-01T14:42:05.287Z` as `2026-12-01 14:42:05 UTC`."""
    return NA if stamp is None else shown(f"{stamp[:10]} {stamp[11:19]} UTC" if stamp.endswith("Z") else stamp)


def _with(words: str | None, unit: str) -> Html:
    if words is None:
        return NA
    return shown(f"{words} {unit}" if unit else words)
