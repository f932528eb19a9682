"""The kernel log as a witness of spill: under WSL the driver complains there when it cannot make memory resident."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from pathlib import Path

KERNEL_LOG = Path("/dev/kmsg")
_RECORD = 8192
_RESIDENCY_ERROR = re.compile(rb"dxgkio_make_resident.*-12\b")
"""-12 is ENOMEM."""


class KernelLog:
    """Counts residency errors from the moment it was opened. Where the log may not be read, `fault` says why."""

    def __init__(self, path: Path = KERNEL_LOG) -> None:
        self.fault: str | None = None
        self._fd: int | None = None
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            os.lseek(self._fd, 0, os.SEEK_END)
        except OSError as error:
            self.fault = f"{path} cannot be read: {error.strerror}"

    def new_errors(self) -> int | None:
        """Residency errors since the last call; None where the log cannot be read, or lost lines in between."""
        count = 0
        lost = False
        while self._fd is not None:
            try:
                record = os.read(self._fd, _RECORD)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:
                    # The kernel overwrote lines before we read them; the next read goes on behind the hole.
                    lost = True
                    continue
                self.fault = f"the kernel log cannot be read: {error.strerror}"
                self.close()
                return None
            if not record:
                break
            count += len(_RESIDENCY_ERROR.findall(record))
        return None if lost or self._fd is None else count

    def close(self) -> None:
        if self._fd is not None:
            with contextlib.suppress(OSError):
                os.close(self._fd)
            self._fd = None
