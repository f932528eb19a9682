"""The sampler child of a lane's GPUs, for a runner as for a screen."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from anvil_tui.gpus.supervisor import SamplerChild
from anvil_tui.lanes.profile import Lane
from anvil_tui.locations import Locations
from anvil_tui.records.lane import RehearsalLaunch
from anvil_tui.records.vram import SamplerLine


def sampler_of(lane: Lane, locations: Locations, hz: float, on_line: Callable[[SamplerLine], None]) -> SamplerChild:
    """A sampler of the lane's GPUs, not started yet. The lane has a source. Nothing is written for it."""
    launch = lane.profile.launch
    if not isinstance(launch, RehearsalLaunch):
        return SamplerChild("nvml", hz, on_line)
    gpus = msgspec.json.encode(launch.gpus).decode()
    return SamplerChild("rehearsal", hz, on_line, gpus=gpus, timelines=locations.rehearsal)
