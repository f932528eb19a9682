"""NVML, through NVIDIA's own binding: one session, every GPU known by its UUID, every error kept where it belongs.

Runs in the sampler child only: the library can hang and can crash its caller. Never touches CUDA, process lists or PCIe
counters: a CUDA context spends the memory it would measure, and the others stall the driver.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Callable
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, TypeVar

from anvil_tui.clock import mono_us
from anvil_tui.records.vram import Gpu, GpuReading, Inventory, contradiction

try:
    import pynvml
except ImportError:
    pynvml = None

T = TypeVar("T")

LIBRARY_VARIABLE = "ANVIL_TUI_NVML"
"""Names the NVML library to use in place of the one that would be found."""
_WSL_LIBRARY = Path("/usr/lib/wsl/lib/libnvidia-ml.so.1")
_UNKNOWN_FIGURE = (1 << 64) - 1
"""NVML's "not available" in a 64-bit figure; it would print as 17179869184 GiB."""
_RETAKE = {1, 2, 6, 15, 16, 999}
"""Errors that a stale handle may give: uninitialised, invalid argument, not found, lost, reset required, unknown."""
_RETAKE_US = 1_000_000
"""A GPU that stays lost is looked for once in this time: the calls that search are slow ones."""


class CannotSample(Exception):
    """There is no NVML session to be had here: why, and what the operator may do."""

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Nvml:
    """The one NVML session of this process."""

    def __init__(self) -> None:
        """Load the library and start the session. Raises CannotSample."""
        _require_nvidia_binding()
        _preload()
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise _cannot_start(error) from None
        self._handles: dict[str, Any] = {}
        """By UUID. A GPU once seen stays, to be named as lost."""
        self._retake_at_us: dict[str, int] = {}

    def close(self) -> None:
        """End the session; a library that refuses has nothing left to end."""
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()

    def count(self) -> int | None:
        """How many GPUs there are now."""
        return _optional(pynvml.nvmlDeviceGetCount)

    def inventory(self) -> Inventory:
        """Who the GPUs are now; takes fresh handles of all. Raises CannotSample where they cannot be counted."""
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise _cannot_start(error) from None
        gpus: list[Gpu] = []
        unreadable: list[str] = []
        for index in range(count):
            try:
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                gpu = _identity(handle, index)
            except (pynvml.NVMLError, UnicodeDecodeError) as error:
                unreadable.append(f"GPU {index}: {_error_name(error)}")
                continue
            self._handles[gpu.uuid] = handle
            gpus.append(gpu)
        return Inventory(
            source="nvml",
            gpus=tuple(gpus),
            driver=_optional(pynvml.nvmlSystemGetDriverVersion),
            library=library_in_use(),
            unreadable=tuple(unreadable),
        )

    def read(self, *, sensors: bool) -> tuple[GpuReading, ...]:
        """Memory of every known GPU, with `sensors` also the rest.

        Never raises: what a GPU does not answer is None, and why it has no memory figure stands in its `error`.
        """
        return tuple(self._read_one(uuid, sensors) for uuid in self._handles)

    def _read_one(self, uuid: str, sensors: bool) -> GpuReading:
        try:
            memory = self._memory(uuid)
        except pynvml.NVMLError as error:
            return GpuReading(uuid=uuid, error=_error_name(error))
        handle = self._handles[uuid]
        figures = {
            "total": _figure(memory.total),
            "free": _figure(memory.free),
            "used": _figure(memory.used),
            "reserved": _reserved(handle) if sensors else None,
        }
        others = _sensors(handle) if sensors else {}
        wrong = contradiction(**figures)
        if wrong:
            return GpuReading(uuid=uuid, error=wrong, **others)
        return GpuReading(uuid=uuid, error="NOT_AVAILABLE" if figures["free"] is None else None, **figures, **others)

    def _memory(self, uuid: str) -> Any:
        """The first version of the memory record: the one that works everywhere. Raises NVMLError.

        A handle that went stale is taken anew by UUID: the device may have restarted.
        """
        try:
            return pynvml.nvmlDeviceGetMemoryInfo(self._handles[uuid])
        except pynvml.NVMLError as error:
            now_us = mono_us()
            if error.value not in _RETAKE or now_us < self._retake_at_us.get(uuid, 0):
                raise
            self._retake_at_us[uuid] = now_us + _RETAKE_US
            if error.value == pynvml.NVML_ERROR_UNINITIALIZED:
                pynvml.nvmlInit()
        self._handles[uuid] = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return pynvml.nvmlDeviceGetMemoryInfo(self._handles[uuid])


def library_in_use() -> str | None:
    """Paths of the NVML libraries that this process has mapped; under WSL two, since its own loads the driver's."""
    try:
        mapped = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    return ", ".join(sorted(set(re.findall(r"/\S*libnvidia-ml\.so\S*", mapped)))) or None


def _identity(handle: Any, index: int) -> Gpu:
    """Raises NVMLError where the GPU has no UUID: without one it cannot be told from another."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    mig = _optional(pynvml.nvmlDeviceGetMigMode, handle)
    pci = _optional(pynvml.nvmlDeviceGetPciInfo, handle)
    return Gpu(
        uuid=uuid,
        name=_optional(pynvml.nvmlDeviceGetName, handle) or "unknown",
        index=index,
        bus_id=None if pci is None else str(pci.busId),
        mig=None if mig is None else mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
    )


def _reserved(handle: Any) -> int | None:
    """What the driver keeps for itself, in bytes; only the second version of the memory record tells it."""
    memory = _optional(pynvml.nvmlDeviceGetMemoryInfo, handle, pynvml.nvmlMemory_v2)
    return None if memory is None else _figure(memory.reserved)


def _sensors(handle: Any) -> dict[str, Any]:
    """Whatever else the GPU tells of itself, by the names of GpuReading."""
    util = _optional(pynvml.nvmlDeviceGetUtilizationRates, handle)
    power_mw = _optional(pynvml.nvmlDeviceGetPowerUsage, handle)
    limit_mw = _optional(pynvml.nvmlDeviceGetEnforcedPowerLimit, handle)
    throttle = _optional(pynvml.nvmlDeviceGetCurrentClocksEventReasons, handle)
    if throttle is None:
        throttle = _optional(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, handle)
    return {
        "util_pct": None if util is None or util.gpu > 100 else util.gpu,
        "power_w": None if power_mw is None else power_mw / 1000,
        "power_limit_w": None if limit_mw is None else limit_mw / 1000,
        "temperature_c": _optional(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
        "sm_clock_mhz": _optional(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM),
        "throttle": None if throttle is None else _figure(throttle),
    }


def _optional(call: Callable[..., T], *arguments: Any) -> T | None:
    """What an optional call gives, None for any error: WSL says "unknown" where "not supported" is meant."""
    try:
        return call(*arguments)
    except (pynvml.NVMLError, pynvml.NVMLLibraryMismatchError, UnicodeDecodeError):
        return None


def _figure(raw: int) -> int | None:
    return None if raw == _UNKNOWN_FIGURE else int(raw)


@cache
def _error_names() -> dict[int, str]:
    names = (name for name in dir(pynvml) if name.startswith("NVML_ERROR_"))
    return {getattr(pynvml, name): name.removeprefix("NVML_ERROR_") for name in names}


def _error_name(error: Exception) -> str:
    """NVML's own name of an error, such as GPU_IS_LOST."""
    code = getattr(error, "value", None)
    return type(error).__name__ if code is None else _error_names().get(code, f"error {code}")


def _require_nvidia_binding() -> None:
    """Three packages install a module `pynvml` over each other; only a current one of NVIDIA's has all we call."""
    if hasattr(pynvml, "nvmlMemory_v2") and hasattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons"):
        return
    owners = ", ".join(packages_distributions().get("pynvml", [])) or "an unknown package"
    raise CannotSample(
        f"the Python module pynvml ({getattr(pynvml, '__file__', 'missing')}) is not a current nvidia-ml-py; "
        f"installed by: {owners}",
        "pip uninstall pynvml nvidia-ml-py3; pip install --force-reinstall nvidia-ml-py",
    )


def _preload() -> None:
    """Load the right library first; the binding then finds it by its soname. A stub may stand before WSL's own.

    Raises CannotSample where the library that the operator named cannot be loaded.
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    path = Path(named) if named else _WSL_LIBRARY
    if not named and not path.exists():
        return
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        if named:
            raise CannotSample(f"{LIBRARY_VARIABLE}={named} cannot be loaded: {error}") from None


def _cannot_start(error: pynvml.NVMLError) -> CannotSample:
    code = error.value
    library = library_in_use() or "libnvidia-ml.so.1"
    said = f"NVML ({library}) says {_error_name(error)} ({code}): {error}"
    match code:
        case pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            tried = f"libnvidia-ml.so.1 on the loader's path and {_WSL_LIBRARY}"
            return CannotSample(
                f"NVML was not found: tried {tried}", "install NVIDIA's driver; under WSL on the Windows side only"
            )
        case pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return CannotSample(
                said,
                "the library is a stub or no driver runs; under WSL: `wsl --update`, `wsl --shutdown`, and a terminal "
                "that is not elevated",
            )
        case pynvml.NVML_ERROR_OPERATING_SYSTEM:
            return CannotSample(
                said, "the GPU is in TCC mode, or this is a container without /dev/dxg and /usr/lib/wsl"
            )
        case pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
            return CannotSample(f"{said}; {_versions(library)}", "restart the machine to load the new driver")
        case pynvml.NVML_ERROR_NO_PERMISSION:
            return CannotSample(said, "this user may not open the GPU's device files")
        case _:
            return CannotSample(said)


def _versions(library: str) -> str:
    """The versions of driver and library, as far as they can be told without a session."""
    try:
        kernel = re.search(r"\d+\.\d+(\.\d+)?", Path("/proc/driver/nvidia/version").read_text())
    except OSError:
        return "the driver's version cannot be read"
    of_library = re.search(r"\.so\.(\d+\.\d[\d.]*)", library)
    return f"driver {kernel.group() if kernel else '?'}, library {of_library.group(1) if of_library else '?'}"
