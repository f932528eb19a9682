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


class Inventory(Struct, frozen=True, kw_only=True, tag_field="kind", tag="inventory"):
    """What a sampler sees: its first line, and again when the set of GPUs changes."""

    source: Literal["nvml", "rehearsal"]
    gpus: tuple[Gpu, ...]
    driver: str | None = None
    library: str | None = None
    """Path of the NVML library that is in use."""
    rehearsal: bool = False


class GpuReading(Struct, frozen=True, kw_only=True):
    """One GPU at one moment. Null is unknown; a failed call names its error."""

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
