"""Reading a bundle that may be hostile: through folder descriptors, following nothing, waiting for nothing.

No path is ever joined and opened as a string; every segment is opened under the folder before it with O_NOFOLLOW. A
file is read once, through one descriptor: what is parsed is what was hashed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anvil_tui.bundles import sums
from anvil_tui.bundles.refused import Refused
from anvil_tui.errors import BadInput, Fault

MAX_ENTRIES = 20_000
MAX_FILE_BYTES = 16 << 30
MAX_KEPT_BYTES = 256 << 20
_CHUNK = 1 << 20
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Kind = Literal["file", "folder", "symlink", "special"]


@dataclass(frozen=True)
class Entry:
    """One name below the root, `path` relative to it with `/`."""

    path: str
    kind: Kind


@dataclass(frozen=True)
class Content:
    """What one file held when it was read; `data` only where it was asked for."""

    sha256: str
    size: int
    data: bytes | None


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[int]:
    """A descriptor of `folder`. Raises BadInput where it is not a folder itself, does not exist or may not be read."""
    try:
        fd = os.open(folder, _FOLDER_FLAGS)
    except OSError as error:
        found = error.strerror or str(error)
        if error.errno in {errno.ENOTDIR, errno.ELOOP}:
            found = "a symbolic link" if folder.is_symlink() else "not a folder"
        raise BadInput(str(folder), Fault("bundle", found, "the folder of a sealed campaign")) from None
    try:
        yield fd
    finally:
        os.close(fd)


def walk(root: int) -> Iterator[Entry]:
    """Everything below `root`, sorted within each folder, folders before what they hold; nothing is followed.

    Folders deeper than the grammar of paths allows are named and not entered. Raises Refused: TOO_MANY_FILES,
    UNREADABLE or VANISHED.
    """
    for count, entry in enumerate(_walk(root, "", 1), 1):
        if count > MAX_ENTRIES:
            raise Refused("TOO_MANY_FILES", f"more than {MAX_ENTRIES:,} names")
        yield entry


def _walk(folder: int, prefix: str, depth: int) -> Iterator[Entry]:
    try:
        with os.scandir(folder) as scan:
            some = itertools.islice(scan, MAX_ENTRIES + 1)
            found = sorted((item.name, _kind(item.stat(follow_symlinks=False).st_mode)) for item in some)
    except OSError as error:
        raise _refused(error, prefix.rstrip("/")) from None
    for name, kind in found:
        path = prefix + name
        yield Entry(path, kind)
        if kind == "folder" and depth <= sums.MAX_SEGMENTS:
            with _child(folder, name, path) as fd:
                yield from _walk(fd, path + "/", depth + 1)


def read(root: int, path: str, *, keep: bool = False, limit: int = MAX_FILE_BYTES, sync: bool = False) -> Content:
    """Hash the regular file at `path` below `root`, through one descriptor; `sync` makes it durable first.

    Raises Refused: VANISHED, SYMLINK, SPECIAL_FILE, NOT_A_FILE, UNREADABLE, TOO_BIG or CHANGED_DURING_READ.
    """
    *folders, name = path.split("/")
    with contextlib.ExitStack() as stack:
        folder = root
        for segment in folders:
            folder = stack.enter_context(_child(folder, segment, path))
        try:
            _check_kind(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
            fd = os.open(name, _FILE_FLAGS, dir_fd=folder)
        except OSError as error:
            raise _refused(error, path) from None
        stack.callback(os.close, fd)
        return _content(fd, path, min(limit, MAX_KEPT_BYTES) if keep else limit, keep=keep, sync=sync)


def _content(fd: int, path: str, limit: int, *, keep: bool, sync: bool) -> Content:
    before = os.fstat(fd)
    _check_kind(before, path)
    if before.st_size > limit:
        raise Refused("TOO_BIG", f"{before.st_size:,} bytes; at most {limit:,} are read", path)
    hasher = hashlib.sha256()
    size = 0
    kept: list[bytes] = []
    try:
        if sync:
            _sync(fd)
        while chunk := os.read(fd, _CHUNK):
            size += len(chunk)
            if size > before.st_size:
                break
            hasher.update(chunk)
            if keep:
                kept.append(chunk)
    except OSError as error:
        raise _refused(error, path) from None
    if size != before.st_size or _identity(before) != _identity(os.fstat(fd)):
        raise Refused("CHANGED_DURING_READ", "someone wrote it while it was read", path)
    return Content(hasher.hexdigest(), size, b"".join(kept) if keep else None)


@contextlib.contextmanager
def _child(folder: int, name: str, path: str) -> Iterator[int]:
    try:
        fd = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
    except OSError as error:
        raise _refused(error, path) from None
    try:
        yield fd
    finally:
        os.close(fd)


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:  # 9p and drvfs refuse it
            raise


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "folder"
    return "symlink" if stat.S_ISLNK(mode) else "special"


def _check_kind(found: os.stat_result, path: str) -> None:
    kind = _kind(found.st_mode)
    if kind != "file":
        code = {"folder": "NOT_A_FILE", "symlink": "SYMLINK", "special": "SPECIAL_FILE"}[kind]
        raise Refused(code, f"a {kind}, where a regular file must stand", path)


def _refused(error: OSError, path: str) -> Refused:
    code = {
        errno.ENOENT: "VANISHED",
        errno.ELOOP: "SYMLINK",
        errno.ENOTDIR: "NOT_A_FILE",
        errno.ENXIO: "SPECIAL_FILE",
    }.get(error.errno or 0, "UNREADABLE")
    return Refused(code, error.strerror or str(error), path)
