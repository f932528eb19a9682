"""Prompts of an exact length in tokens, counted over the chat template by the engine's own tokenizer.

A prompt is one user message: the nonce first, so that no prefix cache can hold any block of it, then varied text, then
a question. One small call learns what each piece of the text costs; the sum of the pieces then predicts the length of
any text, so that even a very long prompt takes two or three calls.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from anvil_tui.engines.endpoint import TokenCount
from anvil_tui.probes.prose import fillers, lexicon, sentences, topics
from anvil_tui.records.request import Sizing, SizingAttempt

CALLS = 8
"""Counting calls at most; with token texts from the engine it takes two or three."""
CALIBRATED_SHARE = 0.005
CALIBRATED_FLOOR = 16
"""Tolerance of a calibrated length: half a per cent, at least 16 tokens."""

_GUESS = 4.4
_FILLER = " the"
_FILLERS = 64
_RESERVE = 4.0
_SAMPLE_TOKENS = (1024, 4096)

Count = Callable[[str, bool], Awaitable[TokenCount]]
"""Counts the tokens of one user message over the chat template; true asks for the tokens' texts too."""


class Frame(Struct, frozen=True, kw_only=True):
    """What stands around the text: the nonce before it, the question after it, a needle within."""

    nonce: str
    question: str
    needle: str | None = None
    depth: float = 0.5
    """Where the needle stands, from 0 (start) to 1 (end)."""

    def around(self, pieces: Sequence[str]) -> str:
        """The whole message. The needle is a sentence of its own, at the sentence end nearest after its depth."""
        head = f"Record {self.nonce}."
        if self.needle is None:
            return "".join((head, *pieces, "\n\n", self.question))
        ends = [index + 1 for index, piece in enumerate(pieces) if piece == "."]
        wanted = self.depth * len(pieces)
        at = 0 if not ends or self.depth <= 0 else next((end for end in ends if end >= wanted), ends[-1])
        return "".join((head, *pieces[:at], " ", self.needle, *pieces[at:], "\n\n", self.question))


class Prompt(Struct, frozen=True, kw_only=True):
    """A message and how it got its length; no message where it could not get it."""

    message: str | None
    sizing: Sizing


def topic_question(nonce: str) -> str:
    """A question that has the model write a few sentences about the text."""
    first, second = topics(nonce)
    return f"What does the text above say about the {first} and the {second}? Answer in a few sentences."


def needle_code(nonce: str) -> str:
    """The code that a needle hides."""
    rng = random.Random(f"{nonce}/needle")
    return f"{rng.randint(1000, 9999)}-{rng.randint(1000, 9999)}"


def needle_frame(nonce: str, depth: float) -> Frame:
    """A frame that hides a code at `depth` and asks for it."""
    return Frame(
        nonce=nonce,
        question="What is the access code of the archive? Answer with the code only.",
        needle=f"The access code of the archive is {needle_code(nonce)}.",
        depth=depth,
    )


def needle_found(answer: str, code: str) -> bool:
    """Whether the visible answer holds the code; blanks and dashes do not count."""
    bare = str.maketrans("", "", " -\u2010\u2011\u2013\t\n")
    return code.translate(bare) in answer.translate(bare)


async def size_exactly(frame: Frame, target_tokens: int, count: Count) -> Prompt:
    """A message of exactly `target_tokens` by `count`. Raises EndpointError where counting fails.

    Where the exact length cannot be reached within CALLS calls, the prompt has no message and its sizing an error.
    """
    sample = list(lexicon())
    message = frame.around(sample)
    answer = await count(message, True)
    attempts = [SizingAttempt(characters=len(message), tokens=answer.count)]
    costs = piece_costs(answer.token_strs, message, sample)
    if costs is None:
        longer = frame.around([*sample, *[_FILLER] * _FILLERS])
        more = (await count(longer, False)).count
        attempts.append(SizingAttempt(characters=len(longer), tokens=more))
        costs = _by_length(answer.count / len(message), filler=(more - answer.count) / _FILLERS)
    budget = target_tokens - (answer.count - sum(costs[piece] for piece in sample))
    floor = math.ceil(target_tokens - budget)
    counted = None
    while budget >= 0 and len(attempts) < CALLS:
        message = frame.around(compose(frame.nonce, costs, budget))
        counted = (await count(message, False)).count
        attempts.append(SizingAttempt(characters=len(message), tokens=counted))
        if counted == target_tokens:
            break
        budget += target_tokens - counted
    error = None
    if counted is None:
        error = f"the template and the question alone take about {floor:,} of {target_tokens:,} tokens"
    elif counted != target_tokens:
        error = f"{counted:,} tokens instead of {target_tokens:,} after {len(attempts)} calls"
    return Prompt(
        message=message if error is None else None,
        sizing=Sizing(
            target_tokens=target_tokens,
            counted_tokens=counted,
            method="tokenizer",
            tolerance=0,
            attempts=tuple(attempts),
            error=error,
        ),
    )


async def size_by_calibration(frame: Frame, target_tokens: int, count: Count) -> Prompt:
    """A message of about `target_tokens`, for engines without a tokenizer endpoint: two short texts give the rate.

    `count` sends a text and reads the prompt tokens of its usage. The samples carry other nonces than the prompt.
    Whoever sends the prompt holds its usage against `tolerance`. Raises EndpointError where counting fails.
    """
    attempts: list[SizingAttempt] = []
    for number, tokens in enumerate(_SAMPLE_TOKENS):
        nonce = f"{frame.nonce}-{number}"
        sample = Frame(nonce=nonce, question=frame.question, needle=frame.needle, depth=frame.depth)
        size = min(tokens, target_tokens // 2) if number == 0 else min(tokens, target_tokens)
        message = sample.around(compose(nonce, _by_length(1 / _GUESS), size))
        attempts.append(SizingAttempt(characters=len(message), tokens=(await count(message, False)).count))
    first, second = attempts
    rate = (second.tokens - first.tokens) / max(1, second.characters - first.characters)
    fixed = len(frame.around(()))
    budget = target_tokens - (second.tokens - rate * (second.characters - fixed))
    error = None
    if rate <= 0:
        error = "more text did not make more tokens; this endpoint's usage cannot be used to size a prompt"
    elif budget < 0:
        error = f"the template and the question alone take more than {target_tokens:,} tokens"
    return Prompt(
        message=None if error else frame.around(compose(frame.nonce, _by_length(rate), budget)),
        sizing=Sizing(
            target_tokens=target_tokens,
            counted_tokens=None,
            method="calibrated",
            tolerance=max(CALIBRATED_FLOOR, math.ceil(CALIBRATED_SHARE * target_tokens)),
            attempts=tuple(attempts),
            error=error,
        ),
    )


def compose(seed: str, costs: Mapping[str, float], budget: float) -> list[str]:
    """Pieces of the text of `seed` that cost `budget` tokens: whole sentences, then short words that fill the rest."""
    pieces: list[str] = []
    left = budget
    for sentence in sentences(seed):
        cost = sum(costs[piece] for piece in sentence)
        if cost > left - _RESERVE:
            break
        pieces += sentence
        left -= cost
    singles = [word for word in fillers() if costs[word] == 1] or [_FILLER]
    rng = random.Random(f"{seed}/fill")
    while left >= min(1.0, costs[_FILLER]) / 2:
        word = rng.choice(singles)
        pieces.append(word)
        left -= costs[word]
    return pieces


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
        super().__init__(None, {_FILLER: filler})
        self._rate = rate

    def __missing__(self, piece: str) -> float:
        self[piece] = self._rate * len(piece)
        return self[piece]


def _by_length(rate: float, filler: float = 1.0) -> Mapping[str, float]:
    """Costs where only a rate in tokens a character is known, and the cost of one short word."""
    return _ByLength(rate, filler)


def _plain(token: str) -> str:
    if token.startswith("<0x") and token.endswith(">") and len(token) == 6:
        return chr(int(token[3:5], 16))
    return token.replace("\u0120", " ").replace("\u010a", "\n").replace("\u2581", " ")
