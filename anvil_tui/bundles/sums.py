"""`SHA256SUMS`, the signed root: what may stand in it and nothing else.

    <64 lower-case hex digits><2 spaces><path>\\n

sorted bytewise, LF, no comments, every path once. It lists every file of the bundle but itself and `signatures/`. The
narrow alphabet of paths leaves nothing to escape, to normalise or to hide in a terminal.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping

from anvil_tui.bundles.refused import Refused

NAME = "SHA256SUMS"
SIGNATURES = "signatures"
MAX_BYTES = 4 << 20
MAX_SEGMENTS = 8
MAX_SEGMENT = 100

_LINE = re.compile(rb"([0-9a-f]{64})  ([^\n]+)")
_SEGMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_DEVICE = re.compile(r"(?i)(?:con|prn|aux|nul|com[0-9]|lpt[0-9])(?:\..*)?")


def path_fault(path: str) -> str | None:
    """Why `path` may not stand in a bundle, or None where it may."""
    segments = path.split("/")
    if len(segments) > MAX_SEGMENTS:
        return f"more than {MAX_SEGMENTS} levels deep"
    for segment in segments:
        if not _SEGMENT.fullmatch(segment):
            return "each part must be letters, digits and . _ + -, and begin with a letter or digit"
        if len(segment) > MAX_SEGMENT:
            return f"a part is longer than {MAX_SEGMENT} characters"
        if segment.endswith("."):
            return "a part ends with a dot, which Windows drops"
        if _DEVICE.fullmatch(segment):
            return "a part is the name of a Windows device"
    return None


def write(hashes: Mapping[str, str]) -> bytes:
    """The list of `hashes` by path. Raises Refused where a path may not stand in it, or where it grows too big."""
    _check_paths(hashes)
    raw = "".join(f"{hashes[path]}  {path}\n" for path in sorted(hashes)).encode("ascii")
    if len(raw) > MAX_BYTES:
        raise Refused("TOO_MANY_FILES", f"the list would have more than {MAX_BYTES:,} bytes")
    return raw


def parse(raw: bytes) -> dict[str, str]:
    """Hashes by path. Accepts exactly what `write` makes.

    Raises Refused for all else: SUMS_MALFORMED, BAD_PATH, DUPLICATE_PATH, CASE_COLLISION or EMPTY.
    """
    if len(raw) > MAX_BYTES:
        raise Refused("SUMS_MALFORMED", f"more than {MAX_BYTES} bytes")
    if not raw:
        raise Refused("EMPTY", "the list is empty")
    if b"\r" in raw:
        raise Refused("SUMS_MALFORMED", "it holds CR; a tool converted its line ends")
    if not raw.endswith(b"\n"):
        raise Refused("SUMS_MALFORMED", "the last line does not end")
    hashes: dict[str, str] = {}
    paths: list[str] = []
    for number, line in enumerate(raw[:-1].split(b"\n"), 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise Refused("SUMS_MALFORMED", f"line {number} is not 64 hex digits, two spaces and a path")
        path = match[2].decode("utf-8", "backslashreplace")
        hashes[path] = match[1].decode("ascii")
        paths.append(path)
    _check_paths(paths)
    if paths != sorted(paths):
        raise Refused("SUMS_MALFORMED", "the lines are not sorted")
    return hashes


def digest(data: bytes) -> str:
    """SHA-256 in lower-case hex."""
    return hashlib.sha256(data).hexdigest()


def _check_paths(paths: Iterable[str]) -> None:
    """Raise Refused unless all paths are in the grammar, unique, and unique where case and normal form do not count."""
    files: dict[str, str] = {}
    folders: dict[str, str] = {}
    for path in paths:
        if fault := path_fault(path):
            raise Refused("BAD_PATH", fault, path)
        top = path.split("/")[0]
        if _folded(top) in {_folded(NAME), _folded(SIGNATURES)}:
            raise Refused("BAD_PATH", "the list and the signatures are not in the list", path)
        if (folded := _folded(path)) in files:
            twin = files[folded]
            raise Refused("DUPLICATE_PATH" if twin == path else "CASE_COLLISION", f"stands beside {twin}", path)
        files[folded] = path
        for folder in folders_of(path):
            twin = folders.setdefault(_folded(folder), folder)
            if twin != folder:
                raise Refused("CASE_COLLISION", f"stands beside the folder {twin}", path)
    for folded in files.keys() & folders.keys():
        raise Refused("CASE_COLLISION", f"is a file beside the folder {folders[folded]}", files[folded])


def folders_of(path: str) -> list[str]:
    """The folders above `path`, outermost first."""
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def _folded(path: str) -> str:
    return unicodedata.normalize("NFC", path).casefold()
