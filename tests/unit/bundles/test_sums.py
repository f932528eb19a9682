"""The grammar of the signed list: what we write, and that nothing else is read."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from anvil_tui.bundles import sums
from anvil_tui.bundles.refused import Refused

SEGMENT = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,8}", fullmatch=True)
PATH = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
HASH = st.binary(min_size=32, max_size=32).map(bytes.hex)


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(PATH, HASH, min_size=1, max_size=8))
def test_what_is_written_is_read_back(hashes: dict[str, str]) -> None:
    try:
        raw = sums.write(hashes)
    except Refused:
        return
    assert sums.parse(raw) == hashes


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8"))))
def test_no_bytes_crash_it(raw: bytes) -> None:
    _only_exact(raw)


GOOD = sums.write({"MANIFEST.json": "0" * 64, "a/b.json": "1" * 64, "a/c": "2" * 64, "z": "f" * 64})


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, len(GOOD)),
    st.integers(0, 4),
    st.one_of(st.binary(max_size=4), st.sampled_from([b"\n", b" ", b"  ", b"\r\n", b"../", b"/", b".", b"\x00", b"A"])),
)
def test_every_edit_is_refused_or_exact(at: int, cut: int, put: bytes) -> None:
    _only_exact(GOOD[:at] + put + GOOD[at + cut :])


def _only_exact(raw: bytes) -> None:
    """Either refused, or the very bytes that we would write for what was read."""
    try:
        hashes = sums.parse(raw)
    except Refused as refused:
        assert refused.code in {"SUMS_MALFORMED", "BAD_PATH", "DUPLICATE_PATH", "CASE_COLLISION", "EMPTY"}
        return
    assert sums.write(hashes) == raw


@pytest.mark.parametrize(
    "path", ["a", "0", "a.json", "runs/base-r1.json", "a/b/c/d/e/f/g/h", "x" * 100, "NULL", "a+b_c"]
)
def test_good_paths(path: str) -> None:
    assert sums.path_fault(path) is None


BAD = [
    *(
        "",
        "/",
        "/a",
        "a/",
        "a//b",
        ".",
        "..",
        "../a",
        "a/../b",
        ".a",
        "-a",
        "_a",
        "a ",
        "a\n",
        "a\\b",
        "c:a",
        "ä",
        "a.",
    ),
    *("con", "Con.txt", "com1", "a/LPT9.log", "x" * 101, "1/2/3/4/5/6/7/8/9", "a\x00", "a\u2028"),
]


@pytest.mark.parametrize("path", BAD)
def test_bad_paths(path: str) -> None:
    assert sums.path_fault(path)
