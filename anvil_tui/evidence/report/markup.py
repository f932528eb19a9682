"""HTML that is escaped by construction: text becomes markup in this file and nowhere else."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anvil_tui.text import redact, sanitise


class Html(str):
    """Markup, safe to stand in the page as it is. Every other text is escaped where it enters."""

    __slots__ = ()


NA = Html('<span class="na">n/a</span>')
"""Unknown, wherever a figure would stand."""

Cell = Html | str | None


@dataclass(frozen=True)
class Column:
    """A column of a table; figures stand right-aligned."""

    title: str
    figure: bool = False


def shown(value: Cell) -> Html:
    """Markup as it is, text sanitised and escaped, None as n/a."""
    if value is None:
        return NA
    if isinstance(value, Html):
        return value
    return Html(html.escape(sanitise(value)))


def tag(name: str, *children: Cell, **attributes: str | None) -> Html:
    """`<name …>children</name>`. A trailing underscore of an attribute is dropped (`class_`); None leaves it out."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{shown(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{words}>{''.join(map(shown, children))}</{name}>")


def joined(parts: Iterable[Cell], between: str = "") -> Html:
    """Parts one after the other."""
    return Html(shown(between).join(map(shown, parts)))


def said(message: str, limit: int = 600) -> str:
    """What a server, a log or an operator said: secrets hidden, bounded to `limit` characters."""
    hidden, _ = redact(message.encode("utf-8", "replace"))
    return sanitise(hidden, limit)


def paragraphs(text: str) -> Html:
    """A text of several lines, its line ends kept."""
    return joined((tag("div", line, class_="line") if line else Html("<br>")) for line in text.splitlines())


def table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], caption: Cell = "") -> Html:
    """A table with its caption, which names where the figures come from."""
    head = joined(tag("th", one.title, scope="col", class_="figure" if one.figure else None) for one in columns)
    body = joined(
        tag(
            "tr",
            *(
                tag("td", cell, class_="figure" if column.figure else None)
                for column, cell in zip(columns, row, strict=True)
            ),
        )
        for row in rows
    )
    words = tag("caption", caption) if caption else Html("")
    return tag("div", tag("table", words, tag("thead", tag("tr", head)), tag("tbody", body)), class_="scroll")


def facts(rows: Iterable[tuple[Cell, Cell]], caption: Cell = "") -> Html:
    """A two-column table of names and values."""
    body = joined(tag("tr", tag("th", name, scope="row"), tag("td", value)) for name, value in rows)
    words = tag("caption", caption) if caption else Html("")
    return tag("div", tag("table", words, tag("tbody", body), class_="facts"), class_="scroll")


def source(*paths: str) -> Html:
    """The artifacts that figures come from."""
    return joined((tag("code", path) for path in paths), ", ")


def few_sources(paths: Sequence[str], most: int = 2) -> Html:
    """The artifacts that figures come from: `most` of them by name, and how many more there are."""
    if len(paths) <= most + 1:
        return source(*paths)
    return joined([source(*paths[:most]), f" and {len(paths) - most} more"])


_TONES = {
    "good": (
        "PASS", "passed", "pass", "complete", "whole", "ready", "proven", "observed", "explained", "met", "faster",
        "equivalent",
    ),
    "bad": ("FAIL", "failed", "fail", "violated", "died_after_ready", "not met", "slower"),
}  # fmt: skip


def verdict(word: str | None) -> Html:
    """A word that judges, with its tone; the word itself always says it, never the colour alone."""
    if word is None:
        return NA
    head = word.partition(" within ")[0]
    tone = next((tone for tone, words in _TONES.items() if head in words), "doubt")
    return tag("span", word, class_=f"verdict {tone}")
