"""Files that survive a crash, and locks that follow their descriptor."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from anvil_tui.files import Lock, write_atomic, write_new


def test_atomic_write_replaces_whole(tmp_path: Path) -> None:
    path = tmp_path / "one"
    write_atomic(path, b"old")
    write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert path.stat().st_mode & 0o777 == 0o600
    assert [child.name for child in tmp_path.iterdir()] == ["one"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "target"
    folder.mkdir()
    with pytest.raises(OSError):
        write_atomic(folder, b"a folder cannot be replaced by a file")
    assert [child.name for child in tmp_path.iterdir()] == ["target"]


def test_new_files_are_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "one"
    write_new(path, b"first")
    with pytest.raises(FileExistsError):
        write_new(path, b"second")
    assert path.read_bytes() == b"first"
    assert [child.name for child in tmp_path.iterdir()] == ["one"]


def test_a_lock_is_exclusive_and_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not Lock.held(path)
    lock = Lock.take(path, "campaign one")
    assert lock is not None and Lock.held(path)
    assert Lock.take(path) is None
    assert path.read_text() == "campaign one"
    lock.release()
    assert not Lock.held(path)


def test_an_inherited_lock_outlives_its_taker(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = Lock.take(path)
    assert lock is not None
    child = subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE, pass_fds=(lock.fd,)
    )
    lock.release()
    assert Lock.held(path)
    assert child.stdin is not None
    child.stdin.close()
    child.wait()
    assert not Lock.held(path)


def test_a_lock_is_not_taken_through_a_symlink(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("theirs")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(OSError):
        Lock.take(tmp_path / "lock", "mine")
    assert target.read_text() == "theirs"
