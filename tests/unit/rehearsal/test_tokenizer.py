"""The tokenizer loses nothing, counts additively and is fast on a million tokens."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.rehearsal.tokenizer import SPECIAL, apply_chat_template, decode, encode, message_text, split

TEXTS = st.one_of(
    st.text(max_size=200), st.lists(st.sampled_from([*SPECIAL, "<|x|>", " ab", "12", "\n  ", "_z"])).map("".join)
)


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_ids_turn_back_into_the_text(text: str) -> None:
    assert "".join(split(text)) == text
    ids = encode(text)
    assert decode(ids) == text
    assert all(0 <= number < 2**53 for number in ids)


@pytest.mark.parametrize("number", [-1, 8, 255, (1 << 24), (1 << 24) + 5, 2**60])
def test_a_number_that_is_no_token_is_refused(number: int) -> None:
    with pytest.raises(ValueError, match="out of vocabulary"):
        decode([number])


def test_special_tokens_are_one_token_each() -> None:
    assert [split(name) for name in SPECIAL] == [[name] for name in SPECIAL]
    assert encode("<|user|>")[0] < 256


def test_the_chat_template_adds_few_tokens() -> None:
    text = apply_chat_template([{"role": "user", "content": "hello there"}])
    assert text == "<|begin|><|user|>hello there<|end|><|assistant|>"
    assert len(split(text)) == len(split("hello there")) + 4
    assert len(split(apply_chat_template([{"role": "user", "content": "x"}], [{"name": "f"}]))) > 5


def test_content_parts_are_joined() -> None:
    assert message_text({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}) == "ab"
    assert message_text({"content": None}) == ""


def test_a_word_more_is_a_token_more() -> None:
    base = len(split("alpha"))
    assert [len(split("alpha" + " one" * extra)) - base for extra in range(5)] == list(range(5))


def test_a_long_text_costs_less_than_a_second_of_cpu() -> None:
    text = "The quick brown fox jumps over the lazy dog near 12 hills.\n" * 70_000
    began = time.process_time()
    tokens = len(split(text))
    assert len(text) > 4_000_000
    assert tokens > 900_000
    assert time.process_time() - began < 1.0
