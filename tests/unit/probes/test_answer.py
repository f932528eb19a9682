from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.probes.client.answer import TEXT_LIMIT, Answer, kept, loops
from anvil_tui.probes.prompts.prose import sentences


def test_tool_calls_are_joined_by_index() -> None:
    answer = Answer()
    for delta in (
        {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "two", "arguments": ""}}]},
        {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "one", "arguments": '{"x"'}}]},
        {
            "tool_calls": [
                {"index": 0, "function": {"arguments": ": 1}"}},
                {"index": 1, "function": {"arguments": "[1]"}},
            ]
        },
        {"tool_calls": [None, 3, {"function": None}]},
    ):
        answer.add(delta)
    one, two = answer.tool_calls
    assert (one.id, one.name, one.parsed()) == ("a", "one", {"x": 1})
    assert (two.name, two.parsed()) == ("two", None)


@pytest.mark.parametrize(
    ("delta", "channels"),
    [
        ({"content": ""}, set()),
        ({"content": None, "role": "assistant"}, set()),
        (None, set()),
        ({"content": " "}, {"content"}),
        ({"reasoning": "a"}, {"reasoning"}),
        ({"reasoning_content": "a"}, {"reasoning"}),
        ({"reasoning": "", "reasoning_content": "a"}, {"reasoning"}),
        ({"refusal": "no"}, {"refusal"}),
        ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}, {"reasoning"}),
        ({"content": 3, "reasoning": [], "tool_calls": {}}, set()),
    ],
)
def test_channels(delta: object, channels: set[str]) -> None:
    assert Answer().add(delta) == channels


def test_a_refusal_is_visible() -> None:
    answer = Answer()
    answer.add({"refusal": "I will not."})
    assert answer.content == "I will not."


@pytest.mark.parametrize(
    ("text", "looping"),
    [
        ("the cat sat on the mat. " * 20, True),
        ("start of it. " + "ab" * 200, True),
        ("x" * 300, True),
        ("the cat sat on the mat. " * 5, False),
        (" " * 500, False),
        ("", False),
        ("".join(str(n) for n in range(400)), False),
    ],
)
def test_loops(text: str, looping: bool) -> None:
    assert loops(text) is looping


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(4, 400))
def test_any_cycle_is_found_and_prose_is_none(seed: int, period: int) -> None:
    prose = "".join(piece for _, sentence in zip(range(60), sentences(str(seed)), strict=False) for piece in sentence)
    assert not loops(prose)
    cycle = "".join(random.Random(seed).choices("abcdefgh ", k=period))
    assert loops(prose + cycle * max(4, 300 // period + 1))


def test_kept_text_is_safe_and_bounded() -> None:
    assert kept("") is None
    assert kept("a\nb\x1b[31mc") == "a\nbc"
    long = kept("x" * (TEXT_LIMIT + 5))
    assert long is not None
    assert long.endswith("… (+5 characters)")
