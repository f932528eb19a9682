"""Markup: text from outside cannot become markup, and unknown is n/a."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.evidence.report import figures
from anvil_tui.evidence.report.markup import NA, Column, Html, facts, paragraphs, said, shown, table, tag, verdict


class Tags(HTMLParser):
    """Collects what a browser would take for tags, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(markup: str) -> Tags:
    parser = Tags()
    parser.feed(markup)
    parser.close()
    return parser


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_text(text: str) -> None:
    found = parsed(tag("p", text, title=text))
    assert [name for name, _ in found.tags] == ["p"]
    assert [key for key, _ in found.tags[0][1]] == ["title"]


@pytest.mark.parametrize(
    "nasty",
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style></body>", "' onmouseover='x", "&lt;b&gt;"],
)
def test_nasty_texts_stay_texts_everywhere(nasty: str) -> None:
    for markup in (
        table([Column("A")], [[nasty]], nasty),
        facts([(nasty, nasty)], nasty),
        verdict(nasty),
        paragraphs(nasty),
        tag("code", nasty, title=nasty),
    ):
        found = parsed(markup)
        assert {name for name, _ in found.tags} <= {
            "div", "table", "caption", "thead", "tbody", "tr", "th", "td", "span", "code",
        }  # fmt: skip
        assert nasty in found.text
        assert not re.search(r"<(script|img|b)\b", markup)


def test_controls_and_secrets_do_not_pass() -> None:
    assert shown("a\x1b[31mb\u202ec\x00") == "ab\ufffdc\ufffd"
    assert "hunter2secret" not in said("password=hunter2secret and Bearer abcdefgh12345678")
    assert len(said("x" * 5000, 300)) < 340


def test_unknown_is_not_a_number() -> None:
    unknown = [
        figures.whole(None), figures.measured(None, "ms"), figures.mib(None), figures.percent(None),
        figures.interval(None, 1.0), figures.seconds(None), figures.moment(None), figures.as_told(None),
    ]  # fmt: skip
    assert unknown == [NA] * len(unknown)
    assert verdict(None) == shown(None) == NA


@pytest.mark.parametrize(
    ("markup", "words"),
    [
        (figures.whole(117_500, "tokens"), "117,500 tokens"),
        (figures.measured(2003.4), "2,003"),
        (figures.measured(604.567, "tok/s"), "604.6 tok/s"),
        (figures.measured(0.0), "0.00"),
        (figures.mib((1 << 20) * 2017 + 5), "2,017"),
        (figures.mib(-(1 << 20) - 1, signed=True), "-2"),
        (figures.percent(-2.04), "-2.0 %"),
        (figures.interval(-1, 2), "-1.0 … +2.0 %"),
        (figures.seconds(4.62), "4.6 s"),
        (figures.seconds(200), "3 min 20 s"),
        (figures.seconds(7500), "2 h 05 min"),
        (figures.moment("2026-12-01T14:42:05.287Z"), "2026-12-01 14:42:05 UTC"),
        (verdict("PASS"), '<span class="verdict good">PASS</span>'),
        (verdict("PASS (spill not checked)"), '<span class="verdict doubt">PASS (spill not checked)</span>'),
        (verdict("equivalent within 2 %"), '<span class="verdict good">equivalent within 2 %</span>'),
        (verdict("slower"), '<span class="verdict bad">slower</span>'),
        (verdict("FAIL"), '<span class="verdict bad">FAIL</span>'),
    ],
)
def test_figures_as_an_operator_reads_them(markup: Html, words: str) -> None:
    assert markup == words
