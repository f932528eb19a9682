"""Writing so that a crash at any moment leaves whole files, and the locks that keep writers apart."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

_TOLERATED_SYNC_ERRORS = {errno.EINVAL, errno.ENOTSUP, errno.EACCES}


def sync_dir(folder: Path) -> None:
    """fsync a folder; file systems that refuse it (9p, drvfs) are tolerated."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _TOLERATED_SYNC_ERRORS:
            raise
    finally:
        os.close(fd)


def write_all(fd: int, data: bytes) -> None:
    """Write every byte, however the kernel splits it."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def write_atomic(path: Path, data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write `path` so that readers see the old bytes or the new ones, never a part; fsync when `durable`."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(fd, data)
            if durable:
                os.fsync(fd)
        finally:
            os.close(fd)
        aside.rename(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if durable:
        sync_dir(path.parent)


def write_new(path: Path, data: bytes, *, mode: int = 0o600) -> None:
    """Write a file that must not exist yet, durably. Raises FileExistsError; nothing is ever overwritten."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    sync_dir(path.parent)


class Lock:
    """An advisory lock on one file, held while the object is and by every process that inherits its descriptor."""

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self.fd = fd

    @classmethod
    def take(cls, path: Path, holder: str = "") -> Lock | None:
        """Take the lock without waiting; None where someone holds it. `holder` is written for display only."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        if holder:
            os.ftruncate(fd, 0)
            os.pwrite(fd, holder.encode(), 0)
        return cls(path, fd)

    @staticmethod
    def held(path: Path) -> bool:
        """Whether someone holds the lock at `path` now."""
        try:
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def release(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.fd)


@contextlib.contextmanager
def locked(path: Path, holder: str = "") -> Iterator[Lock | None]:
    """The lock at `path` for the length of a block, or None where someone holds it."""
    lock = Lock.take(path, holder)
    try:
        yield lock
    finally:
        if lock is not None:
            lock.release()
