"""The memory part of a document: what was used when, the in-request minimum, and the reserve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anvil_tui.evidence.documents.unknown import Unknown
from anvil_tui.records.arm import Arm, GpuMemory, MemoryWindow


def memory_part(baseline: Arm, candidate: Arm, unknown: Unknown) -> dict[str, Any]:
    """`used_mib` = total − reserved − free of a snapshot, by GPU; the in-request minimum of free stands beside it."""
    part: dict[str, Any] = {}
    idle = {
        arm.name: next((one for one in reversed(arm.memory) if not one.in_request), None)
        for arm in (baseline, candidate)
    }
    phases = {name: window.phase if window else None for name, window in idle.items()}
    common = phases[baseline.name] if phases[baseline.name] == phases[candidate.name] else None
    part["capture_phase"] = unknown.note("memory.capture_phase", common, _phase_reason(baseline, candidate))
    for arm in (candidate, baseline):
        window = idle[arm.name]
        part[f"{arm.name}_capture_phase"] = phases[arm.name]
        part[f"{arm.name}_used_mib"] = unknown.note(
            f"memory.{arm.name}_used_mib", _used(window), "no idle snapshot that tells total, reserved and free"
        )
    increments = None
    old, new = _used(idle[baseline.name]), _used(idle[candidate.name])
    if common is not None and old is not None and new is not None and len(old) == len(new):
        increments = [round(b - a, 6) for a, b in zip(old, new, strict=True)]
    part[f"{candidate.name}_increment_mib"] = unknown.note(
        f"memory.{candidate.name}_increment_mib", increments, "needs snapshots of the same phase in both arms"
    )
    reserve = next((one.reserve_mib for arm in (baseline, candidate) for one in arm.memory if one.reserve_mib), None)
    part["reserve_policy_mib_per_gpu"] = unknown.note(
        "memory.reserve_policy_mib_per_gpu", reserve, "no artifact names a reserve"
    )
    for arm in (candidate, baseline):
        lowest = lowest_free(arm)
        part[f"{arm.name}_in_request_min_free_mib"] = unknown.note(
            f"memory.{arm.name}_in_request_min_free_mib", lowest, "VRAM was not sampled while requests were in flight"
        )
        part[f"{arm.name}_reserve_pass"] = unknown.note(
            f"memory.{arm.name}_reserve_pass", reserve_pass(arm), "no verdict and no in-request minimum with a reserve"
        )
    part["caveat"] = (
        "WSL/WDDM global VRAM includes host display and runtime allocations. used = total − reserved − free of a "
        "snapshot; the reserve is judged by the in-request minimum of free, never by used."
    )
    return part


def lowest_free(arm: Arm) -> list[float] | None:
    """Least free MiB of each GPU over all in-request windows, in the order of GPU names; None of none."""
    lowest: dict[str, float] = {}
    for gpu in _in_request(arm):
        if gpu.free_mib is not None:
            lowest[gpu.gpu] = min(gpu.free_mib, lowest.get(gpu.gpu, gpu.free_mib))
    return [lowest[name] for name in sorted(lowest)] or None


def reserve_pass(arm: Arm) -> bool | None:
    """Whether the reserve held: by the verdicts of our runs, else by imported minima against their reserve.

    A window short of its reserve settles it, also that of a gate, which has no verdict here.
    """
    windows = [one for one in arm.memory if one.in_request and one.reserve_mib is not None]
    if any(gpu.free_mib is not None and gpu.free_mib < (one.reserve_mib or 0) for one in windows for gpu in one.gpus):
        return False
    verdicts = [run.reserve.verdict for run in arm.runs if run.reserve is not None]
    if verdicts:
        if "FAIL" in verdicts:
            return False
        return True if all(verdict.startswith("PASS") for verdict in verdicts) else None
    return True if windows and lowest_free(arm) else None


def _in_request(arm: Arm) -> Iterator[GpuMemory]:
    for window in arm.memory:
        if window.in_request:
            yield from window.gpus


def _used(window: MemoryWindow | None) -> list[float] | None:
    if window is None or not window.gpus:
        return None
    used = [
        gpu.total_mib - gpu.reserved_mib - gpu.free_mib
        for gpu in window.gpus
        if gpu.total_mib is not None and gpu.reserved_mib is not None and gpu.free_mib is not None
    ]
    return used if len(used) == len(window.gpus) else None


def _phase_reason(baseline: Arm, candidate: Arm) -> str:
    told = {
        arm.name: sorted({"in request" if one.in_request else one.phase for one in arm.memory}) or ["no snapshot"]
        for arm in (candidate, baseline)
    }
    return "no common phase: " + "; ".join(f"{name}: {', '.join(phases)}" for name, phases in told.items())
