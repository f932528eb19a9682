"""What a rehearsal engine is told when a lane starts it."""

from __future__ import annotations

from msgspec import Struct

from anvil_tui.records.lane import Recipe, SimulatedEngine, SimulatedGpu


class EngineConfig(Struct, frozen=True, kw_only=True):
    """`engine.json` in the lane folder: the engine's whole command line."""

    lane: str
    host: str
    port: int
    model: str
    served_name: str
    recipe: Recipe
    engine: SimulatedEngine
    gpus: tuple[SimulatedGpu, ...]
    timelines: str
    """Folder of the simulated GPUs' timeline files."""
