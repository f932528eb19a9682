"""What a prompt is: one user message with the nonce first, so that no prefix cache can hold any block of it, then
varied text, then a question."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from msgspec import Struct

from anvil_tui.probes.prompts.prose import FILLER, fillers, sentences, topics
from anvil_tui.records.request import Sizing

_RESERVE = 4.0
_BARE = str.maketrans("", "", " -\u2010\u2011\u2013\t\n")


class Shared(Struct, frozen=True, kw_only=True):
    """Text that several prompts have in common, of about `tokens`; it stands before each one's own."""

    seed: str
    tokens: int


class Frame(Struct, frozen=True, kw_only=True):
    """What stands around the text: the nonce before it, the question after it, a needle within."""

    nonce: str
    question: str
    seed: str
    """Of the prompt's own text."""
    shared: Shared | None = None
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

    def text(self, costs: Mapping[str, float], budget: float) -> tuple[list[str], int]:
        """Sentences that cost a little less than `budget` by the costs of their pieces, and the tokens left to fill."""
        if self.shared is None:
            return compose(self.seed, costs, budget)
        common, left = compose(self.shared.seed, costs, min(self.shared.tokens, budget))
        common += fill(self.shared.seed, costs, left)
        own, left = compose(self.seed, costs, budget - sum(costs[piece] for piece in common))
        return [*common, *own], left

    def message(self, pieces: Sequence[str], costs: Mapping[str, float], left: int) -> str:
        """The whole message: `pieces`, then short words that fill `left` tokens."""
        return self.around([*pieces, *fill(self.seed, costs, left)])


class Prompt(Struct, frozen=True, kw_only=True):
    """A message and how it got its length; no message where it could not get it."""

    message: str | None
    sizing: Sizing


def topic_frame(nonce: str, *, shared: Shared | None = None, request_index: int | None = None) -> Frame:
    """A frame that has the model write a few sentences about the text.

    With `shared`, the nonce and the text's beginning are those of the whole run, and the request's number tells the
    questions apart.
    """
    seed = nonce if request_index is None else f"{nonce}/{request_index}"
    first, second = topics(seed)
    question = f"What does the text above say about the {first} and the {second}? Answer in a few sentences."
    if shared is not None:
        question = f"Request {request_index}. {question}"
    return Frame(nonce=nonce, question=question, seed=seed, shared=shared)


def needle_frame(nonce: str, depth: float) -> Frame:
    """A frame that hides a code at `depth` and asks for it."""
    return Frame(
        nonce=nonce,
        question="What is the access code of the archive? Answer with the code only.",
        seed=nonce,
        needle=f"The access code of the archive is {needle_code(nonce)}.",
        depth=depth,
    )


def needle_code(nonce: str) -> str:
    """The code that a needle hides."""
    rng = random.Random(f"{nonce}/needle")
    return f"{rng.randint(1000, 9999)}-{rng.randint(1000, 9999)}"


def needle_found(answer: str, code: str) -> bool:
    """Whether the visible answer holds the code; blanks and dashes do not count."""
    return code.translate(_BARE) in answer.translate(_BARE)


def compose(seed: str, costs: Mapping[str, float], budget: float) -> tuple[list[str], int]:
    """Whole sentences of the text of `seed` that cost less than `budget` tokens together, and what is left of it."""
    pieces: list[str] = []
    left = budget
    for sentence in sentences(seed):
        cost = sum(costs[piece] for piece in sentence)
        if cost > left - _RESERVE:
            break
        pieces += sentence
        left -= cost
    return pieces, max(0, round(left))


def fill(seed: str, costs: Mapping[str, float], tokens: int) -> list[str]:
    """Short words that cost `tokens` together, or as close below as their costs allow."""
    words = [word for word in fillers() if costs[word] >= 1 and costs[word].is_integer()]
    if not words:
        return [FILLER] * round(tokens / costs[FILLER])
    reachable = {0}
    for total in range(1, tokens + 1):
        if any(total - costs[word] in reachable for word in words):
            reachable.add(total)
    rng = random.Random(f"{seed}/fill")
    left = max(total for total in reachable if total <= max(tokens, 0))
    chosen: list[str] = []
    while left:
        word = rng.choice([word for word in words if left - costs[word] in reachable])
        chosen.append(word)
        left -= int(costs[word])
    return chosen
