"""Words and small pieces that every view of a pair uses."""

from __future__ import annotations

import textwrap

from textual.content import Content

from anvil_tui.console.snapshot import Level
from anvil_tui.console.views.figures import DASH, STYLES, outside
from anvil_tui.records.acceptance import ArmRole

MUTED = "$foreground-muted"
_METRICS = {
    "decode_tok_s_p50": "decode tok/s",
    "throughput_tok_s": "throughput tok/s",
    "time_to_first_output_p50_ms": "first output ms",
    "ttft_p50_ms": "TTFT ms",
    "effective_prefill_tok_s_p50": "prefill tok/s",
    "generation_p50_ms": "generation ms",
    "e2e_p50_ms": "E2E ms",
}
TEXT = 2000
"""Characters of one sentence that are shown."""


def letter_of(arm: ArmRole) -> str:
    """A is the baseline."""
    return "A" if arm == "baseline" else "B"


def metric_name(name: str) -> str:
    return _METRICS.get(name, outside(name, 40))


def verdict_style(verdict: str) -> str:
    word = verdict.partition(" ")[0]
    levels: dict[str, Level] = {"faster": "good", "slower": "bad", "invalid": "warn", "inconclusive": "warn"}
    return STYLES[levels.get(word, "info")]


def title(words: str) -> Content:
    return Content.styled(words, "bold $text-primary")


def paragraph(text: str, width: int, style: str = "", indent: str = "") -> list[Content]:
    """A sentence in lines that fit."""
    folded = wrapped(text, width - len(indent))
    return [Content.styled(indent + line, style) for line in folded]


def hanging(text: str, width: int, style: str, indent: int) -> list[Content]:
    """A sentence in lines that fit, all but the first one indented."""
    return [Content.styled(line, style) for line in wrapped(text, width, indent)]


def wrapped(text: str, width: int, indent: int = 0) -> list[str]:
    """An outside text in lines of at most `width`, all but the first one indented; paths stay in one piece."""
    room = max(20, width)
    return textwrap.wrap(outside(text, TEXT), room, subsequent_indent=" " * indent, break_on_hyphens=False)


def number(value: float | None, places: int) -> str:
    return DASH if value is None else f"{value:,.{places}f}"


def signed(value: float, places: int) -> str:
    return f"{value:+z,.{places}f}"


def gib(value: float | None) -> str:
    return number(value, 2)


def percent(old: float | None, new: float | None) -> str:
    return DASH if old is None or new is None or not old else f"{(new / old - 1) * 100:+.1f} %"
