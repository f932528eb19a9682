"""A log as rows: whatever the pieces, what progress bars leave, what a filter keeps, and what is bounded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.console.sources.log_rows import LogRows, bar_key, level_of, matcher, row_text
from anvil_tui.console.sources.log_source import LogSource, LogWish, read_page


def rows_of(raw: bytes, kept: int = 100) -> list[str]:
    rows = LogRows(kept)
    rows.feed(raw, 0)
    return [row.text for row in rows.shown()]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"plain", "plain"),
        (b"windows\r", "windows"),
        (b"10%|#   | 1/10\r20%|##  | 2/10", "20%|##  | 2/10"),
        (b"(Worker_TP0 pid=301) \r61% Completed | 59/96 [04:27", "(Worker_TP0 pid=301) 61% Completed | 59/96 [04:27"),
        (b"(Worker_TP0 pid=301) 10%| |\r(Worker_TP0 pid=301) 20%| |", "(Worker_TP0 pid=301) 20%| |"),
        (b"(Worker_TP0 pid=301) ", None),
        (b"\x1b[0;36m(EngineCore pid=1)\x1b[0;0m INFO ready", "(EngineCore pid=1) INFO ready"),
        (b"a\tb", "a       b"),
        (b"bad \xff", "bad \ufffd"),
        (b"", ""),
    ],
)  # fmt: skip
def test_one_line(raw: bytes, text: str | None) -> None:
    assert row_text(raw) == text


def test_a_bar_moves_in_its_own_row_and_ranks_take_turns() -> None:
    raw = b"".join(
        b"(Worker_TP%d pid=30%d) Loading: %d%%|##| %d/96\n" % (rank, rank, done, done)
        for done in range(96)
        for rank in (0, 1)
    )
    shown = rows_of(b"before\n" + raw + b"after\n", kept=1000)
    assert shown == [
        "before",
        "(Worker_TP0 pid=300) Loading: 95%|##| 95/96",
        "(Worker_TP1 pid=301) Loading: 95%|##| 95/96",
        "after",
    ]


LINES = [
    b"INFO plain", b"", b"   ", b"blanks at the end  ", b"(APIServer pid=1) WARNING slow", b"(APIServer pid=1)  ",
    b"call(x)", b"ERROR 1", b"ValueError: no", b"a\tb", b"\x1b[31mred\x1b[0m ERROR", b"windows\r", "caf\u00e9".encode(),
    b"bad \xff", b"usage: 0.0%, Completed", b"x" * 5000, b"nul \x00",
]  # fmt: skip


@given(st.lists(st.sampled_from([LINES[0]] * 40 + LINES), max_size=300), st.booleans())
@settings(max_examples=60, deadline=None)
def test_lines_that_are_taken_together_are_the_rows_of_each(lines: list[bytes], filtered: bool) -> None:
    rows = LogRows(1000)
    rows.filter((lambda text: "INFO" not in text) if filtered else None)
    rows.feed(b"".join(line + b"\n" for line in lines), 70)
    starts = [70 + sum(len(line) + 1 for line in lines[:place]) for place in range(len(lines))]
    every = [(at, text) for at, line in zip(starts, lines, strict=True) if (text := row_text(line)) is not None]
    expected = [(number, at, text) for number, (at, text) in enumerate(every)]
    assert list(rows.shown()) == [row for row in expected if not filtered or "INFO" not in row[2]]
    levels = [level_of(text) for _, text in every]
    assert (rows.kept, rows.warnings, rows.errors) == (len(every), levels.count("warning"), levels.count("error"))


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Loading: 61%|###", "Loading:"),
        ("61% Completed | 59/96", ""),
        ("GPU utilisation 61%", None),
        ("100 % sure", None),
    ],
)
def test_what_is_a_bar(text: str, key: str | None) -> None:
    assert bar_key(text) == key


@given(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"\xff", b"\x1b[31m", b"10%|", b"word "]), max_size=60), st.data())
@settings(max_examples=100, deadline=None)
def test_pieces_of_any_size_give_the_same_rows(parts: list[bytes], data: st.DataObject) -> None:
    raw = b"".join(parts) + b"\n"
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=5)))
    rows, at = LogRows(100), 0
    for cut in [*cuts, len(raw)]:
        rows.feed(raw[at:cut], at)
        at = cut
    whole = LogRows(100)
    whole.feed(raw, 0)
    assert rows.shown() == whole.shown()
    assert all(raw[row.offset - 1 : row.offset] in (b"", b"\n") for row in whole.shown())


def test_only_the_last_rows_are_kept_and_keep_their_numbers() -> None:
    rows = LogRows(10)
    for number in range(25):
        rows.feed(b"line %d\n" % number, 100 * number)
    assert [(row.number, row.text) for row in rows.shown()] == [(number, f"line {number}") for number in range(15, 25)]
    rows.feed(b"".join(b"flood %d\n" % number for number in range(1000)), 2500)
    assert [row.text for row in rows.shown()] == [f"flood {number}" for number in range(990, 1000)]
    assert rows.shown()[-1].number == 1024


def test_a_line_without_end_is_bounded() -> None:
    rows = LogRows(10)
    for piece in range(20):
        rows.feed(b"x" * 100_000, 100_000 * piece)
    assert len(rows._tail) <= 100_000
    rows.feed(b"\nnext\n", 2_000_000)
    assert [row.text[-22:] for row in rows.shown()][-1] == "next"
    assert len(rows.shown()) == 2
    assert max(len(row.text) for row in rows.shown()) < 5000


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("", ["Alpha one", "beta two", "gamma [x]"]),
        ("ALPHA", ["Alpha one"]),
        ("!alpha", ["beta two", "gamma [x]"]),
        ("t.o|one", ["Alpha one", "beta two"]),
        (r"\[x\]", ["gamma [x]"]),
        ("nothing", []),
        ("!", ["Alpha one", "beta two", "gamma [x]"]),
    ],
)
def test_a_filter(pattern: str, kept: list[str]) -> None:
    rows = LogRows(10)
    rows.feed(b"Alpha one\n", 0)
    rows.filter(matcher(pattern))
    rows.feed(b"beta two\ngamma [x]\n", 10)
    assert [row.text for row in rows.shown()] == kept
    rows.filter(None)
    assert rows.kept == len(rows.shown()) == 3


def test_a_filter_follows_what_is_forgotten_and_what_moves() -> None:
    rows = LogRows(5)
    rows.filter(matcher("keep"))
    for number in range(20):
        rows.feed(b"keep %d\nother\n" % number, 0)
    assert [row.text for row in rows.shown()] == ["keep 18", "keep 19"]
    rows.feed(b"keep bar 10%|#\nkeep bar 20%|##\n", 0)
    assert [row.text for row in rows.shown()][-1] == "keep bar 20%|##"


def test_a_pattern_that_is_none_raises() -> None:
    with pytest.raises(re.error):
        matcher("(")


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("INFO fine", ""),
        ("WARNING 08-10 slow", "warning"),
        ("ERROR 08-10 bad", "error"),
        ("ValueError: no", "error"),
        ("Traceback (most recent call last):", "error"),
        ("terror and warnings", ""),
        ("WARNING 12-01 [system_utils.py:255] failed to increase: Error: too many, ERROR", "warning"),
        ("INFO 12-01 [api.py:1] a client saw Error: no", ""),
        ("ERROR 12-01 [api.py:1] WARNING", "error"),
    ],
)
def test_the_level_of_a_row(text: str, level: str) -> None:
    assert level_of(text) == level


def _source(path: Path | None, engine: str | None = "vllm") -> tuple[LogSource, list[object]]:
    posted: list[object] = []
    source = LogSource(posted.append)
    source.want(LogWish(path, engine, wants_report=True))
    return source, posted


def test_the_source_follows_filters_and_jumps(tmp_path: Path) -> None:
    path = tmp_path / "lane.log"
    path.write_bytes(b"".join(b"line %05d\n" % number for number in range(30_000)))
    source, posted = _source(path)
    source.look()
    log = posted[-1].log  # type: ignore[attr-defined]
    assert (log.kept, log.lines[-1].text, log.size) == (10_000, "line 29999", 330_000)
    source.filter("line 2999")
    source.look()
    assert [line.text for line in posted[-1].log.lines] == [f"line {number}" for number in range(29990, 30000)]  # type: ignore[attr-defined]
    source.filter("(")
    source.look()
    assert "filter" in posted[-1].log.fault and len(posted[-1].log.lines) == 10_000  # type: ignore[attr-defined]
    source.filter("")
    source.jump(1100)
    source.look()
    page = posted[-1].log  # type: ignore[attr-defined]
    assert page.page == 1100
    assert next(line.text for line in page.lines if line.offset == 1100) == "line 00100"
    source.jump(None)
    with path.open("ab") as file:
        file.write(b"new\n")
    source.look()
    assert posted[-1].log.lines[-1].text == "new"  # type: ignore[attr-defined]
    told = len(posted)
    source.look()
    assert len(posted) == told, "nothing new is nothing to tell"


def test_a_flood_is_read_less_often(tmp_path: Path) -> None:
    path = tmp_path / "lane.log"
    path.write_bytes(b"calm\n")
    source, _ = _source(path)
    seconds = []
    for grown in (b"calm\n", b"flood\n" * 100_000, b"calm\n", b""):
        with path.open("ab") as file:
            file.write(grown)
        source.look()
        seconds.append(source._period_s)
    assert seconds == [0.1, 0.25, 0.1, 0.1]


def test_a_log_that_was_cut_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "lane.log"
    path.write_bytes(b"old 1\nold 2\n")
    source, posted = _source(path)
    source.look()
    path.write_bytes(b"new\n")
    source.look()
    assert [line.text for line in posted[-1].log.lines] == ["new"]  # type: ignore[attr-defined]


def test_no_log_is_an_empty_pane(tmp_path: Path) -> None:
    for path in (None, tmp_path / "missing.log"):
        source, posted = _source(path)
        source.look()
        assert posted[-1].log.lines == ()  # type: ignore[attr-defined]
    assert read_page(tmp_path / "missing.log", 0) == ()


def test_the_report_grows_with_the_log(tmp_path: Path) -> None:
    lines = b"(EngineCore pid=212) INFO 08-10 12:00:03 [kv_cache_utils.py:1087] GPU KV cache size: 553,243 tokens\n"
    path = tmp_path / "lane.log"
    path.write_bytes(lines)
    source, posted = _source(path)
    source.look()
    report = posted[-1].log.report  # type: ignore[attr-defined]
    assert report.kv_tokens.value == 553243
    assert report.kv_tokens.source.offset == 0
