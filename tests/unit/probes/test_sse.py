from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.probes.client.sse import EVENT_LIMIT, EventTooLarge, SseEvent, SseReader


def read(*parts: bytes) -> list[tuple[bytes, bytes]]:
    reader = SseReader()
    return [(event.name, event.data) for part in parts for event in reader.feed(part, 0)]


@pytest.mark.parametrize(
    ("raw", "events"),
    [
        (b"data: a\n\n", [(b"", b"a")]),
        (b"data:a\n\ndata: b\n\n", [(b"", b"a"), (b"", b"b")]),
        (b"data:  a\n\n", [(b"", b" a")]),
        (b"data: a\r\n\r\n", [(b"", b"a")]),
        (b"data: a\r\rdata: b\r\r", [(b"", b"a"), (b"", b"b")]),
        (b"data: a\ndata: b\n\n", [(b"", b"a\nb")]),
        (b"data\n\n", [(b"", b"")]),
        (b"event: x\ndata: a\n\ndata: b\n\n", [(b"x", b"a"), (b"", b"b")]),
        (b"event: x\n\n", []),
        (b"id: 1\nretry: 5\ndata: a\nodd: b\n\n", [(b"", b"a")]),
        (b": ping\n\ndata: a\n\n", [(b"", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [(b"", b"a")]),
        (b"\n\n\ndata: a\n\n", [(b"", b"a")]),
        ("data: \u2028\u2029\u0085\x0b\x0c\n\n".encode(), [(b"", "\u2028\u2029\u0085\x0b\x0c".encode())]),
        (b"data: a\n", []),
    ],
)
def test_standard(raw: bytes, events: list[tuple[bytes, bytes]]) -> None:
    assert read(raw) == events
    assert read(*(raw[index : index + 1] for index in range(len(raw)))) == events


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.text("data: \r\n:x", max_size=80).map(str.encode), st.lists(st.integers(0, 200)))
def test_any_bytes_in_any_chunking(raw: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    parts = [raw[start:stop] for start, stop in itertools.pairwise(edges)]
    assert read(*parts) == read(raw)


def test_an_event_is_stamped_by_the_read_that_ended_its_data() -> None:
    reader = SseReader()
    assert reader.feed(b"data: a", 1) == []
    assert reader.feed(b"bc\n", 2) == []
    assert reader.feed(b"\ndata: d\n\n", 3) == [SseEvent(b"abc", 2), SseEvent(b"d", 3)]


def test_the_last_event_may_lack_its_blank_line() -> None:
    reader = SseReader()
    reader.feed(b"data: a\n\ndata: b", 1)
    assert reader.close(2) == SseEvent(b"b", 2)
    assert SseReader().close(1) is None


def test_comments_are_counted() -> None:
    reader = SseReader()
    reader.feed(b": one\n\n:two\n\n", 0)
    assert reader.comments == 2


def test_memory_is_bounded() -> None:
    reader = SseReader()
    with pytest.raises(EventTooLarge):
        for _ in range(EVENT_LIMIT // 65536 + 2):
            reader.feed(b"x" * 65536, 0)
    reader = SseReader()
    with pytest.raises(EventTooLarge):
        for _ in range(EVENT_LIMIT // 65536 + 2):
            reader.feed(b"data: " + b"x" * 65536 + b"\n", 0)
