"""The worst free memory that runs saw, against their reserve, and where it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from anvil_tui.campaigns.store.view import RunView
from anvil_tui.records.arm import MemoryWindow
from anvil_tui.records.vram import MIB, Policy, Verdict


@dataclass(frozen=True)
class WorstFree:
    """Least free memory of one GPU while requests of a run were under way."""

    free_bytes: int
    reserve_bytes: int
    gpu: str
    path: str
    """The run's artifact."""

    @property
    def margin_bytes(self) -> int:
        """Negative is short of the reserve."""
        return self.free_bytes - self.reserve_bytes


@dataclass(frozen=True)
class ReserveSoFar:
    """Of the runs and gates of an arm or of a load: how many had which verdict, and the worst figure, if any told."""

    verdicts: Mapping[Verdict, int]
    worst: WorstFree | None
    policy: Policy | None = None
    """Of the lane's profile; null where none was read."""

    @property
    def bad(self) -> bool:
        """Short of a reserve that is not waived."""
        return "FAIL" in self.verdicts and self.policy in (None, "enforce")


def reserve_so_far(
    runs: Iterable[RunView], windows: Iterable[MemoryWindow], gpus: Mapping[str, str], policy: Policy | None
) -> ReserveSoFar | None:
    """Pure. `windows` are those of any runs, `gpus` names GPUs by UUID. None where no run has a verdict."""
    judged = {run.path: run.reserve for run in runs if run.path is not None and run.reserve is not None}
    if not judged:
        return None
    figures = [one for window in windows if window.path in judged for one in _figures(window, gpus)]
    return ReserveSoFar(Counter(judged.values()), min(figures, key=lambda one: one.free_bytes, default=None), policy)


def _figures(window: MemoryWindow, gpus: Mapping[str, str]) -> Iterator[WorstFree]:
    for gpu in window.gpus:
        if window.in_request and gpu.free_mib is not None and window.reserve_mib is not None:
            free, reserve = int(gpu.free_mib * MIB), window.reserve_mib * MIB
            yield WorstFree(free, reserve, gpus.get(gpu.gpu, gpu.gpu), window.path)
