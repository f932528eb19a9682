"""A fake NVML library under NVIDIA's own Python binding, driven by a scenario file (fake_nvml.c explains its keys)."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).with_name("fake_nvml.c")


def compiled(folder: Path) -> Path | None:
    """The library built into `folder`; None where there is no gcc."""
    gcc = shutil.which("gcc")
    if gcc is None:
        return None
    library = folder / "libnvidia-ml.so.1"
    flags = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([gcc, *flags, "-o", library, SOURCE], check=True)
    return library


class FakeNvml:
    """One scenario: the library, the file that it reads and the log of its calls."""

    def __init__(self, library: Path, folder: Path) -> None:
        self.library = library
        self._scenario = folder / "scenario"
        self._log = folder / "calls"
        self.write()

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to see this fake and no other."""
        return {
            "ANVIL_TUI_NVML": str(self.library),
            "FAKE_NVML_SCENARIO": str(self._scenario),
            "FAKE_NVML_LOG": str(self._log),
        }

    def write(self, **settings: object) -> None:
        """Replace the scenario; `error__DeviceGetMemoryInfo__0=15` is the key `error.DeviceGetMemoryInfo.0`."""
        epoch = {"epoch": time.monotonic_ns() // 1_000_000}
        lines = "".join(f"{key.replace('__', '.')} {value}\n" for key, value in {**epoch, **settings}.items())
        aside = self._scenario.with_suffix(".new")
        aside.write_text(lines)
        aside.rename(self._scenario)

    def calls(self) -> Counter[str]:
        """How often each function was called so far."""
        text = self._log.read_text() if self._log.exists() else ""
        return Counter(line.split()[1] for line in text.splitlines())
