"""Answers: what a functional gate asks, and natural lengths that follow from the prompt."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from anvil_tui.rehearsal.answers import Ask, Token, answer, extend

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
USER = "user"


def said(tokens: list[Token], channel: str = "content") -> str:
    return "".join(token.text for token in tokens if token.channel == channel)


def reply(*messages: dict[str, Any], **given: Any) -> list[Token]:
    return answer(Ask(messages=messages, **given), random.Random(1))


def ask(text: str, **given: Any) -> list[Token]:
    return reply({"role": USER, "content": text}, **given)


@pytest.mark.parametrize(
    "text",
    [
        "Write a Python one-liner that sums the list xs. Code only.",
        "In Python, give one expression for the sum of all numbers in the list `xs`.",
    ],
)
def test_smoke(text: str) -> None:
    assert "sum(" in said(ask(text))


@pytest.mark.parametrize(
    "text",
    [
        'Return only a JSON object with language:"python" and ok:true.',
        'Return only this JSON and nothing else: {"language": "python", "ok": true}',
        'Reply with a JSON object whose key "language" is set to "python" and whose key "ok" is set to true.',
    ],
)
def test_json(text: str) -> None:
    assert json.loads(said(ask(text))) == {"language": "python", "ok": True}


def test_json_by_schema() -> None:
    schema = {
        "type": "object",
        "properties": {
            "language": {"type": "string", "enum": ["python"]},
            "ok": {"type": "boolean"},
            "lines": {"type": "array", "items": {"type": "integer"}, "minItems": 2},
        },
    }
    assert json.loads(said(ask("Fill it in.", schema=schema))) == {"language": "python", "ok": True, "lines": [1, 1]}


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("The launch code is ZX-4471-Q.", "ZX-4471-Q"),
        ("Secret launch code for tonight: ORCHID-7719-DELTA", "ORCHID-7719-DELTA"),
        ("LAUNCH CODE = `9F3A17`", "9F3A17"),
    ],
)
def test_needle(line: str, code: str) -> None:
    hay = "Engineers measure what they say and say what they measure. " * 2000
    place = int(len(hay) * 0.58)
    prompt = f"{hay[:place]}\n{line}\n{hay[place:]}\nWhat is the launch code? Answer with the code only."
    assert said(ask(prompt)) == code


@pytest.mark.parametrize(
    ("text", "city"),
    [
        ("What is the weather in Oakland? Use the tool.", "Oakland"),
        ("What's the weather like in San Francisco right now?", "San Francisco"),
        ("Please get the Oakland weather, use the tool", "Oakland"),
    ],
)
def test_tools(text: str, city: str) -> None:
    tokens = ask(text, tools=[WEATHER])
    assert said(tokens, "name") == "get_weather"
    assert json.loads(said(tokens, "arguments")) == {"city": city}
    assert said(tokens) == ""


def test_a_tool_is_called_only_where_it_is_wanted() -> None:
    assert said(ask("Tell me a joke.", tools=[WEATHER]), "name") == ""
    assert said(ask("What is the weather in Oakland?", tools=[WEATHER], tool_choice="none"), "name") == ""
    assert said(ask("Tell me a joke.", tools=[WEATHER], tool_choice="required"), "name") == "get_weather"
    assert said(ask("Tell me a joke.", tools=[WEATHER], tool_choice="get_weather"), "name") == "get_weather"


@pytest.mark.parametrize(
    "last", ["Reply with exactly `OAKLAND 72F`.", "Now answer with exactly OAKLAND 72F and nothing else"]
)
def test_tool_result(last: str) -> None:
    call = {"function": {"name": "get_weather", "arguments": '{"city":"Oakland"}'}}
    talk = (
        {"role": USER, "content": "What is the weather in Oakland? Use the tool."},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": '{"city":"Oakland","temperature":"72F","sky":"sunny"}'},
    )
    assert said(reply(*talk, {"role": USER, "content": last}, tools=[WEATHER])) == "OAKLAND 72F"
    words = said(reply(*talk, tools=[WEATHER])).lower()
    assert "oakland" in words
    assert "72f" in words


@pytest.mark.parametrize(
    "text", ["Reply with exactly READY", "Reply with exactly: READY.", 'Say exactly "READY", no more.']
)
def test_responses(text: str) -> None:
    assert said(ask(text)) == "READY"


def test_the_same_prompt_and_seed_give_the_same_answer_and_lengths_vary_a_little() -> None:
    asked = Ask(messages=[{"role": USER, "content": "Summarise."}], reasoning=100, visible=40)
    assert answer(asked, random.Random(5)) == answer(asked, random.Random(5))
    lengths = {len(answer(asked, random.Random(seed))) for seed in range(40)}
    assert len(lengths) > 5
    assert 126 <= min(lengths) <= max(lengths) <= 154


def test_no_reasoning_where_none_is_asked() -> None:
    tokens = ask("Summarise.", reasoning=0)
    assert {token.channel for token in tokens} == {"content"}


def test_an_answer_that_may_not_stop_is_stretched() -> None:
    assert len(extend(ask("Reply with exactly READY", reasoning=3), 500, random.Random(1))) == 500
