"""Shared memory that dead engines left behind: files of host KV offload that no process maps any more."""

from __future__ import annotations

from pathlib import Path

_SHM = Path("/dev/shm")
_PATTERN = "vllm_offload_*"


def reclaimable_bytes(folder: Path = _SHM) -> int | None:
    """Bytes of offload files under `folder` that no process maps; null where that cannot be told."""
    try:
        files = {path: path.stat().st_size for path in folder.glob(_PATTERN)}
    except OSError:
        return None
    if not files:
        return 0
    mapped = _mapped(str(folder))
    if mapped is None:
        return None
    return sum(size for path, size in files.items() if str(path) not in mapped)


def _mapped(prefix: str) -> set[str] | None:
    """Paths under `prefix` that some process maps; null where a process's maps are hidden from us."""
    found: set[str] = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except PermissionError:
            return None
        found |= {line[line.index(prefix) :].removesuffix(" (deleted)") for line in lines if prefix in line}
    return found
