"""What the simulated engine says: found by looking at the prompt, the same for the same prompt and seed.

It does what a capable model would do with the checks of a functional gate and with plain long prompts; nothing else is
understood, and whatever is not understood is answered with filler of the natural length.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from anvil_tui.rehearsal.tokenizer import message_text, split

Channel = Literal["reasoning", "content", "name", "arguments"]

EFFORT = {"none": 0.0, "minimal": 0.25, "low": 0.5, "medium": 0.75, "high": 1.0, "xhigh": 1.5, "max": 2.0}
"""Reasoning at each effort, as a share of that at `high`."""

_FILLER = (
    "the a one next value function list result step so then we check that it returns each number and adds input output "
    "first last both small simple clear given holds keeps reads writes below above under over"
)
_WORDS = tuple(f" {word}" for word in _FILLER.split())
"""Each is one token, whatever stands beside it."""
_SPREAD = 0.1
"""How far a natural length strays from its figure, as a share of it."""
_INSTRUCTION = 2000
"""Characters at the end of the last message that are read as the instruction."""


class Token(NamedTuple):
    """One token of an answer and where it goes: thought, visible text, or a tool call's name or arguments."""

    channel: Channel
    text: str


@dataclass(frozen=True)
class Ask:
    """What an answer depends on. `reasoning` and `visible` are natural lengths in tokens."""

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]] = ()
    tool_choice: str = "auto"
    """`auto`, `none`, `required`, or the name of a function."""
    schema: Mapping[str, Any] | None = None
    """A JSON schema that the answer must fit; empty for any JSON object."""
    reasoning: int = 100
    visible: int = 30


def answer(ask: Ask, rng: random.Random) -> list[Token]:
    """The tokens of an answer of natural length: reasoning, then visible text or one tool call."""
    thought = [Token("reasoning", word) for word in _filler(_around(ask.reasoning, rng), rng)]
    call = _tool_call(ask)
    if call is not None:
        name, arguments = call
        return [*thought, Token("name", name), *(Token("arguments", piece) for piece in split(json.dumps(arguments)))]
    said = _content(ask)
    pieces = split(said) if said is not None else _filler(max(1, _around(ask.visible, rng)), rng)
    return [*thought, *(Token("content", piece) for piece in pieces)]


def extend(tokens: list[Token], length: int, rng: random.Random) -> list[Token]:
    """The answer stretched to at least `length` tokens with filler, as an engine that may not stop yet."""
    return [*tokens, *(Token("content", word) for word in _filler(length - len(tokens), rng))]


def _around(length: int, rng: random.Random) -> int:
    return round(length * rng.uniform(1 - _SPREAD, 1 + _SPREAD))


def _filler(length: int, rng: random.Random) -> list[str]:
    return rng.choices(_WORDS, k=length) if length > 0 else []


def _content(ask: Ask) -> str | None:
    """The visible answer that the prompt asks for; None where nothing in it is understood."""
    last = _last_user_text(ask.messages)
    instruction = last[-_INSTRUCTION:]
    if ask.schema:
        return json.dumps(_instance(ask.schema, instruction), separators=(",", ":"))
    if ask.schema is not None or re.search(r"(?i)\bjson\b", instruction):
        return json.dumps(dict(_pairs(instruction)) or {"ok": True}, separators=(",", ":"))
    if re.search(r"(?i)(launch|access)[ -]code", instruction) and (code := _hidden_code(ask.messages)) is not None:
        return code
    if (exact := _exact(instruction)) is not None:
        return exact
    if ask.messages and ask.messages[-1].get("role") == "tool":
        return _tool_words(message_text(dict(ask.messages[-1])))
    if re.search(r"(?i)\bsum", instruction) and re.search(r"(?i)python", instruction) and len(last) < _INSTRUCTION:
        return "print(sum(xs))"
    return None


def _last_user_text(messages: Sequence[Mapping[str, Any]]) -> str:
    for message in reversed(messages):
        if message.get("role") == "user":
            return message_text(dict(message))
    return ""


def _exact(instruction: str) -> str | None:
    """`READY` of "Reply with exactly READY", `OAKLAND 72F` of "answer exactly: `OAKLAND 72F` and nothing else"."""
    found = re.search(r"(?i)\bexactly\b[^\"'`\n]{0,40}?[\"'`]([^\"'`\n]+)[\"'`]", instruction)
    if found is None:
        found = re.search(
            r"\b[Ee]xactly\b[:\s]+(?:[a-z]+[:\s]+){0,4}?([A-Z0-9][A-Z0-9°-]+(?: [A-Z0-9°-]+)*)", instruction
        )
    return found.group(1) if found else None


def _hidden_code(messages: Sequence[Mapping[str, Any]]) -> str | None:
    """The code of "the launch code is X" or "the access code of Y is X" anywhere in the conversation."""
    for message in messages:
        text = message_text(dict(message))
        lowered, place = text.lower(), 0
        while (place := lowered.find("code", place)) >= 0:
            line = text[max(0, place - 7) : place + 160]
            if found := re.match(
                r"(?i)(?:launch|access)[ -_]code[^.\n:=]{0,60}?"
                r"(?: is|:|=)\s*[\"'`*]*((?-i:[A-Z0-9])[A-Za-z0-9-]*\d[A-Za-z0-9-]*)",
                line,
            ):
                return found.group(1).rstrip("-")
            place += 1
    return None


def _tool_words(result: str) -> str:
    """A tool's result as a sentence: its values in order."""
    try:
        values = json.loads(result)
    except ValueError:
        return result
    return " ".join(map(str, values.values())) if isinstance(values, dict) else str(values)


def _pairs(instruction: str) -> Iterator[tuple[str, Any]]:
    """Keys and the values that they are asked to have: `language:"python"`, `"ok": true`, `ok set to true`."""
    pattern = (
        r"[\"'`]?\b([A-Za-z_]\w*)\b[\"'`]?"
        r"(?:\s*[:=]\s*|\s+(?:is\s+)?(?:set|equal) to\s+|\s+with the value\s+|\s+is\s+|\s*\()"
        r"[`']?(\"[^\"\n]*\"|'[^'\n]*'|true|false|null|-?\d+(?:\.\d+)?)"
    )
    for key, value in re.findall(pattern, instruction):
        yield key, value[1:-1] if value[0] in "\"'" else json.loads(value)


def _instance(schema: Mapping[str, Any], instruction: str, name: str = "") -> Any:
    """A value that fits a JSON schema, with what the instruction says of its keys."""
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for key, value in _pairs(instruction):
        if key == name:
            return value
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        return {key: _instance(one, instruction, key) for key, one in schema.get("properties", {}).items()}
    if kind == "array":
        return [_instance(schema.get("items", {}), instruction)] * int(schema.get("minItems", 1))
    return {"integer": int(schema.get("minimum", 1)), "number": 1.0, "boolean": True, "null": None}.get(
        str(kind), "text"
    )


def _tool_call(ask: Ask) -> tuple[str, dict[str, Any]] | None:
    """The function to call and its arguments; None where the answer is text."""
    functions = [one.get("function", one) for one in ask.tools]
    if not functions or ask.tool_choice == "none":
        return None
    forced = ask.tool_choice != "auto"
    by_name = {str(one.get("name")): one for one in functions}
    function = by_name.get(ask.tool_choice, functions[0])
    if not forced:
        if any(message.get("role") == "tool" for message in ask.messages):
            return None
        wanted = [one for one in functions if _speaks_of(str(one.get("name")), _last_user_text(ask.messages))]
        if not wanted:
            return None
        function = wanted[0]
    parameters = function.get("parameters") or {}
    instruction = _last_user_text(ask.messages)[-_INSTRUCTION:]
    arguments = {
        key: _argument(key, one, instruction)
        for key, one in parameters.get("properties", {}).items()
        if key in parameters.get("required", parameters.get("properties", {}))
    }
    return str(function.get("name")), arguments


def _speaks_of(name: str, text: str) -> bool:
    """Whether the end of `text` speaks of a function: by its name's words, or of tools at all."""
    words = [word for word in re.split(r"[^A-Za-z]+|(?<=[a-z])(?=[A-Z])", name) if len(word) > 3]
    return any(re.search(rf"(?i)\b{re.escape(word)}", text[-_INSTRUCTION:]) for word in [*words, "tool"])


def _argument(key: str, schema: Mapping[str, Any], instruction: str) -> Any:
    """An argument as the instruction gives it: for text, the proper name that it speaks of."""
    if schema.get("type", "string") != "string" or schema.get("enum") or "const" in schema:
        return _instance(schema, instruction, key)
    name = r"([A-Z][\w.'-]*(?: [A-Z][\w.'-]*)*)"
    found = re.search(rf"\b(?:in|for|of|at|to)\s+{name}", instruction) or re.search(rf"(?<=[a-z,] ){name}", instruction)
    return found.group(1).rstrip(".'-") if found else instruction.strip()[:40] or "unknown"
