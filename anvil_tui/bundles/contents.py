"""The files of a bundle against its list, and the manifest against both. Everything is read once, nothing followed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anvil_tui.bundles import journal_check, manifest, sums, tree
from anvil_tui.bundles.refused import Refused, finding
from anvil_tui.records.bundle import Finding, Manifest

MAX_KEPT_BYTES = 1 << 30
MAX_SIGNATURES = 16

_SIGNATURE = re.compile(rf"{sums.SIGNATURES}/[A-Za-z0-9][A-Za-z0-9._+-]*\.sig")
_ASIDE = re.compile(r"\.[^/]+\.[0-9a-f]{8}\.tmp")
_LEFT_BY_WINDOWS = ("Zone.Identifier", ".DS_Store", "desktop.ini", "Thumbs.db")


@dataclass(frozen=True)
class Contents:
    """What was hashed, and the bytes that were kept of it. Meaning is judged on these bytes and on nothing else."""

    manifest: Manifest
    hashes: Mapping[str, str]
    """Of the signed list, by path; also of files that a published copy withholds."""
    sizes: Mapping[str, int]
    """In bytes, of the files that are here as they were sealed."""
    kept: Mapping[str, bytes]
    """The structured files among them: manifest, journal, plan, profiles, runs, documents, start-up reports."""
    withheld: tuple[str, ...]


@dataclass(frozen=True)
class Examination:
    """The outcome; `contents` is null where the manifest could not be read."""

    contents: Contents | None
    findings: tuple[Finding, ...]
    files: int
    """How many were hashed."""
    bytes: int


def is_kept(path: str) -> bool:
    """Whether the bytes of this file are parsed later, and so must be the very bytes that were hashed."""
    if path in {manifest.NAME, journal_check.NAME, "plan.json"}:
        return True
    folder = path.partition("/")[0]
    return folder in {"lanes", "runs", "documents", "startup"} and path.endswith((".json", ".jsonl", ".toml"))


def is_aside(path: str) -> bool:
    """Whether a crash left this file while it was being written aside; nothing ever acknowledged it."""
    return _ASIDE.fullmatch(path.rsplit("/", 1)[-1]) is not None


def is_cut_off_signing(path: str) -> bool:
    """Whether a signing that was cut off left this file."""
    return path.startswith(f"{sums.SIGNATURES}/") and is_aside(path)


def signature_files(entries: tuple[tree.Entry, ...]) -> tuple[str, ...]:
    """The signature files among the names of a bundle. Raises Refused TOO_MANY_FILES."""
    found = tuple(entry.path for entry in entries if entry.kind == "file" and _SIGNATURE.fullmatch(entry.path))
    if len(found) > MAX_SIGNATURES:
        raise Refused("TOO_MANY_FILES", f"more than {MAX_SIGNATURES} signatures", sums.SIGNATURES)
    return found


def examine(
    root: int, entries: tuple[tree.Entry, ...], hashes: Mapping[str, str], *, published: bool = False
) -> Examination:
    """Compare the names below `root` and the bytes behind them with the list, both ways.

    A `published` copy may lack the files that the manifest calls private; everything else may lack nothing.
    """
    findings = list(_stray(entries, hashes))
    present = {entry.path for entry in entries if entry.kind == "file"}
    if manifest.NAME not in hashes:
        findings.append(finding("MANIFEST_MISSING", "the list does not name it", manifest.NAME))
    elif len(hashes) < 2:
        findings.append(finding("EMPTY", "the list names nothing but the manifest"))
    sizes: dict[str, int] = {}
    kept: dict[str, bytes] = {}
    hashed: list[int] = []
    room = MAX_KEPT_BYTES
    for path in sorted(hashes.keys() & present):
        try:
            keep = is_kept(path)
            content = tree.read(root, path, keep=keep, limit=room if keep else tree.MAX_FILE_BYTES)
        except Refused as refused:
            findings.append(refused.finding)
            continue
        hashed.append(content.size)
        if content.sha256 != hashes[path]:
            findings.append(finding("HASH_MISMATCH", "its bytes are not those that were sealed", path))
            continue
        sizes[path] = content.size
        if content.data is not None:
            kept[path] = content.data
            room -= content.size
    told = None
    if manifest.NAME in kept:
        try:
            told = manifest.parse(kept[manifest.NAME])
        except Refused as refused:
            findings.append(refused.finding)
    private = {file.path for file in told.files if file.private} if told else set()
    # What stands there as a folder, a link or a device is named already.
    missing = sorted(hashes.keys() - {entry.path for entry in entries})
    withheld = tuple(path for path in missing if published and path in private)
    for path in missing:
        if path not in withheld:
            hint = "; it is private: is this a published copy?" if path in private and not published else ""
            findings.append(finding("MISSING_FILE", f"the list names it, and it is not here{hint}", path))
    contents = None
    if told is not None:
        findings += _disagreements(told, hashes, sizes)
        contents = Contents(told, hashes, sizes, kept, withheld)
    return Examination(contents, tuple(findings), len(hashed), sum(hashed))


def _stray(entries: tuple[tree.Entry, ...], hashes: Mapping[str, str]) -> Iterator[Finding]:
    """Everything that is there and should not be. There is no list of names to ignore."""
    wanted = {folder for path in hashes for folder in sums.folders_of(path)}
    for entry in entries:
        path = entry.path
        if entry.kind == "symlink":
            yield finding("SYMLINK", "a bundle holds no links", path)
        elif entry.kind == "special":
            yield finding("SPECIAL_FILE", "a bundle holds no pipes, sockets or devices", path)
        elif entry.kind == "folder":
            if path in hashes:
                yield finding("NOT_A_FILE", "a folder, where the list names a file", path)
            elif path not in wanted and path != sums.SIGNATURES:
                yield finding("UNLISTED_DIR", "no file of the list lies in it", path)
        elif path not in hashes and path != sums.NAME and not _SIGNATURE.fullmatch(path):
            hint = ""
            if path.endswith(_LEFT_BY_WINDOWS):
                hint = "; copied through a file manager? delete it"
            elif is_cut_off_signing(path):
                hint = "; a signing was cut off, sign again"
            yield finding("UNLISTED_FILE", f"the list does not name it{hint}", path)


def _disagreements(told: Manifest, hashes: Mapping[str, str], sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Where the manifest and the list, or the sizes of the files, do not tell the same."""
    listed = [file.path for file in told.files]
    if len(set(listed)) != len(listed):
        yield finding("MANIFEST_DISAGREES", "it names a file twice", manifest.NAME)
    for path in sorted(set(listed) ^ (hashes.keys() - {manifest.NAME})):
        words = "the manifest names it, the list does not" if path in listed else "the manifest does not name it"
        yield finding("MANIFEST_DISAGREES", words, path)
    for file in told.files:
        if sizes.get(file.path, file.bytes) != file.bytes:
            words = f"the manifest says {file.bytes:,} bytes, it has {sizes[file.path]:,}"
            yield finding("MANIFEST_DISAGREES", words, file.path)
