"""What a model answered, put together from deltas: visible text, reasoning, refusal, tool calls."""

from __future__ import annotations

import json
from collections.abc import Set
from typing import Any, Literal

from msgspec import Struct

from anvil_tui.text import sanitise

TEXT_LIMIT = 64 * 1024
"""Characters of an answer that a record keeps."""

Channel = Literal["content", "reasoning", "refusal", "tool"]
_NOTHING: frozenset[Channel] = frozenset()
_CONTENT: frozenset[Channel] = frozenset({"content"})
_PLAIN = frozenset({"role", "content"})
"""The keys of most deltas; with visible text and no others there is nothing more to look for."""


class ToolCall(Struct, kw_only=True):
    """One tool call, its arguments joined as they came."""

    id: str = ""
    name: str = ""
    arguments: str = ""

    def parsed(self) -> dict[str, Any] | None:
        """The arguments as an object; None where they are not whole JSON or no object."""
        try:
            value = json.loads(self.arguments)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


class Answer:
    """Collects deltas. Anything of a wrong type counts as absent: engines send null where nothing is meant."""

    def __init__(self) -> None:
        self._parts: dict[Channel, list[str]] = {"content": [], "reasoning": [], "refusal": []}
        self._tools: dict[int, ToolCall] = {}

    def add(self, delta: object) -> Set[Channel]:
        """Take one delta; the channels on which it carried something."""
        if not isinstance(delta, dict):
            return _NOTHING
        content = delta.get("content")
        if isinstance(content, str) and content and len(delta) <= 2 and _PLAIN.issuperset(delta):
            self._parts["content"].append(content)
            return _CONTENT
        channels: set[Channel] = set()
        if content:
            self._add(channels, "content", _text(content, "text"))
            if isinstance(content, list):
                self._add(channels, "reasoning", _text(content, "thinking"))
        if reasoning := delta.get("reasoning") or delta.get("reasoning_content"):
            self._add(channels, "reasoning", _text(reasoning, "text"))
        if refusal := delta.get("refusal"):
            self._add(channels, "refusal", _text(refusal, "text"))
        if (calls := delta.get("tool_calls")) and self._add_tools(calls):
            channels.add("tool")
        return channels

    def _add(self, channels: set[Channel], channel: Channel, text: str) -> None:
        if text:
            self._parts[channel].append(text)
            channels.add(channel)

    def _add_tools(self, calls: object) -> bool:
        came = False
        for call in calls if isinstance(calls, list) else ():
            if not isinstance(call, dict):
                continue
            function = call.get("function")
            fields = function if isinstance(function, dict) else {}
            name, arguments = _string(fields.get("name")), _string(fields.get("arguments"))
            if not (name or arguments or _string(call.get("id"))):
                continue
            came = True
            index = call.get("index")
            tool = self._tools.setdefault(index if isinstance(index, int) else 0, ToolCall())
            tool.id = tool.id or _string(call.get("id"))
            tool.name = tool.name or name
            tool.arguments += arguments
        return came

    @property
    def content(self) -> str:
        """Visible text: content, or the refusal where the model refused."""
        return "".join(self._parts["content"]) or "".join(self._parts["refusal"])

    @property
    def reasoning(self) -> str:
        return "".join(self._parts["reasoning"])

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [self._tools[index] for index in sorted(self._tools)]

    @property
    def repeated(self) -> bool:
        """Whether the answer ends in a loop."""
        return loops(self.content) or loops(self.reasoning)


def loops(text: str, *, cycles: int = 4, characters: int = 256) -> bool:
    """Whether `text` ends in at least `cycles` identical cycles that cover at least `characters`.

    The period is the distance between the last characters and where they stood before.
    """
    tail = text[-max(characters, 64) * 64 :]
    if len(tail) < characters or not tail.strip():
        return False
    probe = tail[-32:]
    period, end = 0, len(tail) - 1
    while period < len(tail) // cycles:
        found = tail.rfind(probe, 0, end)
        if found < 0:
            return False
        period, end = len(tail) - len(probe) - found, found + len(probe) - 1
        covered = max(characters, cycles * period)
        if covered <= len(tail) and tail[-covered:-period] == tail[-covered + period :]:
            return True
    return False


def kept(text: str) -> str | None:
    """`text` as a record keeps it: line by line safe to show, bounded; None where there is none."""
    if not text:
        return None
    lines = "\n".join(sanitise(line, TEXT_LIMIT) for line in text[:TEXT_LIMIT].split("\n"))
    return lines if len(text) <= TEXT_LIMIT else f"{lines}… (+{len(text) - TEXT_LIMIT:,} characters)"


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _text(value: object, key: str) -> str:
    """A text as engines send it: a string, or a list of parts with one under `key`, `text` or `thinking`."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else ()
    return "".join(_text(part.get(key), "text") for part in parts if isinstance(part, dict))
