"""Which GPUs there are, and which of them a lane means."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from anvil_tui.errors import BadInput, CannotRun, Fault
from anvil_tui.gpus.supervisor import START_S, SamplerChild
from anvil_tui.records.vram import Gpu, Inventory, SamplerFailed

_SHORTEST_PREFIX = 4


async def inventory(
    source: Literal["nvml", "rehearsal"],
    *,
    gpus: str | None = None,
    timelines: Path | None = None,
    start_s: float = START_S,
) -> Inventory | SamplerFailed:
    """Ask one short-lived sampler child which GPUs there are; a driver that is silent for `start_s` has failed."""
    child = SamplerChild(source, 2.0, lambda _line: None, gpus=gpus, timelines=timelines, start_s=start_s)
    try:
        return await child.start()
    finally:
        await child.stop()


def choose(
    devices: Literal["all"] | int | Sequence[str], found: Inventory, *, profile: str = "profile"
) -> tuple[Gpu, ...]:
    """The GPUs that `[gpus] devices` of a lane profile means: in the order in which they are named, else by index.

    `devices` is "all", a count, or unique UUID prefixes (`GPU-` may be left out). Raises BadInput for what can mean no
    GPU anywhere (a MIG slice, a GPU named twice, a prefix of several), CannotRun for what this machine does not have.
    """
    if isinstance(devices, str | int):
        wanted = _count(devices, found)
    else:
        if not devices:
            raise BadInput(profile, Fault("gpus.devices", "an empty list", 'UUID prefixes, a count or "all"'))
        wanted = tuple(_by_prefix(f"gpus.devices[{at}]", prefix, found, profile) for at, prefix in enumerate(devices))
        for at, gpu in enumerate(wanted):
            if gpu in wanted[:at]:
                raise BadInput(
                    profile, Fault(f"gpus.devices[{at}]", f"{devices[at]!r} is named twice", "each GPU once")
                )
    sliced = [gpu for gpu in wanted if gpu.mig]
    if sliced:
        raise CannotRun(
            f"{_shown(sliced)}: MIG is on, which is unsupported: the memory of a whole GPU says nothing of a slice"
        )
    return wanted


def _count(devices: str | int, found: Inventory) -> tuple[Gpu, ...]:
    by_index = tuple(sorted(found.gpus, key=lambda gpu: gpu.index))
    if isinstance(devices, str):
        if found.unreadable:
            raise CannotRun(f"all GPUs are wanted, but some do not answer: {'; '.join(found.unreadable)}")
        if not by_index:
            raise CannotRun("all GPUs are wanted, but there is none")
        return by_index
    if devices > len(by_index):
        lost = f"; not answering: {'; '.join(found.unreadable)}" if found.unreadable else ""
        raise CannotRun(f"{devices} GPUs are wanted, {len(by_index)} are here: {_shown(by_index)}{lost}")
    return by_index[:devices]


def _by_prefix(place: str, prefix: str, found: Inventory, profile: str) -> Gpu:
    if prefix.upper().startswith("MIG"):
        raise BadInput(
            profile, Fault(place, f"{prefix!r} is a MIG slice; unsupported here", "UUID prefixes of whole GPUs")
        )
    bare = prefix.casefold().removeprefix("gpu-")
    if len(bare) < _SHORTEST_PREFIX:
        allowed = f"{_SHORTEST_PREFIX} characters of a UUID or more; an index is not kept, it changes"
        raise BadInput(profile, Fault(place, repr(prefix), allowed))
    matches = [gpu for gpu in found.gpus if gpu.uuid.casefold().removeprefix("gpu-").startswith(bare)]
    match matches:
        case [gpu]:
            return gpu
        case []:
            raise CannotRun(
                f"{profile}: {place}: no GPU here has a UUID that begins with {prefix!r}: {_shown(found.gpus)}"
            )
        case _:
            raise BadInput(profile, Fault(place, f"{prefix!r} fits {_shown(matches)}", "a prefix of one GPU's UUID"))


def _shown(gpus: Sequence[Gpu]) -> str:
    return ", ".join(gpu.uuid for gpu in gpus) or "none"
