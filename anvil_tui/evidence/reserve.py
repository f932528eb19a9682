"""The reserve: did enough memory of every GPU stay free, in every sample of a window, and is that certain?

Judged by NVML's `free` in bytes. Total − used is never taken for it: what `used` counts differs between NVML's
records by the driver's own reserve (638 MiB seen on a 96 GB card), which decides close cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from anvil_tui.records.vram import (
    MIB,
    Gpu,
    GpuReading,
    GpuReserve,
    Policy,
    ReserveVerdict,
    SamplerGap,
    SpillWitness,
    Verdict,
    VramSample,
    contradiction,
)

LONGEST_GAP_US = 250_000
LOWEST_COVERAGE_PCT = 99.0
STALE_US = 2_000_000

Spill = Literal["none", "seen", "not checked", "not applicable"]
_WORST_FIRST: tuple[Verdict, ...] = ("FAIL", "UNKNOWN", "INCOMPLETE", "PASS (spill not checked)", "PASS")


def judge(
    samples: Sequence[VramSample],
    gaps: Sequence[SamplerGap],
    *,
    window_from_us: int,
    window_to_us: int,
    gpus: Sequence[Gpu],
    reserve_mib: int,
    policy: Policy,
    policy_reason: str | None,
    period_us: int,
    spill_applies: bool = True,
    witnesses: Sequence[SpillWitness] = (),
    rehearsal: bool = False,
) -> ReserveVerdict:
    """The reserve of `gpus` over a window of monotonic time (µs). Pure; the order of the samples does not matter.

    FAIL: one sample of one GPU below the reserve, whatever else is missing, or a witness that saw spill. UNKNOWN: a GPU
    without a credible figure in any sample (lost, not available, contradicting itself), in none, or for the last 2 s.
    INCOMPLETE: more than 250 ms without a sample, less than 99 % of the samples that `period_us` promises (one may
    always be missing), or a sampler that was started again (`gaps`). Else PASS, which says "spill not checked" where
    spill could be (`spill_applies`, never in a rehearsal) and no witness works. The verdict is what was measured:
    `policy` changes nothing of it.
    """
    window = _Window(from_us=window_from_us, to_us=window_to_us, period_us=period_us)
    inside = sorted((s for s in samples if window_from_us <= s.mono_us <= window_to_us), key=lambda s: s.mono_us)
    restarts = [gap for gap in gaps if gap.from_us <= window_to_us and gap.to_us >= window_from_us]
    restarted = f"sampling was interrupted: {restarts[0].reason}" if restarts else None
    spill, witness = _spill(witnesses, window) if spill_applies and not rehearsal else ("not applicable", None)
    seen = [_seen(gpu, inside, window) for gpu in gpus]
    rows = tuple(_row(of_gpu, window, reserve_mib * MIB, restarted, spill) for of_gpu in seen)
    verdict: Verdict = min((row.verdict for row in rows), key=_WORST_FIRST.index, default="UNKNOWN")
    reasons = [f"{row.uuid}: {row.reason}" for row in rows if row.verdict == verdict]
    seconds = (window_to_us - window_from_us) / 1e6
    return ReserveVerdict(
        verdict=verdict,
        reason="; ".join(reasons) or "no GPU of this lane is known here",
        policy=policy,
        policy_reason=policy_reason,
        reserve_mib=reserve_mib,
        window_from_us=window_from_us,
        window_to_us=window_to_us,
        samples=len(inside),
        hz=round(len(inside) / seconds, 2) if inside and seconds > 0 else None,
        max_gap_ms=max(s.longest_us for s in seen) / 1000 if inside and seen else None,
        coverage_pct=min(s.coverage_pct for s in seen) if inside and seen else None,
        spill=spill,
        spill_witness=witness,
        gpus=rows,
        rehearsal=rehearsal,
    )


class _Window(Struct, frozen=True, kw_only=True):
    from_us: int
    to_us: int
    period_us: int


class _Seen(Struct, frozen=True, kw_only=True):
    """What the samples of a window hold of one GPU."""

    gpu: Gpu
    readings: tuple[GpuReading, ...]
    free: tuple[tuple[int, int], ...]
    """Time (µs) and free memory (bytes) of each reading that is credible."""
    doubt: str | None
    """Why the first reading that is not credible is not."""
    longest_us: int
    """The longest time without a figure, the edges of the window included."""
    missed: int
    """Samples that the period promises and that are not there."""
    coverage_pct: float


def _seen(gpu: Gpu, samples: Sequence[VramSample], window: _Window) -> _Seen:
    readings = [(s.mono_us, reading) for s in samples for reading in s.gpus if reading.uuid == gpu.uuid]
    doubts = [_doubt(reading) for _, reading in readings]
    free = tuple(
        (at_us, reading.free)
        for (at_us, reading), doubt in zip(readings, doubts, strict=True)
        if doubt is None and reading.free is not None
    )
    pauses = [
        after - before for before, after in pairwise((window.from_us, *(at_us for at_us, _ in free), window.to_us))
    ]
    missed = sum(max(0, round(pause / window.period_us) - 1) for pause in pauses)
    length_us = window.to_us - window.from_us
    covered = max(0.0, 1 - missed * window.period_us / length_us) if free and length_us > 0 else 0.0
    return _Seen(
        gpu=gpu,
        readings=tuple(reading for _, reading in readings),
        free=free,
        doubt=next((doubt for doubt in doubts if doubt is not None), None),
        longest_us=max(pauses),
        missed=missed,
        coverage_pct=round(100 * covered, 3),
    )


def _doubt(reading: GpuReading) -> str | None:
    """Why the figures of a reading cannot be judged; None where they can."""
    if reading.error is not None:
        return f"NVML gave no figure: {reading.error}"
    if reading.free is None:
        return "NVML gave no figure of free memory"
    return contradiction(total=reading.total, free=reading.free, used=reading.used, reserved=reading.reserved)


def _row(seen: _Seen, window: _Window, reserve: int, restarted: str | None, spill: Spill) -> GpuReserve:
    lowest_at_us, lowest = min(seen.free, key=lambda point: (point[1], point[0]), default=(None, None))
    margin = None if lowest is None else lowest - reserve
    verdict, reason = _judged(seen, window, margin, reserve, restarted, spill)
    return GpuReserve(
        uuid=seen.gpu.uuid,
        name=seen.gpu.name,
        min_free_bytes=lowest,
        min_free_at_us=lowest_at_us,
        margin_bytes=margin,
        below_seconds=_below_seconds(seen, window, reserve) if seen.free else None,
        reserved_bytes=next((r.reserved for r in reversed(seen.readings) if r.reserved is not None), None),
        total_bytes=next((r.total for r in reversed(seen.readings) if r.total is not None), None),
        verdict=verdict,
        reason=reason,
    )


def _judged(
    seen: _Seen, window: _Window, margin: int | None, reserve: int, restarted: str | None, spill: Spill
) -> tuple[Verdict, str]:
    """The verdict on one GPU and why; the order of the rules is their rank."""
    if margin is not None and margin < 0:
        return "FAIL", f"{_mib(reserve + margin)} MiB free at least: {_mib(-margin)} MiB short of {_mib(reserve)} MiB"
    if spill == "seen":
        return "FAIL", "GPU memory was moved to the host, from which GPU is not known"
    if seen.doubt is not None:
        return "UNKNOWN", seen.doubt
    if margin is None:
        return "UNKNOWN", "no sample of this GPU in the window"
    if window.to_us - seen.free[-1][0] > STALE_US:
        return "UNKNOWN", f"no sample in the last {(window.to_us - seen.free[-1][0]) / 1e6:.1f} s of the window"
    if restarted is not None:
        return "INCOMPLETE", restarted
    if seen.longest_us > LONGEST_GAP_US:
        return "INCOMPLETE", f"{seen.longest_us / 1000:.0f} ms without a sample"
    if seen.coverage_pct < LOWEST_COVERAGE_PCT and seen.missed > 1:
        asked_hz = 1e6 / window.period_us
        words = f"{seen.missed} samples are missing at the {asked_hz:g} Hz asked for: {seen.coverage_pct:.1f} % covered"
        return "INCOMPLETE", words
    words = f"{_mib(reserve + margin)} MiB free at least: {_mib(margin)} MiB above {_mib(reserve)} MiB"
    return ("PASS (spill not checked)" if spill == "not checked" else "PASS"), words


def _below_seconds(seen: _Seen, window: _Window, reserve: int) -> float:
    """How long free memory was below the reserve: each sample holds until the next, for 250 ms at most."""
    ends = (*(at_us for at_us, _ in seen.free[1:]), window.to_us)
    held = (
        min(end - at_us, LONGEST_GAP_US) for (at_us, free), end in zip(seen.free, ends, strict=True) if free < reserve
    )
    return sum(held) / 1e6


def _spill(witnesses: Sequence[SpillWitness], window: _Window) -> tuple[Spill, str | None]:
    """What the witnesses say together, and the words of those that decide.

    One that saw spill in any part of the window decides; else one that watched all of it and saw none suffices.
    """
    touching = [w for w in witnesses if w.from_us <= window.to_us and w.to_us >= window.from_us]
    saw = [w for w in touching if w.spilled]
    if saw:
        return "seen", _words(saw)
    whole = [w for w in touching if w.from_us <= window.from_us and w.to_us >= window.to_us]
    clean = [w for w in whole if w.spilled is False]
    if clean:
        return "none", _words(clean)
    return "not checked", _words(touching)


def _words(witnesses: Sequence[SpillWitness]) -> str | None:
    return "; ".join(f"{w.witness}: {w.words}" for w in witnesses) or None


def _mib(size: int) -> str:
    """Bytes as MiB: whole where they are, else with three decimals."""
    return f"{size // MIB}" if size % MIB == 0 else f"{size / MIB:.3f}"
