"""What `typeperf.exe` prints of the memory of each graphics adapter on the Windows side: pure parsing.

Columns are told by adapter and order, not by name: headers and numbers may be in the language of that Windows.
"""

from __future__ import annotations

import csv
import re

from msgspec import Struct

COUNTERS = (r"\GPU Adapter Memory(*)\Dedicated Usage", r"\GPU Adapter Memory(*)\Shared Usage")
"""Asked for in this order, so that the first column of an adapter is dedicated memory and its second is shared."""

_ADAPTER = re.compile(r"\((luid_0x[0-9a-f]+_0x[0-9a-f]+_phys_\d+)\)", re.IGNORECASE)
_MOST_BYTES = 1 << 44
"""16 TiB. Above it a figure is nonsense: these counters are known to go wrong after a sleep."""


class Adapter(Struct, frozen=True, kw_only=True):
    """Memory in use on one adapter, bytes; null where Windows gave no credible figure."""

    luid: str
    dedicated: int | None
    shared: int | None


class Columns(Struct, frozen=True, kw_only=True):
    """Where the two figures of each adapter stand in a row."""

    width: int
    adapters: tuple[tuple[str, int, int], ...]


def columns(line: str) -> Columns | None:
    """Read a header line; None where it is something else, or names no adapter with both figures."""
    cells = _cells(line)
    if len(cells) < 2 or "PDH-CSV" not in cells[0]:
        return None
    places: dict[str, list[int]] = {}
    for at, cell in enumerate(cells):
        found = _ADAPTER.search(cell)
        if found:
            places.setdefault(found.group(1).lower(), []).append(at)
    adapters = tuple((luid, at[0], at[1]) for luid, at in places.items() if len(at) == 2)
    return Columns(width=len(cells), adapters=adapters) if adapters else None


def adapters(line: str, header: Columns) -> tuple[Adapter, ...] | None:
    """Read a row under `header`; None where it is something else."""
    cells = _cells(line)
    if len(cells) != header.width:
        return None
    return tuple(
        Adapter(luid=luid, dedicated=_bytes(cells[dedicated]), shared=_bytes(cells[shared]))
        for luid, dedicated, shared in header.adapters
    )


def _cells(line: str) -> list[str]:
    """The cells of a line of quoted values; empty where it is not one."""
    if not line.startswith('"'):
        return []
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _bytes(cell: str) -> int | None:
    """A figure with a decimal point or comma, in bytes; None where it is blank, negative or absurd."""
    try:
        figure = float(cell.strip().replace(",", "."))
    except ValueError:
        return None
    return int(figure) if 0 <= figure <= _MOST_BYTES else None
