"""Timelines add up lanes that live, forget those that died, and stay small."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from anvil_tui.clock import ProcessIdentity
from anvil_tui.rehearsal import timeline
from anvil_tui.rehearsal.timeline import Holding, Load, TimelineReader, TimelineWriter, decode_lines, timeline_path

OTHER = """
import sys
from pathlib import Path
from anvil_tui.rehearsal.timeline import TimelineWriter
TimelineWriter(Path(sys.argv[1]), "other").write(int(sys.argv[2]), 40)
print("written", flush=True)
sys.stdin.read()
"""


def other_lane(path: Path, mib: int) -> subprocess.Popen[str]:
    """Another process that holds `mib` of the GPU until its stdin closes."""
    process = subprocess.Popen(
        [sys.executable, "-c", OTHER, str(path), str(mib)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "written\n"
    return process


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return timeline_path(tmp_path, "GPU-x")


def test_nobody_wrote(path: Path) -> None:
    assert TimelineReader(path).load() == Load(0, 0)


def test_the_latest_line_counts(path: Path) -> None:
    writer, reader = TimelineWriter(path, "lane"), TimelineReader(path)
    writer.write(100)
    assert reader.load() == Load(100, 0)
    writer.write(70, 99)
    assert reader.load() == Load(70, 99)


def test_two_lanes_add_up_and_a_killed_one_comes_back(path: Path) -> None:
    TimelineWriter(path, "lane").write(1000, 90)
    reader = TimelineReader(path)
    other = other_lane(path, 500)
    try:
        assert reader.load() == Load(1500, 100)
    finally:
        other.kill()
        other.communicate()
    assert reader.load() == Load(1000, 90)


def test_a_zombie_holds_nothing(path: Path) -> None:
    other = other_lane(path, 500)
    other.kill()
    pid = other.pid
    while ProcessIdentity.of(pid) is not None:
        pass
    assert TimelineReader(path).load() == Load(0, 0)
    other.communicate()


def test_a_torn_line_is_passed_over_and_swallows_nothing(path: Path) -> None:
    TimelineWriter(path, "lane").write(10)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    reader = TimelineReader(path)
    assert reader.load() == Load(10, 0)
    TimelineWriter(path, "lane").write(20)
    assert reader.load() == Load(20, 0)
    assert [holding.mib for holding in decode_lines(path.read_bytes())] == [10, 20]


def test_half_a_line_waits_for_its_other_half(path: Path) -> None:
    writer = TimelineWriter(path, "lane")
    writer.write(10)
    writer.write(30)
    first, second, _ = path.read_bytes().split(b"\n")
    reader = TimelineReader(path)
    path.write_bytes(first + b"\n" + second[:20])
    assert reader.load() == Load(10, 0)
    with path.open("ab") as file:
        file.write(second[20:] + b"\n")
    assert reader.load() == Load(30, 0)


def test_other_boots_and_reused_pids_hold_nothing(path: Path) -> None:
    own = ProcessIdentity.own()
    stale = [
        Holding(boot="another", pid=own.pid, ticks=own.ticks, mono_us=1, lane="a", mib=1),
        Holding(boot=own.boot, pid=own.pid, ticks=own.ticks - 1, mono_us=1, lane="b", mib=2),
    ]
    path.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in stale))
    assert TimelineReader(path).load() == Load(0, 0)


def test_a_grown_file_is_rewritten_with_who_lives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timeline, "SIZE_LIMIT", 2000)
    other, reader = other_lane(path, 500), TimelineReader(path)
    try:
        writer = TimelineWriter(path, "lane")
        for mib in range(200):
            writer.write(mib)
            assert reader.load().mib == 500 + mib
        assert path.stat().st_size < 2500
    finally:
        other.kill()
        other.communicate()


def test_a_uuid_cannot_leave_the_folder(tmp_path: Path) -> None:
    assert timeline_path(tmp_path, "../../x/GPU").parent == tmp_path
