"""What the simulated engine holds of each GPU, rank by rank, written to their timelines as it changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from anvil_tui.records.lane import SimulatedGpu
from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.rehearsal import figures
from anvil_tui.rehearsal.timeline import TimelineReader, TimelineWriter, timeline_path

CONTEXT_MIB = 550
"""What a CUDA context takes at most; a GPU's overhead beyond it appears with the graphs and workspaces."""
BUSY_PREFILL, BUSY_DECODE, BUSY_LOAD = 99, 62, 18
"""GPU utilisation in percent while the engine does that."""


@dataclass(frozen=True)
class Held:
    """The parts that the engine holds at one moment; shares run from 0 to 1."""

    context: bool = False
    weights: float = 0.0
    non_torch: bool = False
    kv: bool = False
    graphs: bool = False
    activation: float = 0.0
    """Share of the peak activation in use."""
    kept: float = 0.0
    """Largest share in use so far: the allocator keeps a part of it."""
    busy_pct: int = 0


class GpuMemory:
    """The engine's hand on its GPUs: one timeline a rank, or none where the profile simulates no GPU."""

    def __init__(self, config: EngineConfig) -> None:
        self._config = config
        folder = Path(config.timelines)
        if config.gpus:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        paths = [timeline_path(folder, gpu.uuid) for gpu in config.gpus]
        self._readers = [TimelineReader(path) for path in paths]
        self._writers = [TimelineWriter(path, config.lane) for path in paths]
        self._held = Held()

    def free_gib(self) -> list[float]:
        """Free memory of each rank's GPU now, with every lane that holds some of it counted."""
        taken = [reader.load().mib for reader in self._readers] or [0] * len(figures.devices(self._config))
        pairs = zip(figures.devices(self._config), taken, strict=True)
        return [(gpu.total_mib - gpu.reserved_mib - gpu.host_mib - mib) / figures.MIB_PER_GIB for gpu, mib in pairs]

    def hold(self, held: Held) -> None:
        """Hold exactly `held` from now on. Writes nothing where nothing changed."""
        if held == self._held:
            return
        self._held = held
        for rank, (gpu, writer) in enumerate(zip(self._config.gpus, self._writers, strict=True)):
            writer.write(held_mib(self._config, gpu, rank, held), held.busy_pct)

    def work(self, prefill_share: float, decoding: bool) -> None:
        """Serving: the largest share of the peak activation that a running prefill uses, and whether tokens come."""
        busy = BUSY_PREFILL if prefill_share else BUSY_DECODE if decoding else 0
        kept = max(self._held.kept, prefill_share)
        self.hold(replace(self._held, activation=prefill_share, kept=kept, busy_pct=busy))


def held_mib(config: EngineConfig, gpu: SimulatedGpu, rank: int, held: Held) -> int:
    """MiB that rank `rank` holds of its GPU."""
    engine = config.engine
    context = min(gpu.overhead_mib, CONTEXT_MIB)
    activation = max(held.activation, held.kept * engine.activation_kept)
    gib = (
        held.weights * engine.weights_gib
        + held.non_torch * figures.non_torch(config, rank)
        + held.kv * engine.kv_gib
        + held.graphs * engine.cuda_graph_gib
        + activation * engine.peak_activation_gib
    )
    return round(gib * figures.MIB_PER_GIB) + held.context * context + held.graphs * (gpu.overhead_mib - context)
