"""Witnesses of spill: whether GPU memory was moved to system memory, which NVML's `free` does not show.

It can happen where Windows owns the memory, that is under WSL, and is silent there: requests only get slower. Two
witnesses are asked and either may be missing: the kernel log, and the adapters' shared memory as Windows counts it.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import shutil
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from anvil_tui.clock import mono_us
from anvil_tui.gpus import typeperf
from anvil_tui.gpus.kernel_log import KERNEL_LOG, KernelLog
from anvil_tui.gpus.line_child import LineChild
from anvil_tui.records.vram import MIB, SpillWitness, VramSample

_POLL_S = 1.0
_KEPT = 4 * 3600
"""Seconds of history: one reading a second."""
_LONGEST_PAUSE_US = 3_000_000
_TOLERATED_RISE = 64 * MIB
"""Shared memory drifts by a little without any spill."""
_AGREEMENT = 1024 * MIB
"""Windows and NVML may differ by this much on what is in use of one GPU: the driver's own reserve, and timing."""
_ROWS_A_LIFE = 7200
"""typeperf ends by itself after two hours and is started again, so that one that outlives us does not stay for good."""
_SYSTEM32 = Path("/mnt/c/Windows/System32/typeperf.exe")


def spill_applies() -> bool:
    """Whether GPU memory can be moved to the host behind NVML's back: under WSL yes, on native Linux no."""
    return Path("/dev/dxg").exists() or "microsoft" in platform.release().lower()


class _Row(Struct, frozen=True, kw_only=True):
    """One row of typeperf, beside what NVML said is in use of each GPU then."""

    mono_us: int
    adapters: tuple[typeperf.Adapter, ...]
    used: tuple[int, ...]


class _LogReading(Struct, frozen=True, kw_only=True):
    """Residency errors between two looks at the kernel log; null where it could not be told."""

    from_us: int
    to_us: int
    errors: int | None


class SpillWatch:
    """Watches both witnesses from `start` to `stop`. It is fed the samples and told when no lane runs yet."""

    def __init__(self, *, kernel_log: Path = KERNEL_LOG) -> None:
        self._log = KernelLog(kernel_log)
        self._looks: deque[_LogReading] = deque(maxlen=_KEPT)
        self._looked_us = mono_us()
        self._used: tuple[int, ...] = ()
        self._columns: typeperf.Columns | None = None
        self._rows: deque[_Row] = deque(maxlen=_KEPT)
        self._baseline: dict[str, int] = {}
        self._fault: str | None = None
        self._child: LineChild | None = None
        self._poller: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to watch; what does not work here is said by its witness."""
        self._poller = asyncio.create_task(self._poll())
        program = shutil.which("typeperf.exe") or (str(_SYSTEM32) if _SYSTEM32.exists() else None)
        if program is None:
            self._fault = "typeperf.exe was not found: is Windows interop switched on?"
            return
        self._child = LineChild(
            (program, *typeperf.COUNTERS, "-si", "1", "-sc", str(_ROWS_A_LIFE)),
            on_line=self._take_row,
            on_end=self._end,
            silence_s=5.0,
            start_s=10.0,
            stop_s=0.0,
        )
        self._child.start()

    async def stop(self) -> None:
        if self._poller is not None:
            self._poller.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._poller
        if self._child is not None:
            await self._child.stop()
        self._log.close()

    def observe(self, sample: VramSample) -> None:
        """Note what NVML says is in use: by it the adapters of Windows are matched with the GPUs."""
        used = tuple(reading.used for reading in sample.gpus if reading.used is not None)
        self._used = used if len(used) == len(sample.gpus) else ()

    def mark_baseline(self) -> None:
        """Take the shared memory of now for that of a machine without the lane. Call it before a lane starts."""
        recent = [row for row in self._rows if mono_us() - row.mono_us <= _LONGEST_PAUSE_US]
        self._baseline = {a.luid: a.shared for row in recent for a in row.adapters if a.shared is not None}

    def witnesses(self, from_us: int, to_us: int) -> tuple[SpillWitness, ...]:
        """What the witnesses say of a window that has ended (monotonic µs)."""
        self._look()
        return (self._kernel_log_witness(from_us, to_us), self._shared_usage_witness(from_us, to_us))

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(_POLL_S)
            self._look()

    def _look(self) -> None:
        now_us = mono_us()
        self._looks.append(_LogReading(from_us=self._looked_us, to_us=now_us, errors=self._log.new_errors()))
        self._looked_us = now_us

    def _take_row(self, raw: bytes) -> bool:
        line = raw.decode("utf-8", "replace").strip()
        header = typeperf.columns(line)
        if header is not None:
            self._columns = header
            return True
        row = typeperf.adapters(line, self._columns) if self._columns is not None else None
        if row is None:
            return False
        self._fault = None
        self._rows.append(_Row(mono_us=mono_us(), adapters=row, used=self._used))
        return True

    def _end(self, reason: str, _last_us: int | None) -> None:
        self._columns = None
        self._fault = f"typeperf: {reason}"

    def _kernel_log_witness(self, from_us: int, to_us: int) -> SpillWitness:
        looks = [look for look in self._looks if look.to_us >= from_us and look.from_us <= to_us]
        known = [look.errors for look in looks if look.errors is not None]
        errors = sum(known)
        spilled: bool | None
        if errors:
            spilled, words = True, f"memory could not be made resident, {errors} times"
        elif self._log.fault is not None:
            spilled, words = None, self._log.fault
        elif len(known) < len(looks) or not looks or looks[0].from_us > from_us:
            spilled, words = None, "the kernel log was not read without a hole"
        else:
            spilled, words = False, "no failure to make memory resident"
        return SpillWitness(
            from_us=from_us,
            to_us=to_us,
            witness="kernel log",
            spilled=spilled,
            words=words,
            residency_errors=errors if spilled is not None else None,
        )

    def _shared_usage_witness(self, from_us: int, to_us: int) -> SpillWitness:
        rows = [row for row in self._rows if from_us - _LONGEST_PAUSE_US <= row.mono_us <= to_us]
        spilled, words, rise = self._shared_usage(rows, from_us, to_us)
        return SpillWitness(
            from_us=from_us,
            to_us=to_us,
            witness="shared usage",
            spilled=spilled,
            words=words,
            shared_rise_bytes=rise,
        )

    def _shared_usage(self, rows: Sequence[_Row], from_us: int, to_us: int) -> tuple[bool | None, str, int | None]:
        """Whether shared memory rose in the window, in words, and by how many bytes at most."""
        if not rows:
            return None, self._fault or "no row from typeperf yet", None
        pauses = [after - before for before, after in pairwise((*(row.mono_us for row in rows), to_us))]
        if max(pauses) > _LONGEST_PAUSE_US or rows[0].mono_us > from_us + _LONGEST_PAUSE_US:
            return None, self._fault or "typeperf was silent for a part of the window", None
        if not self._baseline:
            return None, "no figure from before the lane started to compare with", None
        ours, sure = _matched(rows[-1])
        if not ours:
            return None, "host counters unreliable: no adapter agrees with NVML on the memory in use", None
        shared = [(a.luid, a.shared) for row in rows for a in row.adapters if a.luid in ours and a.shared is not None]
        if not ours <= self._baseline.keys() or ours != {luid for luid, _ in shared}:
            return None, "host counters unreliable: no credible figure of shared memory", None
        rise = max(figure - self._baseline[luid] for luid, figure in shared)
        words = f"shared memory {rise / MIB:+,.0f} MiB against the figure before the lane"
        if rise <= _TOLERATED_RISE:
            return False, words, rise
        if not sure:
            return None, f"{words}, of an adapter that may not be one of the GPUs", rise
        return True, words, rise


def _matched(row: _Row) -> tuple[frozenset[str], bool]:
    """The adapters that may be the GPUs, by the memory in use, and whether there are as many as GPUs.

    Windows names adapters by a number that NVML does not know. Empty where a GPU has no adapter that agrees with it.
    """
    fits = [
        {a.luid for a in row.adapters if a.dedicated is not None and abs(a.dedicated - used) <= _AGREEMENT}
        for used in row.used
    ]
    if not fits or not all(fits):
        return frozenset(), False
    ours = frozenset[str]().union(*fits)
    return (ours, len(ours) == len(fits)) if len(ours) >= len(fits) else (frozenset(), False)
