"""Seal a campaign folder: after it every byte is named by SHA256SUMS, and only signatures may be added.

The folder stays where it is. It is sealed when SHA256SUMS exists, which is written atomically and last; until then
sealing can be cut off at any moment and simply be done again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from anvil_tui.bundles import contents, journal_check, manifest, meaning, readme, sums, tree, verify
from anvil_tui.bundles.refused import Refused, finding
from anvil_tui.errors import CannotRun, CheckFailed
from anvil_tui.files import sync_dir, write_atomic
from anvil_tui.records.bundle import Finding, ManifestFile, Role, SealReport
from anvil_tui.records.events import Sealed

LIVE = "live.json"
INBOX = "inbox"
BASE = "base"
_WRITTEN = (manifest.README, manifest.NAME)
"""The files that sealing writes itself, beside the list."""


def is_sealed(folder: Path) -> bool:
    """Whether the campaign in `folder` is sealed: SHA256SUMS stands in it, whatever it is."""
    return folder.joinpath(sums.NAME).exists() or folder.joinpath(sums.NAME).is_symlink()


def seal(
    folder: Path,
    append: Callable[[Sealed], object],
    *,
    private_roles: frozenset[Role] = manifest.PRIVATE_ROLES,
) -> SealReport:
    """Seal the campaign in `folder`, whose journal lock the caller holds: nothing else may write there.

    `append` writes one event durably to the journal. It is called once, with the `sealed` event, after everything was
    found good, and not at all where a sealing that was cut off had written it already. Until then the folder is left
    as it is; from then on nothing but sealing may touch it. The time of that event is the bundle's `created_utc`.
    Removed are `live.json`, `inbox/`, `base`, empty folders and what crashes left of atomic writes.
    Raises CannotRun where the folder is sealed or no campaign, CheckFailed with everything that would not verify.
    """
    if is_sealed(folder):
        raise CannotRun(f"{folder} is sealed already; a sealed campaign is never changed")
    with tree.opened(folder) as root:
        try:
            return _seal(folder, root, append, private_roles)
        except Refused as refused:
            raise _failed(folder, [refused.finding]) from None
        except OSError as error:
            raise CannotRun(f"{folder} cannot be sealed: {error}") from None


def _seal(folder: Path, root: int, append: Callable[[Sealed], object], private_roles: frozenset[Role]) -> SealReport:
    entries = tuple(tree.walk(root))
    if not any(entry.path == journal_check.NAME for entry in entries):
        raise CannotRun(f"{folder} is no campaign folder: it has no {journal_check.NAME}")
    leaving = [entry for entry in entries if not _stays(entry.path)]
    staying = [entry for entry in entries if _stays(entry.path)]
    if faults := [*_unfit(staying), *_unfit_to_leave(leaving)]:
        raise _failed(folder, faults)
    paths = [entry.path for entry in staying if entry.kind == "file"]
    read = {
        path: tree.read(root, path, keep=contents.is_kept(path), sync=True) for path in paths if path not in _WRITTEN
    }
    raw = read[journal_check.NAME].data or b""
    journal = journal_check.read(raw)
    if journal.planned is None:
        raise CannotRun(f"{folder} holds no planned campaign: there is nothing to seal")
    if journal.sealed is None:
        event = Sealed(ending=journal.ending, files=len({*paths, *_WRITTEN}))
        raw = journal_check.with_event(journal, raw, event)
        _made(folder, read | {journal_check.NAME: tree.Content(sums.digest(raw), len(raw), raw)}, private_roles)
        append(event)
        read[journal_check.NAME] = tree.read(root, journal_check.NAME, keep=True, sync=True)
    made = _made(folder, read, private_roles)

    _remove(folder, entries, leaving)
    for name in _WRITTEN:
        write_atomic(folder / name, made.kept[name])
    for above in {above for path in paths for above in sums.folders_of(path)}:
        sync_dir(folder / above)
    listed = sums.write(made.hashes)
    write_atomic(folder / sums.NAME, listed)
    return SealReport(
        bundle=str(folder),
        bundle_id=made.manifest.bundle_id,
        root=sums.digest(listed),
        status=made.manifest.status,
        rehearsal=made.manifest.rehearsal,
        files=len(made.hashes),
        bytes=sum(made.sizes.values()),
        private=tuple(file.path for file in made.manifest.files if file.private),
    )


def _made(folder: Path, read: Mapping[str, tree.Content], private_roles: frozenset[Role]) -> contents.Contents:
    """The bundle that these files and their sealed journal make, README and manifest included.

    Raises Refused and CheckFailed where a verifier would find an error in it.
    """
    journal = journal_check.read(read[journal_check.NAME].data or b"")
    profiles = {
        path.removeprefix("lanes/").removesuffix(".toml"): content.data or b""
        for path, content in read.items()
        if path.startswith("lanes/") and path.endswith(".toml")
    }
    sizes = {path: content.size for path, content in read.items()}
    told = manifest.build(journal, sizes, profiles, private_roles)
    text = readme.write(told)
    own = ManifestFile(path=manifest.README, role="doc", bytes=len(text), private=False)
    told = msgspec.structs.replace(told, files=(*told.files, own))
    added = {manifest.README: text, manifest.NAME: manifest.write(told)}
    made = contents.Contents(
        manifest=told,
        hashes={path: content.sha256 for path, content in read.items()}
        | {name: sums.digest(data) for name, data in added.items()},
        sizes=sizes | {name: len(data) for name, data in added.items()},
        kept={path: content.data for path, content in read.items() if content.data is not None} | added,
        withheld=(),
    )
    sums.write(made.hashes)  # raises where names collide, or are too many for one list
    faults = [one for check in meaning.CHECKS for one in check(made) if one.code not in verify.NOTES]
    if faults:
        raise _failed(folder, faults)
    return made


def _stays(path: str) -> bool:
    """Whether the file or folder becomes part of the bundle as it is."""
    top = path.split("/")[0]
    return top not in {LIVE, INBOX, BASE} and not contents.is_aside(path)


def _unfit(entries: Iterable[tree.Entry]) -> list[Finding]:
    """What cannot stand in a bundle: links, devices, names outside the grammar, signatures before the list."""
    faults = []
    for entry in entries:
        if entry.kind in {"symlink", "special"}:
            code = "SYMLINK" if entry.kind == "symlink" else "SPECIAL_FILE"
            faults.append(finding(code, "only regular files can be sealed", entry.path))
        elif entry.kind == "file" and entry.path.split("/")[0] == sums.SIGNATURES:
            faults.append(
                finding("BAD_PATH", "it stands where signatures go, before there is anything to sign", entry.path)
            )
        elif entry.kind == "file" and (fault := sums.path_fault(entry.path)):
            faults.append(finding("BAD_PATH", fault, entry.path))
    return faults


def _unfit_to_leave(entries: Iterable[tree.Entry]) -> list[Finding]:
    """What is not as this tool writes it, and so is not removed by it either."""
    return [
        finding(
            "NOT_A_FILE", f"a {entry.kind}, where only files of this tool's own stand; remove it yourself", entry.path
        )
        for entry in entries
        if entry.kind != "file" and not (entry.kind == "folder" and entry.path == INBOX)
    ]


def _remove(folder: Path, entries: Iterable[tree.Entry], leaving: Iterable[tree.Entry]) -> None:
    """Remove what does not belong to the bundle, then the folders that are empty, innermost first."""
    for entry in leaving:
        if entry.kind == "file":
            folder.joinpath(entry.path).unlink(missing_ok=True)
    folders = [entry.path for entry in entries if entry.kind == "folder"]
    for path in sorted(folders, key=lambda path: path.count("/"), reverse=True):
        with contextlib.suppress(OSError):
            folder.joinpath(path).rmdir()


def _failed(folder: Path, faults: Iterable[Finding]) -> CheckFailed:
    lines = [f"  {one.code} {one.path or ''}: {one.words}" for one in faults]
    return CheckFailed("\n".join([f"{folder} cannot be sealed, it would not verify:", *lines]))
