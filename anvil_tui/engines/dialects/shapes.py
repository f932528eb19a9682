"""The words of a dialect: what a row of an engine's table is, and how its text becomes a pattern.

A row is written as the line looks, in regular-expression syntax, with placeholders for what is read:

    {kv_tokens}            a number, thousands separators allowed
    {kv_cache_dtype:word}  text without blanks, commas and quotes
    {model:text}           any text, as short as possible
    {sizes:list}           numbers in brackets
    {free:amount}          a number with its unit
    {message:sentence}     text up to its full stop
    {}                     a number that nobody needs

A placeholder that is named like a field of the start-up report fills that field; any other name becomes a figure
(numbers) or a fact (words). A row matches at the start of a message, after all prefixes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from typing import Literal, NamedTuple

from msgspec import Struct

from anvil_tui.engines.dialects.prefixes import Spoken
from anvil_tui.records.startup_report import Source
from anvil_tui.text import redact, sanitise

SOURCE_LIMIT = 1024
WORDS_LIMIT = 500
"""Characters that a report keeps of a line, and of a fact or a failure's text."""

Means = Literal["", "begin", "early", "ready", "stopping", "ended"]

NUMBER = r"-?(?:\d{1,3}(?:,\d{3}){1,5}|\d{1,18})(?:\.\d{1,20})?"
"""At most 18 digits, so that every whole number fits in 64 bits."""

_KINDS = {
    "": NUMBER,
    "word": r"[^\s,;'\"]{1,200}",
    "text": r".{1,400}?",
    "list": r"\[[\d, ]{0,4000}\]",
    "amount": NUMBER + r" ?(?:[KMGT]i?B|bytes)",
    "sentence": r"[^.:]{1,200}\.",
}
_PLACEHOLDER = re.compile(r"\{(?P<name>[a-z_0-9]*)(?::(?P<kind>word|text|list|amount|sentence))?\}")


def compiled(template: str, *, spaces: str) -> re.Pattern[str]:
    """The pattern of a template. `spaces` stands for each blank; `\\s*` reads text that a terminal wrapped."""

    def blanks(text: str) -> str:
        return re.sub(r" ([?*]?)", lambda match: r"\s*" if match[1] else spaces, text)

    def expand(match: re.Match[str]) -> str:
        pattern = _KINDS[match["kind"] or ""]
        return f"(?P<{match['name']}>{pattern})" if match["name"] else f"(?:{pattern})"

    parts: list[str] = []
    end = 0
    for match in _PLACEHOLDER.finditer(template):
        parts += [blanks(template[end : match.start()]), expand(match)]
        end = match.end()
    parts.append(blanks(template[end:]))
    return re.compile("".join(parts), re.DOTALL)


_ESCAPED = re.compile(r"\\([^\w\s])")
_GROUP = re.compile(r"\((?:\?:)?[^()]*\)(?:\{\d+,\d+\}|[?*+])?\??")
_REPEATED = re.compile(r"(?:\[[^\]]*\]|\\\w|[^\n])(?:\{\d+,\d+\}|[?*+])\??")
_CLASS = re.compile(r"\[[^\]]*\]|\\\w|[.^$|]")


def literals(template: str) -> list[str]:
    """The runs of plain text in a template, in order; none of them is optional or one of several."""
    plain = _ESCAPED.sub(lambda match: chr(0xE000 + ord(match[1])), _PLACEHOLDER.sub("\n", template))
    while (without := _GROUP.sub("\n", plain)) != plain:
        plain = without
    plain = _CLASS.sub("\n", _REPEATED.sub("\n", plain))
    return [re.sub("[\ue000-\ue0ff]", lambda match: chr(ord(match[0]) - 0xE000), run) for run in plain.split("\n")]


class Row(Struct, frozen=True, dict=True):
    """What all rows share: the engine versions that write the line, and its template."""

    versions: str
    template: str
    wrapped: bool = False
    """A long line, which a terminal may have broken into several."""

    @cached_property
    def literal(self) -> str:
        """The longest plain text of the row: a line without it cannot match."""
        return max(literals(self.template), key=len)

    @cached_property
    def opening(self) -> str:
        """The first three words of the row: where they stand alone, the rest may follow on the next lines."""
        first = next(run for run in literals(self.template) if run.strip())
        return " ".join(first.split()[:3])

    @cached_property
    def name(self) -> str:
        """How a figure names the row that read it."""
        return f"{self.versions}: {self.literal.strip()}"


class Shape(Row, frozen=True, dict=True, kw_only=True):
    """One way in which an engine writes a fact or a figure."""

    phase: str = ""
    """The phase of a start that the line belongs to."""
    means: Means = ""
    """`begin` opens an attempt; `early`: nobody says it of a server that is ready or has failed, unless it starts over;
    `ready`: the server answers, `stopping`: a signal told it to end, `ended`: it did."""
    counts: str = ""
    """The fact that counts how often the line was said."""
    strength: int = 0
    """A figure read by a stronger row is not replaced by a weaker one."""
    adds: bool = False
    """Every such line adds to its figures: several pools, devices, captures or compiled parts make one figure."""
    trial: bool = False
    """All figures read before were those of a trial that took no memory."""
    inside: tuple[str, ...] = ()
    """Further templates, each looked for anywhere in the message."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return compiled(self.template, spaces=r"\s*" if self.wrapped else " +")

    @cached_property
    def inner(self) -> tuple[re.Pattern[str], ...]:
        return tuple(compiled(template, spaces=" +") for template in self.inside)

    @cached_property
    def words(self) -> frozenset[str]:
        """The placeholders that are read as words, not as numbers."""
        found = _PLACEHOLDER.finditer(" ".join((self.template, *self.inside)))
        return frozenset(match["name"] for match in found if match["kind"])

    def read(self, message: str) -> dict[str, str | None] | None:
        """What the message says, by placeholder; None where it is not of this shape."""
        match = self.pattern.match(message) if self.literal in message else None
        if match is None:
            return None
        groups = match.groupdict()
        for pattern in self.inner:
            if found := pattern.search(message):
                groups |= found.groupdict()
        return groups


class Cause(Row, frozen=True, dict=True, kw_only=True):
    """The root cause of a failure, as an engine writes it. It may stand anywhere in an error's text."""

    kind: str
    depth: int = 1
    """0 for what the death of another rank looks like: a deeper cause replaces it."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return compiled(self.template, spaces=r"\s*")


class Echo(Row, frozen=True, dict=True, kw_only=True):
    """A line that says that something died, never why."""

    kind: str
    depth: int = 1
    """How much it tells: a deeper echo replaces a shallower one."""
    announces: bool = False
    """Whether the traceback with the cause follows it."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return compiled(self.template, spaces=" +")


class Speaker(Struct, frozen=True):
    """The process that wrote a line. `label` is a rank (`TP0`), a process name, `driver`, or `?`."""

    label: str
    role: Literal["worker", "engine", "api", "other"] = "other"
    pid: str = ""
    ranked: bool = True
    """Whether the label tells one rank from the others; where it does not, the pid does."""


NOBODY = Speaker("")
UNKNOWN = Speaker("?")
"""One of several processes, and nobody can tell which."""
SOLE = Speaker("?")
"""An engine names no rank where it runs on one GPU."""


class Record(Struct, frozen=True):
    """One line without its prefixes. `level` is empty where the line has no header of its own."""

    message: str
    level: str = ""
    at: str | None = None
    speaker: Speaker = NOBODY


class Line(NamedTuple):
    """Where a record stands in the log, and its bytes. Only what is kept of it pays for being made safe."""

    number: int
    offset: int
    raw: bytes

    def source(self) -> Source:
        """The line as a report keeps it: secrets redacted, safe to show, of bounded length."""
        raw, _ = redact(self.raw[: 2 * SOURCE_LIMIT])
        return Source(line=self.number, offset=self.offset, text=sanitise(raw, SOURCE_LIMIT))


def safe(text: str) -> str:
    """Words of a log as a report keeps them."""
    return sanitise(redact(text.strip()[: 2 * WORDS_LIMIT].encode("utf-8", "replace"))[0], WORDS_LIMIT)


class Dialect(Struct, frozen=True):
    """One engine's way to log."""

    engine: str
    read: Callable[[Spoken], list[Record]]
    """Strips the engine's own prefixes of one line; a line can hold several records."""
    words: tuple[bytes, ...]
    """Every line that the dialect can read holds at least one of these, and few other lines do."""
    hallmark: re.Pattern[str]
    """What only this engine's log holds."""
    shapes: tuple[Shape, ...]
    causes: tuple[Cause, ...]
    echoes: tuple[Echo, ...]
    measures: re.Pattern[str]
    """What a message with KV, memory or GiB figures looks like; unread where no row matches it."""
    exception: re.Pattern[str]
    """How the line begins that names an exception and ends a traceback."""
    unnamed: Speaker
    """Who wrote a line without a process prefix."""
    unnamed_among: Speaker
    """The same once named processes have spoken."""
    bare: bool = False
    """Whether the engine's own lines may come without a header."""
    survives: bool = False
    """Whether a ready server takes back an earlier failure: such an engine retries with less."""
