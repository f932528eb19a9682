"""Sealing: what it leaves, what it refuses, and that it can be cut off anywhere and done again."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from anvil_tui import clock, exit_codes
from anvil_tui.bundles import seal, sums
from anvil_tui.bundles.verify import verify
from anvil_tui.errors import AnvilError, CannotRun, CheckFailed
from anvil_tui.records import events
from anvil_tui.records.bundle import Manifest
from anvil_tui.records.events import Sealed
from tests.unit.bundles.conftest import CAMPAIGN_ID, Folder, Person, sha256


def kinds(folder: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in folder.joinpath("journal.jsonl").read_bytes().splitlines()]


def manifest(folder: Path) -> Manifest:
    return msgspec.json.decode(folder.joinpath("MANIFEST.json").read_bytes(), type=Manifest)


def test_what_sealing_leaves(campaign: Folder) -> None:
    campaign.path.joinpath("vram/empty").mkdir()
    campaign.path.joinpath("documents/nothing/in/here").mkdir(parents=True)
    campaign.put("runs/.base-r9.json.0123abcd.tmp", b"half")
    report = campaign.seal()
    here = {str(path.relative_to(campaign.path)) for path in campaign.path.rglob("*") if not path.is_dir()}
    listed = sums.parse(campaign.path.joinpath("SHA256SUMS").read_bytes())
    assert here == {*listed, "SHA256SUMS"}
    assert not any(path.startswith(("inbox", "live.json")) or ".tmp" in path for path in here)
    assert all(any(folder.iterdir()) for folder in campaign.path.rglob("*") if folder.is_dir())
    assert listed == {path: sha256(campaign.path.joinpath(path).read_bytes()) for path in listed}
    assert kinds(campaign.path)[-1] == "sealed"
    assert report.root == sha256(campaign.path.joinpath("SHA256SUMS").read_bytes())
    assert (report.bundle_id, report.status, report.rehearsal) == (CAMPAIGN_ID, "complete", False)
    assert report.files == len(listed)
    assert report.bytes == sum(campaign.path.joinpath(path).stat().st_size for path in listed)


def test_the_manifest_tells_what_the_files_are(campaign: Folder) -> None:
    report = campaign.seal()
    told = manifest(campaign.path)
    roles = {file.path: (file.role, file.private) for file in told.files}
    assert roles == {
        "plan.json": ("plan", False),
        "journal.jsonl": ("journal", False),
        "lanes/base.toml": ("profile", False),
        "runs/base-r1.json": ("raw-run", True),
        "runs/base-r2.json": ("raw-run", True),
        "runs/base-r3.json": ("failed-run", True),
        "logs/base-load1.log": ("log", True),
        "startup/base-load1.json": ("startup-report", False),
        "vram/base.jsonl": ("vram", True),
        "documents/ladder.json": ("document", False),
        "runner.log": ("runner-log", True),
        "decision.txt": ("decision", False),
        "README.txt": ("doc", False),
    }
    assert set(report.private) == {path for path, (_, private) in roles.items() if private}
    assert [(run.run, run.state, run.path) for run in told.runs] == [
        ("base-r1", "ok", "runs/base-r1.json"),
        ("base-r2", "ok", "runs/base-r2.json"),
        ("base-r3", "failed", "runs/base-r3.json"),
        ("base-r4", "interrupted", None),
    ]
    assert told.identity["base"]["declared"] == {"model": "acme/model-8b", "engine": "vllm", "model_revision": "abc123"}
    assert told.identity["base"]["observed"] is None
    assert told.redactions == {"bearer": 1}
    assert told.tool["version"] == "0.1.0"
    assert told.host["kernel"] is None, "another boot than the runner's"
    last = json.loads(campaign.path.joinpath("journal.jsonl").read_bytes().splitlines()[-1])
    assert told.created_utc == last["t"]


def test_the_host_is_told_where_it_is_the_same_boot(tmp_path: Path) -> None:
    folder = Folder(tmp_path / CAMPAIGN_ID)
    folder.append(
        events.RunnerStarted(tool_version="0.1.0", python="3.11.7", pid=1, boot_id=clock.boot_id(), resumed=True),
        events.SamplerStarted(source="nvml", hz=20.0, gpus=(), driver="580.1", rehearsal=False),
        events.LoadReady(
            lane="base", load_id="l1", startup_seconds=None, served_name="m", max_model_len=8192, engine_version=None
        ),
        events.RunnerEnded(ending="stopped", words="asked to", exit_code=0),
    )
    assert folder.seal().status == "stopped"
    told = manifest(folder.path)
    assert told.host["kernel"] == os.uname().release
    assert told.host["driver"] == "580.1"
    assert told.identity["base"]["observed"]["max_model_len"] == 8192


def test_what_is_private_can_be_settled_before(campaign: Folder) -> None:
    seal.seal(campaign.path, campaign.append, private_roles=frozenset({"decision"}))
    assert {file.path for file in manifest(campaign.path).files if file.private} == {"decision.txt"}


def test_a_file_in_nobodys_place_is_private(campaign: Folder) -> None:
    campaign.put("notes/mine.txt", b"not for everyone")
    assert "notes/mine.txt" in campaign.seal().private


def test_a_campaign_whose_runner_never_ended_is_interrupted(tmp_path: Path, operator: Person) -> None:
    folder = Folder(tmp_path / CAMPAIGN_ID)
    folder.start("base-r1")
    folder.append(
        events.Recovered(
            torn_bytes=4,
            torn_sha256=folder.put("journal.torn.2", b"half"),
            kept_as="journal.torn.2",
            interrupted_runs=("base-r1",),
            found_after_crash=("runs/base-r1.json",),
        )
    )
    folder.put("runs/base-r1.json", b"{}")
    assert folder.seal().status == "interrupted"
    operator.sign(folder.path)
    assert verify(folder.path, operator.trusted).exit_code == 0
    assert manifest(folder.path).runs[0].state == "interrupted"


def test_sealing_twice_is_refused(campaign: Folder) -> None:
    campaign.seal()
    before = campaign.path.joinpath("SHA256SUMS").read_bytes()
    assert seal.is_sealed(campaign.path)
    with pytest.raises(CannotRun, match="sealed already"):
        campaign.seal()
    assert campaign.path.joinpath("SHA256SUMS").read_bytes() == before
    assert kinds(campaign.path).count("sealed") == 1


UNFIT: list[tuple[str, Callable[[Folder], object], str]] = [
    ("link", lambda f: f.path.joinpath("documents/x.json").symlink_to("/etc/passwd"), "SYMLINK documents/x.json"),
    ("pipe", lambda f: os.mkfifo(f.path / "pipe"), "SPECIAL_FILE pipe"),
    ("odd name", lambda f: f.put("a b.txt", b""), "BAD_PATH a b.txt"),
    ("hidden name", lambda f: f.put(".DS_Store", b""), "BAD_PATH .DS_Store"),
    ("Windows stream", lambda f: f.put("plan.json:Zone.Identifier", b""), "BAD_PATH plan.json:Zone.Identifier"),
    ("case twins", lambda f: (f.put("documents/a.json", b""), f.put("documents/A.json", b"")), "CASE_COLLISION"),
    ("signature before", lambda f: f.put("signatures/x.sig", b""), "BAD_PATH signatures/x.sig"),
    ("inbox is a link", lambda f: f.path.joinpath("inbox/x").symlink_to("/"), "NOT_A_FILE inbox/x"),
    ("open run", lambda f: f.start("base-r9"), "RUN_UNACCOUNTED journal.jsonl: started and never ended: base-r9"),
    ("artifact changed", lambda f: f.put("runs/base-r1.json", b"{}"), "ARTIFACT_NOT_AS_RECORDED runs/base-r1.json"),
    ("artifact gone", lambda f: f.path.joinpath("runs/base-r1.json").unlink(), "ARTIFACT_NOT_AS_RECORDED runs/base-r1"),
    ("artifact unnamed", lambda f: f.put("runs/base-r8.json", b"{}"), "ARTIFACT_NOT_AS_RECORDED runs/base-r8.json"),
    ("plan changed", lambda f: f.put("plan.json", b"{}"), "ARTIFACT_NOT_AS_RECORDED plan.json"),
    ("another profile", lambda f: f.put("lanes/base.toml", b""), "ARTIFACT_NOT_AS_RECORDED lanes/base.toml"),
    (
        "a rehearsal's document",
        lambda f: f.put("documents/ladder.json", b'{"rehearsal":true}'),
        "MANIFEST_DISAGREES documents/ladder.json",
    ),
    ("torn tail", lambda f: f.path.joinpath("journal.jsonl").open("ab").write(b'{"seq'), "JOURNAL_BROKEN"),
    ("broken chain", lambda f: f.path.joinpath("journal.jsonl").open("ab").write(b"{}\n"), "JOURNAL_BROKEN"),
]


@pytest.mark.parametrize(("name", "spoil", "words"), UNFIT, ids=[name for name, *_ in UNFIT])
def test_nothing_is_sealed_that_would_not_verify(
    campaign: Folder, name: str, spoil: Callable[[Folder], object], words: str
) -> None:
    spoil(campaign)
    before = sorted(campaign.path.rglob("*")), campaign.path.joinpath("journal.jsonl").read_bytes()
    with pytest.raises(CheckFailed, match="would not verify") as caught:
        campaign.seal()
    assert words in str(caught.value)
    assert caught.value.exit_code == exit_codes.CHECK_FAILED
    assert not seal.is_sealed(campaign.path)
    assert (sorted(campaign.path.rglob("*")), campaign.path.joinpath("journal.jsonl").read_bytes()) == before


def test_what_is_no_campaign_is_not_sealed(tmp_path: Path, campaign: Folder) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    for path in (empty, tmp_path / "nothing", campaign.path / "plan.json"):
        with pytest.raises(AnvilError) as caught:
            seal.seal(path, campaign.append)
        assert caught.value.exit_code == exit_codes.BAD_INPUT
    assert list(empty.iterdir()) == []


def test_a_full_disk_is_said_in_words(campaign: Folder) -> None:
    def append(event: Sealed) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(CannotRun, match="No space left"):
        seal.seal(campaign.path, append)
    assert not seal.is_sealed(campaign.path)


def _sealed_until(folder: Folder, step: int) -> bool:
    """Seal in a child that is gone at its `step`th change of the file system; True where it got through."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    count = 0

    def watch(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        changes = event in {"os.rename", "os.remove", "os.rmdir", "os.link", "os.mkdir"}
        opens = event == "open" and isinstance(args[2], int) and bool(args[2] & (os.O_WRONLY | os.O_RDWR))
        if changes or opens:
            count += 1
            if count == step:
                os._exit(9)

    sys.addaudithook(watch)
    code = 1
    try:
        folder.seal()
        code = 0
    finally:
        os._exit(code)  # a forked child never returns into pytest


def test_sealing_killed_at_each_step_is_done_again(tmp_path: Path, operator: Person) -> None:
    original = Folder(tmp_path / "original").complete()
    original.put("runs/.base-r9.json.0123abcd.tmp", b"half")
    for step in range(1, 100):
        folder = Folder.__new__(Folder)
        folder.path, folder.rehearsal = tmp_path / f"killed-{step}" / CAMPAIGN_ID, False
        shutil.copytree(original.path, folder.path)
        through = _sealed_until(folder, step)
        if not seal.is_sealed(folder.path):
            assert not through
            folder.seal()
        assert kinds(folder.path).count("sealed") == 1
        operator.sign(folder.path)
        result = verify(folder.path, operator.trusted)
        assert (result.exit_code, result.errors) == (0, ())
        if through:
            break
    assert through
    assert step > 10, "each of the removals, the event and the three files is a step"


def test_a_sealing_cut_off_after_its_event_keeps_that_event(campaign: Folder) -> None:
    class Cut(Exception):
        pass

    def append(event: Sealed) -> None:
        campaign.append(event)
        raise Cut

    with pytest.raises(Cut):
        seal.seal(campaign.path, append)
    assert not seal.is_sealed(campaign.path)
    line = campaign.path.joinpath("journal.jsonl").read_bytes().splitlines()[-1]

    def never(event: Sealed) -> None:
        raise AssertionError("it is in the journal already")

    seal.seal(campaign.path, never)
    assert campaign.path.joinpath("journal.jsonl").read_bytes().splitlines()[-1] == line
    assert manifest(campaign.path).created_utc == json.loads(line)["t"]


def test_a_file_that_comes_between_two_tries_is_named(campaign: Folder) -> None:
    campaign.append(Sealed(ending="complete", files=13))
    campaign.put("late.txt", b"")
    with pytest.raises(CheckFailed, match="`sealed` says 13 files, the list has 15"):
        campaign.seal()
