"""GPU memory: who the GPUs are, samples of them, and the verdict on the reserve. Bytes inside, MiB on screens."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

MIB = 1 << 20


class Gpu(Struct, frozen=True, kw_only=True):
    """A GPU, known by its UUID. `index` is today's and only for display."""

    uuid: str
    name: str
    index: int
    bus_id: str | None = None
    mig: bool | None = None
    """Whether the GPU is cut into MIG slices; its memory figures are then a sum that says nothing of one slice."""


class Inventory(Struct, frozen=True, kw_only=True, tag_field="kind", tag="inventory"):
    """What a sampler sees: its first line, and again when the set of GPUs changes."""

    source: Literal["nvml", "rehearsal"]
    gpus: tuple[Gpu, ...]
    driver: str | None = None
    library: str | None = None
    """Path of the NVML library that is in use; under WSL two, since its own loads the driver's."""
    rehearsal: bool = False
    unreadable: tuple[str, ...] = ()
    """GPUs that answer not even to their name: the place and the error of each."""


class GpuReading(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One GPU at one moment. Null, or left out, is unknown; a failed call names its error.

    Memory stands in every sample. `reserved` and the other sensors are read once a second and are null in between.
    """

    uuid: str
    free: int | None = None
    """NVML `free` in bytes: the figure the reserve is judged by."""
    total: int | None = None
    used: int | None = None
    reserved: int | None = None
    """Driver-reserved bytes, read and never assumed."""
    util_pct: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: int | None = None
    sm_clock_mhz: int | None = None
    throttle: int | None = None
    """NVML's clock event reasons as a bit mask."""
    error: str | None = None


class VramSample(Struct, frozen=True, kw_only=True, tag_field="kind", tag="sample"):
    """All GPUs at one moment, stamped in the sampler."""

    mono_us: int
    at: str
    gpus: tuple[GpuReading, ...]
    call_us: int | None = None
    """Time that the driver calls of this sample took."""


class SamplerFailed(Struct, frozen=True, kw_only=True, tag_field="kind", tag="failed"):
    """The sampler cannot sample: why, and what the operator may do."""

    mono_us: int
    reason: str
    hint: str = ""


class SamplerGap(Struct, frozen=True, kw_only=True, tag_field="kind", tag="gap"):
    """Written into `vram/` by the runner where its sampler was restarted; a window that holds one is INCOMPLETE."""

    from_us: int
    to_us: int
    reason: str


SamplerLine = Inventory | VramSample | SamplerFailed | SamplerGap


class SpillWitness(Struct, frozen=True, kw_only=True, tag_field="kind", tag="spill"):
    """What one witness on the host says of GPU memory that was moved to system memory within a window."""

    from_us: int
    to_us: int
    witness: Literal["kernel log", "shared usage"]
    spilled: bool | None
    """Null where the witness does not work here, or cannot tell."""
    words: str
    residency_errors: int | None = None
    """Kernel log: calls to make memory resident that failed for want of memory."""
    shared_rise_bytes: int | None = None
    """Shared usage: the largest rise of one adapter's shared memory over its figure before the lane."""


VramLine = Inventory | VramSample | SamplerFailed | SamplerGap | SpillWitness
"""A line of a file in `vram/`."""

Verdict = Literal["PASS", "PASS (spill not checked)", "FAIL", "INCOMPLETE", "UNKNOWN"]
Policy = Literal["enforce", "waived", "off"]


class GpuReserve(Struct, frozen=True, kw_only=True):
    """The reserve of one GPU over a window. Margins are signed: negative is short of the reserve."""

    uuid: str
    name: str
    min_free_bytes: int | None
    min_free_at_us: int | None
    margin_bytes: int | None
    below_seconds: float | None
    """How long free memory was below the reserve."""
    reserved_bytes: int | None
    total_bytes: int | None
    verdict: Verdict
    reason: str = ""


class ReserveVerdict(Struct, frozen=True, kw_only=True):
    """The reserve of a lane over the window of one request or run."""

    verdict: Verdict
    reason: str
    policy: Policy
    policy_reason: str | None
    reserve_mib: int
    window_from_us: int
    window_to_us: int
    samples: int
    hz: float | None
    """Samples a second that were really taken."""
    max_gap_ms: float | None
    coverage_pct: float | None
    spill: Literal["none", "seen", "not checked", "not applicable"]
    spill_witness: str | None
    gpus: tuple[GpuReserve, ...]
    rehearsal: bool = False


def contradiction(*, total: int | None, free: int | None, used: int | None, reserved: int | None) -> str | None:
    """Why figures of one GPU (bytes) cannot be true together; None where nothing speaks against them.

    NVML counts `used` with the driver's reserve in its first record and without it in its second: what is neither used
    nor free may be the reserve or less, never more, and never negative. Rounding to MiB is tolerated.
    """
    if total is not None and total <= 0:
        return "no dedicated memory: the total is 0"
    for word, figure in (("free", free), ("used", used), ("reserved", reserved)):
        if figure is not None and (figure < 0 or (total is not None and figure > total)):
            return f"{word} is {figure} of a total of {total} bytes"
    if total is None or free is None or used is None:
        return None
    rest = total - used - free
    if rest >= -MIB and (reserved is None or rest <= reserved + MIB):
        return None
    return f"used {used} and free {free} do not sum to the total of {total} bytes"
