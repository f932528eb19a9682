"""Exact prompts against tokenizers of several kinds, none of which the sizing knows."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.engines.endpoint import EndpointError, TokenCount
from anvil_tui.probes.client.answer import loops
from anvil_tui.probes.prompts.prompt import Prompt, Shared, needle_code, needle_found, needle_frame, topic_frame
from anvil_tui.probes.prompts.prose import sentences, specimen
from anvil_tui.probes.prompts.sizing import CALLS, Sizer, size_by_calibration, size_exactly

Tokenizer = Callable[[str], list[str]]


def bpe(text: str) -> list[str]:
    """Words in pieces of four letters, digits one by one, a full stop and a paragraph break merged."""
    return re.findall(r"\.\n\n| ?[A-Za-z]{1,4}|\d|\n+|.", text)


def coarse(text: str) -> list[str]:
    """Whole words, three digits at a time."""
    return re.findall(r" ?[A-Za-z]+| ?\d{1,3}|\n|.", text)


def characters(text: str) -> list[str]:
    return list(text)


def spelt(tokens: list[str], how: str) -> list[str]:
    table = {"gpt": {" ": "\u0120", "\n": "\u010a"}, "sentencepiece": {" ": "\u2581", "\n": "<0x0A>"}}[how]
    return ["".join(table.get(one, one) for one in token) for token in tokens]


class Engine:
    """Counts as an engine does, over a template of its own, and remembers what it was asked."""

    def __init__(self, tokenizer: Tokenizer, how: str | None = "gpt", around: int = 11) -> None:
        self.tokenizer, self.how, self.around = tokenizer, how, around
        self.messages: list[str] = []

    async def count(self, message: str, token_strs: bool) -> TokenCount:
        self.messages.append(message)
        tokens = self.tokenizer(message)
        texts = None
        if token_strs and self.how is not None:
            texts = tuple(["<|user|>"] * (self.around - 1) + spelt(tokens, self.how) + ["<|assistant|>"])
        return TokenCount(count=len(tokens) + self.around, token_strs=texts)


@pytest.mark.parametrize(
    ("tokenizer", "how"),
    [
        (bpe, "gpt"),
        (bpe, "sentencepiece"),
        (bpe, None),
        (coarse, "gpt"),
        (coarse, None),
        (characters, "gpt"),
        (characters, "sentencepiece"),
    ],
)
@pytest.mark.parametrize("target", [200, 2_000, 17_501, 60_000])
def test_exact(tokenizer: Tokenizer, how: str | None, target: int) -> None:
    engine = Engine(tokenizer, how)
    prompt, _ = asyncio.run(size_exactly(topic_frame("7f3a"), target, engine.count))
    assert prompt.sizing.error is None
    assert prompt.sizing.counted_tokens == target
    assert prompt.sizing.tolerance == 0
    assert len(prompt.sizing.attempts) == len(engine.messages) <= (4 if how else CALLS)
    assert prompt.message is not None
    assert len(tokenizer(prompt.message)) + engine.around == target


def test_a_million_tokens_take_four_calls_at_most() -> None:
    engine = Engine(coarse)
    prompt, _ = asyncio.run(size_exactly(topic_frame("long"), 1_000_000, engine.count))
    assert prompt.sizing.counted_tokens == 1_000_000
    assert len(engine.messages) <= 4
    assert len(engine.messages[0]) < 20_000


@settings(max_examples=25, deadline=None)
@given(st.text("0123456789abcdef", min_size=1, max_size=32), st.integers(150, 3000))
def test_any_nonce_and_target(nonce: str, target: int) -> None:
    prompt, _ = asyncio.run(size_exactly(topic_frame(nonce), target, Engine(bpe).count))
    assert prompt.sizing.counted_tokens == target


def test_a_target_below_the_template_is_said() -> None:
    prompt, _ = asyncio.run(size_exactly(topic_frame("x"), 12, Engine(bpe).count))
    assert prompt.message is None
    assert prompt.sizing.error is not None
    assert "of 12 tokens" in prompt.sizing.error


def test_a_length_that_cannot_be_hit_fails_closed() -> None:
    """A tokenizer of single characters that does not show its tokens: no word costs one."""
    prompt, _ = asyncio.run(size_exactly(topic_frame("7f3a"), 2000, Engine(characters, None).count))
    assert prompt.message is None
    assert prompt.sizing.error is not None
    assert prompt.sizing.counted_tokens != 2000
    assert len(prompt.sizing.attempts) == CALLS


def test_the_nonce_comes_first_and_the_text_does_not_repeat() -> None:
    prompt, _ = asyncio.run(size_exactly(topic_frame("a-nonce"), 20_000, Engine(bpe).count))
    again, _ = asyncio.run(size_exactly(topic_frame("a-nonce"), 20_000, Engine(bpe).count))
    other, _ = asyncio.run(size_exactly(topic_frame("another"), 20_000, Engine(bpe).count))
    assert prompt.message == again.message
    assert prompt.message is not None
    assert other.message is not None
    assert prompt.message.startswith("Record a-nonce.")
    lines = [line for line in prompt.message.split(".") if len(line) > 20]
    assert len(set(lines)) > 0.99 * len(lines)
    assert len(set(lines) & set(other.message.split("."))) < 0.02 * len(lines)
    assert not loops(prompt.message)


def test_every_piece_of_the_text_is_in_the_specimen() -> None:
    known = set(specimen())
    for _, sentence in zip(range(3000), sentences("x"), strict=False):
        assert set(sentence) <= known


@pytest.mark.parametrize("depth", [0.0, 0.25, 0.58, 1.0])
def test_needles(depth: float) -> None:
    frame = needle_frame("nonce", depth)
    prompt, _ = asyncio.run(size_exactly(frame, 5000, Engine(bpe).count))
    assert prompt.sizing.counted_tokens == 5000
    assert prompt.message is not None
    code = needle_code("nonce")
    assert prompt.message.count(code) == 1
    assert prompt.message.index(code) / len(prompt.message) == pytest.approx(depth, abs=0.05)
    assert needle_found(f"It is {code}.", code)
    assert needle_found(code.replace("-", " \u2011 "), code)
    assert not needle_found("It is 1234-0000.", code)
    assert not needle_found("", code)


def test_a_shared_prefix_is_shared_and_the_rest_is_not() -> None:
    shared = Shared(seed="run", tokens=1500)
    engine = Engine(bpe)
    prompts = []
    for index in (0, 1):
        frame = topic_frame("run", shared=shared, request_index=index)
        prompt, _ = asyncio.run(size_exactly(frame, 2000, engine.count))
        assert prompt.sizing.counted_tokens == 2000
        assert prompt.message is not None
        prompts.append(prompt.message)
    same = next(at for at, (left, right) in enumerate(zip(*prompts, strict=False)) if left != right)
    assert 1400 < len(bpe(prompts[0][:same])) < 1700


def test_what_was_learnt_is_used_again() -> None:
    engine = Engine(bpe)
    sizer = Sizer(engine.count, engine.count)

    async def both() -> tuple[Prompt, Prompt]:
        return await sizer.size(topic_frame("one"), 4000), await sizer.size(topic_frame("two"), 4000)

    first, second = asyncio.run(both())
    assert first.sizing.counted_tokens == second.sizing.counted_tokens == 4000
    assert len(second.sizing.attempts) <= len(first.sizing.attempts)
    assert all(attempt.characters > 10_000 for attempt in second.sizing.attempts)


@pytest.mark.parametrize("tokenizer", [bpe, coarse, characters])
@pytest.mark.parametrize("target", [600, 5_000, 100_000])
def test_calibrated(tokenizer: Tokenizer, target: int) -> None:
    engine = Engine(tokenizer)

    async def missing(message: str, token_strs: bool) -> TokenCount:
        raise EndpointError("POST /tokenize: HTTP 404", status=404)

    prompt = asyncio.run(Sizer(missing, engine.count).size(topic_frame("n"), target))
    assert prompt.sizing.method == "calibrated"
    assert prompt.sizing.counted_tokens is None
    assert len(prompt.sizing.attempts) <= 3
    assert prompt.message is not None
    actual = len(tokenizer(prompt.message)) + engine.around
    assert abs(actual - target) <= prompt.sizing.tolerance
    assert all("Record n-" in message for message in engine.messages)


def test_an_endpoint_that_fails_is_not_calibrated() -> None:
    async def down(message: str, token_strs: bool) -> TokenCount:
        raise EndpointError("POST /tokenize: no answer within 120 s")

    with pytest.raises(EndpointError, match="no answer"):
        asyncio.run(Sizer(down, down).size(topic_frame("n"), 1000))


def test_a_usage_that_does_not_grow_is_refused() -> None:
    async def constant(message: str, token_strs: bool) -> TokenCount:
        return TokenCount(count=7)

    with pytest.raises(EndpointError, match="did not make more tokens"):
        asyncio.run(size_by_calibration(topic_frame("n"), 1000, constant))
