"""Snapshots of `nvidia-smi --query-gpu=…,memory.total,memory.used,memory.free --format=csv[,nounits]`.

Driver-reserved memory is `memory.reserved` where it was asked for, else total − used − free, since nvidia-smi reports
used without it. The file's own name says in which phase it was taken: nvidia-smi does not know.
"""

from __future__ import annotations

import csv
from typing import Any

from anvil_tui.errors import BadInput, Fault
from anvil_tui.records.arm import GpuMemory, MemoryWindow
from anvil_tui.text import sanitise

_NEEDED = ("memory.total", "memory.used", "memory.free")


def recognises(data: Any) -> bool:
    """Whether `data` is CSV text with nvidia-smi's memory columns."""
    return isinstance(data, str) and all(name in data.split("\n", 1)[0] for name in _NEEDED)


def read(data: str, path: str) -> tuple[MemoryWindow, ...]:
    """Turn a CSV text into one window of all its GPUs. Raises BadInput with the line that cannot be read."""
    header, *lines = [[cell.strip() for cell in row] for row in csv.reader(data.splitlines()) if row]
    names = [cell.split(" ")[0] for cell in header]
    gpus = tuple(_gpu(dict(zip(names, line, strict=False)), number, path) for number, line in enumerate(lines, 2))
    phase = path.rsplit("/", 1)[-1].removesuffix(".csv").replace("-", " ")
    return (MemoryWindow(path=path, phase=phase, in_request=False, gpus=gpus),)


def _gpu(row: dict[str, str], number: int, path: str) -> GpuMemory:
    total, used, free = (_mib(row.get(name, ""), name, number, path) for name in _NEEDED)
    told = row.get("memory.reserved")
    reserved = _mib(told, "memory.reserved", number, path) if told is not None else total - used - free
    name = row.get("uuid") or row.get("index") or str(number - 2)
    return GpuMemory(gpu=sanitise(name), free_mib=free, total_mib=total, reserved_mib=reserved)


def _mib(cell: str, name: str, number: int, path: str) -> float:
    try:
        return float(cell.removesuffix("MiB").strip())
    except ValueError:
        raise BadInput(path, Fault(f"line {number}, {name}", repr(cell), "a number of MiB")) from None
