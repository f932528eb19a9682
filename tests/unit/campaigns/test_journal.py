"""The journal: append-only, chained, one writer; a dead writer costs nothing that was acknowledged."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.campaigns.store.journal import GENESIS, Journal, JournalReader, read_journal
from anvil_tui.errors import CannotRun
from anvil_tui.records.events import Answered, Asked, RunSkipped


def _asked(number: int) -> Asked:
    return Asked(request=str(number), ask="note", text="line\u2028separator\r\x0b")


def _written(path: Path, count: int) -> bytes:
    with Journal.take(path) as journal:
        for number in range(count):
            journal.append(_asked(number))
    return path.read_bytes()


def test_lines_are_chained_by_their_bytes(tmp_path: Path) -> None:
    raw = _written(tmp_path / "journal.jsonl", 3)
    lines = raw.split(b"\n")
    assert lines[-1] == b""
    prev = GENESIS
    for seq, line in enumerate(lines[:-1]):
        envelope = json.loads(line)
        assert (envelope["seq"], envelope["prev"], envelope["kind"]) == (seq, prev, "asked")
        prev = hashlib.sha256(line).hexdigest()


def test_a_second_writer_is_refused_and_the_next_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.take(path) as journal:
        journal.append(_asked(0))
        with pytest.raises(CannotRun, match="another process writes"):
            Journal.take(path)
    with Journal.take(path) as journal:
        assert journal.append(_asked(1)).seq == 1
    assert len(read_journal(path)) == 2


def test_every_torn_tail_is_mended(tmp_path: Path) -> None:
    whole = _written(tmp_path / "whole.jsonl", 3)
    for cut in range(len(whole)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        path = folder / "journal.jsonl"
        path.write_bytes(whole[:cut])
        kept = whole[:cut].rfind(b"\n") + 1
        with Journal.take(path) as journal:
            torn = journal.torn
            journal.append(Answered(request="0", words="after"))
        assert path.read_bytes()[:kept] == whole[:kept]
        assert len(read_journal(path)) == whole[:kept].count(b"\n") + 1
        if cut == kept:
            assert torn is None
        else:
            assert torn is not None and torn.bytes == cut - kept
            assert (folder / torn.kept_as).read_bytes() == whole[kept:cut]


@pytest.mark.parametrize("change", ["flip", "drop", "swap", "insert"])
def test_a_changed_journal_breaks(tmp_path: Path, change: str) -> None:
    path = tmp_path / "journal.jsonl"
    lines = _written(path, 4).split(b"\n")[:-1]
    match change:
        case "flip":
            lines[1] = lines[1].replace(b"note", b"nope")
        case "drop":
            del lines[1]
        case "swap":
            lines[1], lines[2] = lines[2], lines[1]
        case "insert":
            lines.insert(2, lines[1])
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(CannotRun, match=r"line 3|line 2"):
        read_journal(path)


def test_unknown_kinds_and_fields_are_kept_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with Journal.take(path) as journal:
        journal.append(RunSkipped(what="rung", target_tokens=5, words="known"))
    line = path.read_bytes().rstrip(b"\n")
    later = {
        "seq": 1,
        "prev": hashlib.sha256(line).hexdigest(),
        "t": "t",
        "mono_us": 1,
        "kind": "from_the_future",
        "body": {},
        "x": 1,
    }
    more = {**later, "seq": 2, "kind": "asked", "body": {"request": "1", "ask": "dance", "extra": True}}
    encoded = json.dumps(later).encode()
    more["prev"] = hashlib.sha256(encoded).hexdigest()
    path.write_bytes(line + b"\n" + encoded + b"\n" + json.dumps(more).encode() + b"\n")
    reader = JournalReader(path)
    events = [event for _, event in reader.new()]
    assert events[1] is None and isinstance(events[2], Asked) and events[2].ask == "dance"
    assert reader.unknown == {"from_the_future": 1} and reader.broken is None


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_reading_as_it_grows_sees_each_line_once(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("journal")
    raw = _written(folder / "whole.jsonl", 5)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    path = folder / "journal.jsonl"
    reader, seen = JournalReader(path), []
    for cut in [*cuts, len(raw)]:
        path.write_bytes(raw[:cut])
        seen += [envelope.seq for envelope, _ in reader.new()]
    assert seen == [0, 1, 2, 3, 4] and reader.broken is None
