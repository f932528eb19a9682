"""Every tampering that the reference names, and what verify says of it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from anvil_tui import exit_codes
from anvil_tui.bundles import keys, sign, sums, tree, trust
from anvil_tui.bundles.ssh import sshsig
from anvil_tui.bundles.ssh.public_key import parse_line
from anvil_tui.bundles.trust import Trusted
from anvil_tui.bundles.verify import verify
from anvil_tui.errors import BadInput, CheckFailed
from anvil_tui.records.bundle import Verification
from tests.unit.bundles.conftest import CAMPAIGN_ID, Folder, Person, sha256

Signed = tuple[Path, Person]


def codes(result: Verification) -> set[str]:
    return {error.code for error in result.errors}


def resign(bundle: Path, operator: Person) -> None:
    """Sign whatever list stands there, as a leaked key or a buggy tool would."""
    raw = bundle.joinpath("SHA256SUMS").read_bytes()
    signer = keys.signer(operator.key)
    field = signer.sign(sshsig.signed_data(raw))
    bundle.joinpath("signatures/operator.sig").write_bytes(
        sshsig.write(sshsig.Signature(signer.key, sshsig.NAMESPACE, "sha512", field))
    )


def relist(bundle: Path, operator: Person) -> None:
    """Make the list say what the files are now, and sign that."""
    listed = sums.parse(bundle.joinpath("SHA256SUMS").read_bytes())
    bundle.joinpath("SHA256SUMS").write_bytes(
        sums.write({path: sha256(bundle.joinpath(path).read_bytes()) for path in listed})
    )
    resign(bundle, operator)


def edit_list(old: bytes, new: bytes) -> Callable[[Path], None]:
    def edit(bundle: Path) -> None:
        path = bundle / "SHA256SUMS"
        before = path.read_bytes()
        assert old in before
        path.write_bytes(before.replace(old, new))

    return edit


def test_an_untouched_bundle_is_good(signed: Signed) -> None:
    bundle, operator = signed
    result = verify(bundle, operator.trusted)
    assert (result.exit_code, result.errors, result.notes, result.withheld) == (0, (), (), ())
    assert result.bundle_id == CAMPAIGN_ID
    assert result.rehearsal is False
    assert result.root == sha256(bundle.joinpath("SHA256SUMS").read_bytes())
    listed = sums.parse(bundle.joinpath("SHA256SUMS").read_bytes())
    assert result.files == len(listed)
    assert result.bytes == sum(bundle.joinpath(path).stat().st_size for path in listed)


def _swap(bundle: Path) -> None:
    one, two = bundle / "runs/base-r1.json", bundle / "runs/base-r2.json"
    one.rename(bundle / "aside")
    two.rename(one)
    bundle.joinpath("aside").rename(two)


def _crlf(bundle: Path) -> None:
    for path in bundle.rglob("*.toml"):
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def _to_link(bundle: Path) -> None:
    bundle.joinpath("decision.txt").rename(bundle.parent / "elsewhere.txt")
    bundle.joinpath("decision.txt").symlink_to(bundle.parent / "elsewhere.txt")


def _folder_to_link(bundle: Path) -> None:
    bundle.joinpath("runs").rename(bundle.parent / "runs")
    bundle.joinpath("runs").symlink_to(bundle.parent / "runs")


def _to_fifo(bundle: Path) -> None:
    bundle.joinpath("decision.txt").unlink()
    os.mkfifo(bundle / "decision.txt")


def _to_folder(bundle: Path) -> None:
    bundle.joinpath("decision.txt").unlink()
    bundle.joinpath("decision.txt").mkdir()


TAMPERS: list[tuple[str, Callable[[Path], object], set[str]]] = [
    ("changed", lambda b: b.joinpath("plan.json").write_bytes(b"{}"), {"HASH_MISMATCH"}),
    ("one byte more", lambda b: b.joinpath("decision.txt").open("ab").write(b"\n"), {"HASH_MISMATCH"}),
    ("swapped", _swap, {"HASH_MISMATCH"}),
    ("renamed", lambda b: b.joinpath("plan.json").rename(b / "plan2.json"), {"MISSING_FILE", "UNLISTED_FILE"}),
    ("removed", lambda b: b.joinpath("decision.txt").unlink(), {"MISSING_FILE"}),
    ("private removed", lambda b: b.joinpath("runs/base-r1.json").unlink(), {"MISSING_FILE"}),
    ("manifest removed", lambda b: b.joinpath("MANIFEST.json").unlink(), {"MISSING_FILE"}),
    ("added", lambda b: b.joinpath("extra.json").write_bytes(b"{}"), {"UNLISTED_FILE"}),
    ("added hidden", lambda b: b.joinpath(".gitattributes").write_bytes(b""), {"UNLISTED_FILE"}),
    ("added under .git", lambda b: shutil.copytree(b / "runs", b / ".git"), {"UNLISTED_FILE", "UNLISTED_DIR"}),
    ("Windows stream", lambda b: b.joinpath("plan.json:Zone.Identifier").write_bytes(b""), {"UNLISTED_FILE"}),
    ("odd name", lambda b: Path(os.fsdecode(os.fsencode(b) + b"/\xff\x1b[31m")).write_bytes(b""), {"UNLISTED_FILE"}),
    ("empty folder", lambda b: b.joinpath("runs/empty").mkdir(), {"UNLISTED_DIR"}),
    ("file to link", _to_link, {"SYMLINK"}),
    ("folder to link", _folder_to_link, {"SYMLINK", "MISSING_FILE"}),
    ("stray link", lambda b: b.joinpath("more").symlink_to("/etc/passwd"), {"SYMLINK"}),
    ("file to pipe", _to_fifo, {"SPECIAL_FILE"}),
    ("stray pipe", lambda b: os.mkfifo(b / "pipe"), {"SPECIAL_FILE"}),
    ("pipe among signatures", lambda b: os.mkfifo(b / "signatures/x.sig"), {"SPECIAL_FILE"}),
    ("file to folder", _to_folder, {"NOT_A_FILE"}),
    ("CRLF", _crlf, {"HASH_MISMATCH"}),
    ("CRLF list", edit_list(b"\n", b"\r\n"), {"SIG_BAD"}),
    ("list edited", edit_list(b"decision.txt", b"decisiun.txt"), {"SIG_BAD"}),
    ("text among signatures", lambda b: b.joinpath("signatures/note.txt").write_bytes(b"ok"), {"UNLISTED_FILE"}),
    ("folder among signatures", lambda b: b.joinpath("signatures/a.sig").mkdir(), {"UNLISTED_DIR"}),
    ("link among signatures", lambda b: b.joinpath("signatures/a.sig").symlink_to("operator.sig"), {"SYMLINK"}),
    ("second signature is junk", lambda b: b.joinpath("signatures/b.sig").write_bytes(b"junk"), {"SIG_MALFORMED"}),
    ("huge signature", lambda b: b.joinpath("signatures/b.sig").write_bytes(b"A" * 20_000), {"TOO_BIG"}),
    ("list to pipe", lambda b: (b.joinpath("SHA256SUMS").unlink(), os.mkfifo(b / "SHA256SUMS")), {"SPECIAL_FILE"}),
    ("empty list", lambda b: b.joinpath("SHA256SUMS").write_bytes(b""), {"SIG_BAD"}),
    ("huge list", lambda b: b.joinpath("SHA256SUMS").write_bytes(b"0" * (5 << 20)), {"TOO_BIG"}),
]


@pytest.mark.parametrize(("name", "tamper", "expected"), TAMPERS, ids=[name for name, *_ in TAMPERS])
def test_tampering_is_named_and_fails(
    signed: Signed, name: str, tamper: Callable[[Path], object], expected: set[str]
) -> None:
    bundle, operator = signed
    tamper(bundle)
    result = verify(bundle, operator.trusted)
    assert codes(result) == expected
    assert result.exit_code == exit_codes.CHECK_FAILED
    shown = msgspec.json.encode(result).decode()
    assert "\\u001b" not in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize("where", ["missing", "a file", "a link", "a pipe"])
def test_a_path_that_is_no_folder_is_bad_input(tmp_path: Path, where: str, operator: Person) -> None:
    path = tmp_path / "bundle"
    if where == "a file":
        path.write_bytes(b"")
    elif where == "a link":
        path.symlink_to(tmp_path)
    elif where == "a pipe":
        os.mkfifo(path)
    with pytest.raises(BadInput, match="the folder of a sealed campaign") as caught:
        verify(path, operator.trusted)
    assert caught.value.exit_code == exit_codes.BAD_INPUT
    assert str(path) in str(caught.value)


def test_a_folder_without_a_list_is_no_bundle(campaign: Folder, operator: Person) -> None:
    result = verify(campaign.path, operator.trusted)
    assert codes(result) == {"NOT_A_BUNDLE"}
    assert result.exit_code == exit_codes.BAD_INPUT


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_named(signed: Signed) -> None:
    bundle, operator = signed
    bundle.joinpath("plan.json").chmod(0)
    result = verify(bundle, operator.trusted)
    assert codes(result) == {"UNREADABLE"}
    assert result.exit_code == exit_codes.BAD_INPUT


# Who signed.


def test_without_a_signature_it_is_intact_and_nobody_vouches(signed: Signed) -> None:
    bundle, operator = signed
    bundle.joinpath("signatures/operator.sig").unlink()
    result = verify(bundle, operator.trusted)
    assert codes(result) == {"UNSIGNED"}
    assert result.exit_code == exit_codes.NO_TRUSTED_SIGNER
    bundle.joinpath("plan.json").write_bytes(b"{}")
    assert verify(bundle, operator.trusted).exit_code == exit_codes.CHECK_FAILED


def test_with_an_empty_trust_store_it_is_intact_and_the_signer_unknown(signed: Signed) -> None:
    bundle, operator = signed
    result = verify(bundle, ())
    assert codes(result) == {"SIGNER_UNKNOWN"}
    assert result.exit_code == exit_codes.NO_TRUSTED_SIGNER
    assert operator.key.fingerprint in result.errors[0].words
    assert [signer.principal for signer in result.signers] == [None]
    assert result.files > 5
    bundle.joinpath("plan.json").write_bytes(b"{}")
    assert verify(bundle, ()).exit_code == exit_codes.CHECK_FAILED


def test_an_expired_line_is_no_trust(signed: Signed) -> None:
    bundle, operator = signed
    key = parse_line(operator.key.public)[0]
    line = Trusted("operator@lab", key, valid_before=datetime(2026, 1, 1, tzinfo=UTC))
    result = verify(bundle, [line], at=datetime(2026, 12, 1, tzinfo=UTC))
    assert codes(result) == {"SIGNER_EXPIRED"}
    assert result.exit_code == exit_codes.NO_TRUSTED_SIGNER
    assert result.signers[0].principal is None
    assert verify(bundle, [line], at=datetime(2025, 12, 1, tzinfo=UTC)).exit_code == 0


def test_a_second_signature_by_an_unknown_key_is_a_note(signed: Signed, tmp_path: Path) -> None:
    bundle, operator = signed
    stranger = Person(tmp_path / "stranger", "stranger@lab")
    assert stranger.sign(bundle) == "signatures/operator-2.sig"
    result = verify(bundle, operator.trusted)
    assert result.exit_code == 0
    assert [note.code for note in result.notes] == ["SIGNATURE_BY_UNKNOWN_KEY"]
    both = (*operator.trusted, *stranger.trusted)
    assert verify(bundle, both, threshold=2).exit_code == 0
    assert codes(verify(bundle, operator.trusted, threshold=2)) == {"TOO_FEW_SIGNERS"}


def test_one_key_twice_is_one_signer(signed: Signed) -> None:
    bundle, operator = signed
    shutil.copy(bundle / "signatures/operator.sig", bundle / "signatures/other.sig")
    twice = (*operator.trusted, Trusted("another@lab", operator.trusted[0].key))
    result = verify(bundle, twice, threshold=2)
    assert codes(result) == {"TOO_FEW_SIGNERS"}
    assert result.exit_code == exit_codes.NO_TRUSTED_SIGNER


def test_the_signature_of_another_bundle_fails(signed: Signed, tmp_path: Path) -> None:
    bundle, operator = signed
    other = Folder(tmp_path / "other").complete()
    other.seal()
    operator.sign(other.path)
    shutil.copy(other.path / "signatures/operator.sig", bundle / "signatures/operator.sig")
    assert codes(verify(bundle, operator.trusted)) == {"SIG_BAD"}


def test_a_signature_for_another_namespace_fails(signed: Signed) -> None:
    bundle, operator = signed
    signer = keys.signer(operator.key)
    raw = bundle.joinpath("SHA256SUMS").read_bytes()
    field = signer.sign(sshsig.signed_data(raw, "git"))
    bundle.joinpath("signatures/operator.sig").write_bytes(
        sshsig.write(sshsig.Signature(signer.key, "git", "sha512", field))
    )
    result = verify(bundle, operator.trusted)
    assert codes(result) == {"SIG_NAMESPACE"}
    assert result.exit_code == exit_codes.CHECK_FAILED


def test_a_crlf_signature_file_is_read(signed: Signed) -> None:
    bundle, operator = signed
    path = bundle / "signatures/operator.sig"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert verify(bundle, operator.trusted).exit_code == 0


def test_too_many_signatures_are_not_read(signed: Signed) -> None:
    bundle, operator = signed
    for number in range(16):
        shutil.copy(bundle / "signatures/operator.sig", bundle / f"signatures/n{number}.sig")
    assert codes(verify(bundle, operator.trusted)) == {"TOO_MANY_FILES"}


def test_too_many_names_are_not_read(signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, operator = signed
    monkeypatch.setattr(tree, "MAX_ENTRIES", 5)
    assert codes(verify(bundle, operator.trusted)) == {"TOO_MANY_FILES"}


# Lists that a leaked key or a buggy tool signed.

BAD_PATHS = [
    "../secret.txt",
    "runs/../../secret.txt",
    "/etc/passwd",
    "runs\\x",
    "C:x",
    "NUL.json",
    "x.",
    "./x",
    "a//b",
    "-rf",
    ".git/config",
    "signatures/x.sig",
    "Signatures/x",
    "SHA256SUMS",
    "a b",
    "a\x1b[31m",
    "é",
    "a/b/c/d/e/f/g/h/i",
    "x" * 101,
]


@pytest.mark.parametrize("path", BAD_PATHS)
def test_a_signed_bad_path_is_refused_before_anything_is_opened(signed: Signed, path: str) -> None:
    bundle, operator = signed
    bundle.parent.joinpath("secret.txt").write_bytes(b"secret")
    listed = bundle / "SHA256SUMS"
    lines = [*listed.read_bytes().splitlines(), f"{sha256(b'secret')}  {path}".encode()]
    listed.write_bytes(b"\n".join(sorted(lines, key=lambda line: line[66:])) + b"\n")
    resign(bundle, operator)
    result = verify(bundle, operator.trusted)
    assert codes(result) == {"BAD_PATH"}
    assert (result.exit_code, result.files) == (exit_codes.CHECK_FAILED, 0)


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([b"A" * 64 + b"  a"], "SUMS_MALFORMED"),
        ([b"0" * 64 + b" *a"], "SUMS_MALFORMED"),
        ([b"# comment"], "SUMS_MALFORMED"),
        ([b"SHA256 (a) = " + b"0" * 64], "SUMS_MALFORMED"),
        ([b"0" * 64 + b"  b", b"0" * 64 + b"  a"], "SUMS_MALFORMED"),
        ([b"0" * 64 + b"  a", b"1" * 64 + b"  a"], "DUPLICATE_PATH"),
        ([b"0" * 64 + b"  A", b"1" * 64 + b"  a"], "CASE_COLLISION"),
        ([b"0" * 64 + b"  A/x", b"1" * 64 + b"  a/y"], "CASE_COLLISION"),
        ([b"0" * 64 + b"  a", b"1" * 64 + b"  a/y"], "CASE_COLLISION"),
        ([b"0" * 64 + b"  a"], "MANIFEST_MISSING"),
    ],
)
def test_a_signed_odd_list_is_refused(signed: Signed, lines: list[bytes], code: str) -> None:
    bundle, operator = signed
    bundle.joinpath("SHA256SUMS").write_bytes(b"\n".join(lines) + b"\n")
    resign(bundle, operator)
    result = verify(bundle, operator.trusted)
    assert code in codes(result)
    assert result.exit_code == exit_codes.CHECK_FAILED


def test_a_signed_empty_bundle_is_refused(tmp_path: Path, operator: Person) -> None:
    bundle = tmp_path / "empty"
    bundle.joinpath("signatures").mkdir(parents=True)
    bundle.joinpath("SHA256SUMS").write_bytes(b"")
    resign(bundle, operator)
    assert codes(verify(bundle, operator.trusted)) == {"EMPTY"}
    bundle.joinpath("MANIFEST.json").write_bytes(b"{}")
    bundle.joinpath("SHA256SUMS").write_bytes(sums.write({"MANIFEST.json": sha256(b"{}")}))
    resign(bundle, operator)
    assert {"EMPTY", "MANIFEST_MALFORMED"} == codes(verify(bundle, operator.trusted))


# Manifests and journals that a leaked key signed.


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b'"schema": "anvil-bundle/v1"', b'"schema": "anvil-bundle/v9"', "SCHEMA_UNSUPPORTED"),
        (b'"schema": "anvil-bundle/v1",', b"", "MANIFEST_MALFORMED"),
        (b'"rehearsal": false', b'"rehearsal": false, "rehearsal": false', "MANIFEST_MALFORMED"),
        (b'"rehearsal": false', b'"rehearsal": NaN', "MANIFEST_MALFORMED"),
        (b"{", b"\xef\xbb\xbf{", "MANIFEST_MALFORMED"),
        (b'"kind": "ladder"', b'"kind": "gate"', "MANIFEST_DISAGREES"),
        (b'"status": "complete"', b'"status": "failed"', "MANIFEST_DISAGREES"),
        (b'"state": "failed"', b'"state": "ok"', "MANIFEST_DISAGREES"),
        (b'"path": "decision.txt"', b'"path": "decision9.txt"', "MANIFEST_DISAGREES"),
        (b'"bytes": 19', b'"bytes": 20', "MANIFEST_DISAGREES"),
    ],
)
def test_a_signed_manifest_that_lies_is_refused(signed: Signed, old: bytes, new: bytes, code: str) -> None:
    bundle, operator = signed
    path = bundle / "MANIFEST.json"
    before = path.read_bytes()
    assert old in before
    path.write_bytes(before.replace(old, new, 1))
    relist(bundle, operator)
    result = verify(bundle, operator.trusted)
    assert codes(result) == {code}
    assert result.exit_code == exit_codes.CHECK_FAILED


def test_an_extra_field_of_a_later_manifest_is_ignored(signed: Signed) -> None:
    bundle, operator = signed
    path = bundle / "MANIFEST.json"
    told = json.loads(path.read_bytes()) | {"later": {"than": "us"}}
    path.write_text(json.dumps(told))
    relist(bundle, operator)
    assert verify(bundle, operator.trusted).exit_code == 0


def _journal(bundle: Path) -> list[bytes]:
    return bundle.joinpath("journal.jsonl").read_bytes().split(b"\n")[:-1]


def _rechained(lines: list[bytes]) -> bytes:
    """The lines as a forger would write them: renumbered and chained anew."""
    prev, out = "0" * 64, []
    for seq, line in enumerate(lines):
        told = json.loads(line)
        told["seq"], told["prev"] = seq, prev
        out.append(json.dumps(told).encode())
        prev = sha256(out[-1])
    return b"\n".join(out) + b"\n"


def _without(kind: str) -> Callable[[list[bytes]], bytes]:
    return lambda lines: _rechained([line for line in lines if json.loads(line)["kind"] != kind])


JOURNALS: list[tuple[str, Callable[[list[bytes]], bytes], set[str]]] = [
    ("line cut", lambda lines: b"\n".join(lines[:3] + lines[4:]) + b"\n", {"JOURNAL_BROKEN"}),
    ("tail cut", lambda lines: b"\n".join(lines[:-1]) + b"\n", {"JOURNAL_BROKEN"}),
    ("torn", lambda lines: b"\n".join(lines)[:-5], {"JOURNAL_BROKEN"}),
    ("line edited", lambda lines: b"\n".join(lines).replace(b"hit its", b"his its") + b"\n", {"JOURNAL_BROKEN"}),
    ("reordered", lambda lines: b"\n".join([*lines[:2], lines[3], lines[2], *lines[4:]]) + b"\n", {"JOURNAL_BROKEN"}),
    ("empty", lambda lines: b"", {"JOURNAL_BROKEN"}),
    ("not JSON", lambda lines: b"{\n", {"JOURNAL_BROKEN"}),
    ("deep", lambda lines: b"[" * 100_000 + b"\n", {"JOURNAL_BROKEN"}),
    ("written after sealing", lambda lines: _rechained([*lines, lines[2]]), {"JOURNAL_BROKEN"}),
    ("sealed twice", lambda lines: _rechained([*lines, lines[-1]]), {"JOURNAL_BROKEN"}),
    ("interruption left out", _without("run_interrupted"), {"RUN_UNACCOUNTED"}),
    ("ends left out", _without("run_finished"), {"RUN_UNACCOUNTED", "ARTIFACT_NOT_AS_RECORDED"}),
    ("starts left out", _without("run_started"), {"JOURNAL_BROKEN"}),
    ("plan left out", _without("campaign_planned"), {"MANIFEST_DISAGREES"}),
]


@pytest.mark.parametrize(("name", "forge", "expected"), JOURNALS, ids=[name for name, *_ in JOURNALS])
def test_a_signed_journal_that_was_cut_is_refused(
    signed: Signed, name: str, forge: Callable[[list[bytes]], bytes], expected: set[str]
) -> None:
    bundle, operator = signed
    raw = forge(_journal(bundle))
    bundle.joinpath("journal.jsonl").write_bytes(raw)
    manifest = json.loads(bundle.joinpath("MANIFEST.json").read_bytes())
    for file in manifest["files"]:
        if file["path"] == "journal.jsonl":
            file["bytes"] = len(raw)
    bundle.joinpath("MANIFEST.json").write_text(json.dumps(manifest))
    relist(bundle, operator)
    result = verify(bundle, operator.trusted)
    assert codes(result) == expected
    assert result.exit_code == exit_codes.CHECK_FAILED


def test_a_signed_artifact_that_was_replaced_is_refused(signed: Signed) -> None:
    bundle, operator = signed
    path = bundle / "runs/base-r1.json"
    path.write_bytes(bytes(reversed(path.read_bytes())))
    relist(bundle, operator)
    result = verify(bundle, operator.trusted)
    assert codes(result) == {"ARTIFACT_NOT_AS_RECORDED"}
    assert result.errors[0].path == "runs/base-r1.json"


def test_a_profile_that_is_not_the_planned_one_is_refused(signed: Signed) -> None:
    bundle, operator = signed
    path = bundle / "lanes/base.toml"
    path.write_bytes(path.read_bytes().replace(b"8b", b"9b"))
    relist(bundle, operator)
    assert codes(verify(bundle, operator.trusted)) == {"ARTIFACT_NOT_AS_RECORDED"}


def test_a_document_that_is_a_rehearsal_may_not_hide_in_a_real_bundle(signed: Signed) -> None:
    bundle, operator = signed
    path = bundle / "documents/ladder.json"
    path.write_bytes(b'{"rehearsal": true      }    ' + b" " * (path.stat().st_size - 29))
    relist(bundle, operator)
    assert codes(verify(bundle, operator.trusted)) == {"MANIFEST_DISAGREES"}


def test_events_of_a_later_version_are_a_note(tmp_path: Path, operator: Person) -> None:
    folder = Folder(tmp_path / CAMPAIGN_ID)
    folder.append_raw("tea_was_made", b'{"cups": 2}')
    folder.complete()
    folder.seal()
    operator.sign(folder.path)
    result = verify(folder.path, operator.trusted)
    assert result.exit_code == 0
    assert [(note.code, "tea_was_made (1)" in note.words) for note in result.notes] == [("UNKNOWN_EVENTS", True)]


def test_a_renamed_bundle_is_a_note(signed: Signed) -> None:
    bundle, operator = signed
    moved = bundle.rename(bundle.with_name("moved"))
    result = verify(moved, operator.trusted)
    assert result.exit_code == 0
    assert [note.code for note in result.notes] == ["RENAMED"]


def test_a_rehearsal_says_so_everywhere(tmp_path: Path, operator: Person) -> None:
    folder = Folder(tmp_path / CAMPAIGN_ID, rehearsal=True).complete()
    assert folder.seal().rehearsal
    operator.sign(folder.path)
    assert "REHEARSAL" in folder.path.joinpath("README.txt").read_text()
    assert json.loads(folder.path.joinpath("MANIFEST.json").read_bytes())["rehearsal"] is True
    result = verify(folder.path, operator.trusted)
    assert (result.exit_code, result.rehearsal) == (0, True)


# Published copies.


def test_a_published_copy_withholds_private_files_and_nothing_else(signed: Signed) -> None:
    bundle, operator = signed
    private = ["logs/base-load1.log", "runner.log", "vram/base.jsonl", *(f"runs/base-r{n}.json" for n in (1, 2, 3))]
    for path in private:
        bundle.joinpath(path).unlink()
    for folder in ("logs", "vram", "runs"):
        bundle.joinpath(folder).rmdir()
    result = verify(bundle, operator.trusted, published=True)
    assert (result.exit_code, result.errors) == (0, ())
    assert list(result.withheld) == sorted(private)
    assert codes(verify(bundle, operator.trusted)) == {"MISSING_FILE"}
    bundle.joinpath("decision.txt").unlink()
    result = verify(bundle, operator.trusted, published=True)
    assert codes(result) == {"MISSING_FILE"}
    assert [error.path for error in result.errors] == ["decision.txt"]


def test_a_published_copy_without_its_manifest_withholds_nothing(signed: Signed) -> None:
    bundle, operator = signed
    bundle.joinpath("MANIFEST.json").unlink()
    bundle.joinpath("runs/base-r1.json").unlink()
    result = verify(bundle, operator.trusted, published=True)
    assert codes(result) == {"MISSING_FILE"}
    assert result.withheld == ()


def test_what_is_handed_over_later_is_checked(signed: Signed) -> None:
    bundle, operator = signed
    bundle.joinpath("runs/base-r1.json").write_bytes(b"{}")
    assert codes(verify(bundle, operator.trusted, published=True)) == {"HASH_MISMATCH"}


# While it is read.


def test_a_file_that_is_written_while_it_is_read_is_refused(signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle, operator = signed
    target = bundle / "vram/base.jsonl"
    real, inode = os.read, target.stat().st_ino

    def read(fd: int, count: int) -> bytes:
        data = real(fd, count)
        if data and os.fstat(fd).st_ino == inode:
            with target.open("r+b") as file:
                file.write(b"X")
        return data

    monkeypatch.setattr(os, "read", read)
    assert codes(verify(bundle, operator.trusted)) == {"CHANGED_DURING_READ"}


def test_what_is_parsed_is_what_was_hashed(signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file is opened once: a copy that is swapped in after the hash is never seen."""
    bundle, operator = signed
    opened: list[str] = []
    real = os.open

    def watch(path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if not flags & os.O_DIRECTORY:
            opened.append(str(path))
            assert dir_fd is not None
            assert flags & os.O_NOFOLLOW
        return real(path, flags, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "open", watch)
    assert verify(bundle, operator.trusted).exit_code == 0
    assert len(opened) == len(set(opened))


# Signing again.


def test_signing_never_replaces_and_refuses_what_was_changed(signed: Signed) -> None:
    bundle, operator = signed
    before = {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()}
    with pytest.raises(Exception, match=r"already, in signatures/operator\.sig"):
        operator.sign(bundle)
    assert {path: path.read_bytes() for path in bundle.rglob("*") if path.is_file()} == before
    bundle.joinpath("signatures/operator.sig").unlink()
    bundle.joinpath("plan.json").write_bytes(b"{}")
    with pytest.raises(CheckFailed, match=r"HASH_MISMATCH plan\.json"):
        operator.sign(bundle)
    assert list(bundle.joinpath("signatures").iterdir()) == []


def test_a_signing_that_was_cut_off_is_named_and_done_again(signed: Signed, tmp_path: Path) -> None:
    bundle, operator = signed
    bundle.joinpath("signatures/.operator-2.sig.0123abcd.tmp").write_bytes(b"half")
    result = verify(bundle, operator.trusted)
    assert codes(result) == {"UNLISTED_FILE"}
    assert "sign again" in result.errors[0].words
    Person(tmp_path / "second", "second@lab").sign(bundle)
    assert verify(bundle, operator.trusted).exit_code == 0


def test_signing_what_is_not_sealed_or_not_there(campaign: Folder, operator: Person, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="not sealed") as caught:
        sign.sign(campaign.path, operator.key)
    assert getattr(caught.value, "exit_code", None) == exit_codes.BAD_INPUT
    with pytest.raises(Exception, match="the folder of a sealed campaign"):
        sign.sign(tmp_path / "nothing", operator.key)


def test_the_trust_store_is_read_from_its_file(signed: Signed, tmp_path: Path) -> None:
    bundle, operator = signed
    assert trust.read(tmp_path / "nothing") == ()
    assert verify(bundle, trust.read(operator.allowed)).exit_code == 0
