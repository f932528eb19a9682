"""Prompts of an exact length in tokens, counted over the chat template by the engine's own tokenizer.

One small call learns what each piece of the text costs; the sum of the pieces then predicts the length of any text, so
that even a very long prompt takes two or three calls.
"""

from __future__ import annotations

import contextlib
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from anvil_tui.engines.endpoint import EndpointClient, EndpointError, TokenCount
from anvil_tui.probes.prompts.prompt import Frame, Prompt
from anvil_tui.probes.prompts.prose import FILLER, specimen
from anvil_tui.records.probe import Target
from anvil_tui.records.request import Sizing, SizingAttempt

CALLS = 8
"""Counting calls at most; with token texts from the engine it takes two or three."""
CALIBRATED_SHARE = 0.005
CALIBRATED_FLOOR = 16
"""Tolerance of a calibrated length: half a per cent, at least 16 tokens."""

_SPELLINGS = {"\u0120": " ", "\u010a": "\n", "\u2581": " ", "<0x0A>": "\n"}
_NO_TOKENIZER = {200, 400, 401, 403, 404, 405, 415, 422, 501}
"""Answers of `/tokenize` that say that this server has none of vLLM's shape."""
_CHARACTERS_A_TOKEN = 4.4
_FILLERS = 64
_REFILL = 64
"""Tokens that short words may fill when a length is corrected; beyond that the sentences are chosen anew."""
_SAMPLE_TOKENS = (1024, 4096, 16384)

Count = Callable[[str, bool], Awaitable[TokenCount]]
"""Counts the tokens of one user message over the chat template; true asks for the tokens' texts too."""


class Costs(Struct, frozen=True, kw_only=True):
    """What is known of a tokenizer: tokens of each piece of text, and of all that stands around the text."""

    pieces: Mapping[str, float]
    around: float


class Sizer:
    """Sizes prompts for one target and remembers what it learnt of its tokenizer."""

    def __init__(self, by_tokenizer: Count, by_usage: Count) -> None:
        self._by_tokenizer = by_tokenizer
        self._by_usage = by_usage
        self._exact: Costs | None = None
        self._calibrated: Costs | None = None

    async def size(self, frame: Frame, target_tokens: int) -> Prompt:
        """A prompt of `target_tokens`: exact by the tokenizer, calibrated where there is none.

        Raises EndpointError where the engine does not answer.
        """
        if self._calibrated is None:
            try:
                prompt, self._exact = await size_exactly(frame, target_tokens, self._by_tokenizer, self._exact)
                return prompt
            except EndpointError as error:
                if self._exact is not None or error.status not in _NO_TOKENIZER:
                    raise
        prompt, self._calibrated = await size_by_calibration(frame, target_tokens, self._by_usage, self._calibrated)
        return prompt


@contextlib.asynccontextmanager
async def sizer(target: Target, reasoning_effort: str | None) -> AsyncIterator[Sizer]:
    """A sizer that asks the endpoint of `target`. Raises CannotRun where its API key is not set."""
    async with EndpointClient(target.base_url, api_key_env=target.api_key_env) as endpoint:

        async def by_tokenizer(message: str, token_strs: bool) -> TokenCount:
            return await endpoint.tokenize(
                target.model,
                [{"role": "user", "content": message}],
                chat_template_kwargs=template_kwargs(reasoning_effort),
                token_strs=token_strs,
            )

        async def by_usage(message: str, _: bool) -> TokenCount:
            messages = [{"role": "user", "content": message}]
            answer = await endpoint.one_token(
                target.model, messages=messages, reasoning_effort=reasoning_effort, timeout_s=300.0
            )
            if answer.prompt_tokens is None:
                raise EndpointError("neither a tokenizer endpoint nor a usage: no prompt can be sized here")
            return TokenCount(count=answer.prompt_tokens)

        yield Sizer(by_tokenizer, by_usage)


def template_kwargs(reasoning_effort: str | None) -> Mapping[str, Any] | None:
    """What vLLM hands its chat template for a reasoning effort, so that the tokenizer endpoint counts the same."""
    if reasoning_effort is None:
        return None
    return {"reasoning_effort": reasoning_effort, "enable_thinking": reasoning_effort != "none"}


async def size_exactly(
    frame: Frame, target_tokens: int, count: Count, known: Costs | None = None
) -> tuple[Prompt, Costs]:
    """A message of exactly `target_tokens` by `count`, and what was learnt. Raises EndpointError where counting fails.

    Where the exact length cannot be reached within CALLS calls, the prompt has no message and its sizing an error.
    """
    attempts: list[SizingAttempt] = []

    async def counted(message: str, token_strs: bool = False) -> TokenCount:
        answer = await count(message, token_strs)
        attempts.append(SizingAttempt(characters=len(message), tokens=answer.count))
        return answer

    costs = known or await _learn(frame, counted)
    message, tokens = "", None
    pieces, left = frame.text(costs.pieces, target_tokens - costs.around)
    while target_tokens >= costs.around and len(attempts) < CALLS:
        message = frame.message(pieces, costs.pieces, left)
        tokens = (await counted(message)).count
        off = target_tokens - tokens
        if off == 0:
            break
        costs = replace(costs, around=costs.around - off)
        if 0 <= left + off <= _REFILL:
            left += off
        else:
            pieces, left = frame.text(costs.pieces, target_tokens - costs.around)
    error = None
    if tokens is None:
        error = f"the template and the question alone take about {costs.around:,.0f} of {target_tokens:,} tokens"
    elif tokens != target_tokens:
        error = f"{tokens:,} tokens instead of {target_tokens:,} after {len(attempts)} calls"
    sizing = Sizing(
        target_tokens=target_tokens,
        counted_tokens=tokens,
        method="tokenizer",
        tolerance=0,
        attempts=tuple(attempts),
        error=error,
    )
    return Prompt(message=message if error is None else None, sizing=sizing), costs


async def _learn(frame: Frame, counted: Callable[[str, bool], Awaitable[TokenCount]]) -> Costs:
    """Costs from one text that holds every piece; without the tokens' texts a second one tells a short word's."""
    sample = specimen()
    message = frame.around(sample)
    answer = await counted(message, True)
    costs = piece_costs(answer.token_strs, message, sample)
    if costs is None:
        more = await counted(frame.around([*sample, *[FILLER] * _FILLERS]), False)
        costs = _by_length(answer.count / len(message), filler=(more.count - answer.count) / _FILLERS)
    return Costs(pieces=costs, around=answer.count - sum(costs[piece] for piece in sample))


async def size_by_calibration(
    frame: Frame, target_tokens: int, count: Count, known: Costs | None = None
) -> tuple[Prompt, Costs]:
    """A message of about `target_tokens`, for engines without a tokenizer endpoint: a few short texts give the rate.

    `count` sends a text and reads the prompt tokens of its usage. The samples carry other nonces than the prompt.
    Whoever sends the prompt holds its usage against `tolerance`. Raises EndpointError where counting fails.
    """
    attempts: list[SizingAttempt] = []
    costs = known
    if costs is None:
        guess = _by_length(1 / _CHARACTERS_A_TOKEN)
        for number, tokens in enumerate(_sample_sizes(target_tokens)):
            sample = replace(frame, nonce=f"{frame.nonce}-{number}", seed=f"{frame.seed}-{number}")
            message = sample.message(*_filled(sample, guess, tokens))
            attempts.append(SizingAttempt(characters=len(message), tokens=(await count(message, False)).count))
        first, last = attempts[0], attempts[-1]
        rate = (last.tokens - first.tokens) / max(1, last.characters - first.characters)
        around = last.tokens - rate * (last.characters - len(frame.around(())))
        costs = Costs(pieces=_by_length(rate, filler=rate * len(FILLER)), around=around)
        if rate <= 0:
            raise EndpointError("more text did not make more tokens: this usage cannot be used to size a prompt")
    error = None
    if target_tokens < costs.around:
        error = f"the template and the question alone take about {costs.around:,.0f} of {target_tokens:,} tokens"
    sizing = Sizing(
        target_tokens=target_tokens,
        counted_tokens=None,
        method="calibrated",
        tolerance=max(CALIBRATED_FLOOR, math.ceil(CALIBRATED_SHARE * target_tokens)),
        attempts=tuple(attempts),
        error=error,
    )
    if error is not None:
        return Prompt(message=None, sizing=sizing), costs
    message = frame.message(*_filled(frame, costs.pieces, target_tokens - costs.around))
    return Prompt(message=message, sizing=sizing), costs


def _filled(frame: Frame, costs: Mapping[str, float], budget: float) -> tuple[list[str], Mapping[str, float], int]:
    pieces, left = frame.text(costs, budget)
    return pieces, costs, left


def _sample_sizes(target_tokens: int) -> list[int]:
    """Two sizes or more, none above the target."""
    sizes = [size for size in _SAMPLE_TOKENS if size <= target_tokens]
    return sizes if len(sizes) > 1 else [target_tokens // 2, target_tokens]


def piece_costs(token_strs: Sequence[str] | None, message: str, pieces: Sequence[str]) -> Mapping[str, float] | None:
    """Tokens that begin in each of `pieces`, which stand one after another in `message`.

    Token texts are aligned with the message by their characters, in the spellings of byte-level BPE (Ġ, Ċ) and of
    SentencePiece (▁). None where the engine gave no texts, or texts that do not add up to the message.
    """
    if token_strs is None:
        return None
    shown = [_plain(token) for token in token_strs]
    text = "".join(pieces)
    start = "".join(shown).find(text)
    if start < 0 or text not in message:
        return None
    begins = [0] * (len(text) + 1)
    for offset in accumulate((len(token) for token in shown), initial=0):
        if start <= offset < start + len(text):
            begins[offset - start] += 1
    found: dict[str, float] = {}
    at = 0
    for piece in pieces:
        found[piece] = float(sum(begins[at : at + len(piece)]))
        at += len(piece)
    return found


class _ByLength(defaultdict[str, float]):
    def __init__(self, rate: float, filler: float) -> None:
        super().__init__(None, {FILLER: filler})
        self._rate = rate

    def __missing__(self, piece: str) -> float:
        self[piece] = self._rate * len(piece)
        return self[piece]


def _by_length(rate: float, filler: float = 1.0) -> Mapping[str, float]:
    """Costs where only a rate in tokens a character is known, and the cost of one short word."""
    return _ByLength(rate, filler)


def _plain(token: str) -> str:
    for spelt, plain in _SPELLINGS.items():
        token = token.replace(spelt, plain)
    return token
