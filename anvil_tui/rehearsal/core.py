"""The simulated engine core: admission, prefix cache and a schedule of due times that never drifts.

Prefills run one after the other, each at the full prefill rate; every running sequence decodes at the full decode rate.
All figures are in the profile's own seconds; `time_scale` of them pass in a second.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from random import Random
from time import monotonic
from typing import Literal

from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.rehearsal import figures
from anvil_tui.rehearsal.memory import GpuMemory
from anvil_tui.rehearsal.metrics import Counters, Gauges

_NAP_S = 0.1
"""Longest sleep, so that a stop is noticed soon."""


class EngineDead(Exception):
    """The engine was stopped under a request."""


@dataclass(frozen=True)
class Prompt:
    """A prompt as the engine keeps it: its length in tokens and the hash of each whole block, chained from the salt."""

    tokens: int
    blocks: tuple[bytes, ...]


@dataclass(frozen=True)
class Step:
    """One decode step: seconds after the first token, the tokens that it brings, and how many drafts were accepted.

    `accepted` is None where nothing was drafted.
    """

    at: float
    tokens: int
    accepted: int | None = None


def hash_blocks(pieces: Sequence[str], salt: str) -> Prompt:
    """The prompt of `pieces`. Two prompts share a block where all before it and the salt are the same."""
    blocks, chained = [], hashlib.blake2b(salt.encode(), digest_size=16).digest()
    for end in range(figures.BLOCK_TOKENS, len(pieces) + 1, figures.BLOCK_TOKENS):
        text = "\x00".join(pieces[end - figures.BLOCK_TOKENS : end]).encode("utf-8", "surrogatepass")
        chained = hashlib.blake2b(chained + text, digest_size=16).digest()
        blocks.append(chained)
    return Prompt(len(pieces), tuple(blocks))


def decode_steps(tokens: int, rate: float, acceptance: Sequence[float], rng: Random) -> list[Step]:
    """The steps that bring `tokens` tokens at `rate` tokens a second on average.

    Prefill brings the first token. Without speculation each step brings one more; with it a step brings one token and
    the drafts accepted before the first rejection: `acceptance` are shares of drafts accepted up to each position.
    """
    seconds = (1 + sum(acceptance)) / rate
    steps, done = [Step(0.0, min(1, tokens))], 1
    while done < tokens:
        luck = rng.random()
        accepted = sum(luck < share for share in acceptance)
        brought = min(1 + accepted, tokens - done)
        done += brought
        steps.append(Step(len(steps) * seconds, brought, accepted if acceptance else None))
    return steps


def prefilled(elapsed: float, tokens: int, rate: float, chunk: int) -> int:
    """Prompt tokens in the KV cache after `elapsed` seconds of prefill: whole chunks, as the scheduler steps."""
    return tokens if elapsed * rate >= tokens else max(0, int(elapsed * rate / chunk) * chunk)


class PrefixCache:
    """Whole blocks of past prompts, the least recently used forgotten first."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[bytes, None] = OrderedDict()

    def cached_tokens(self, prompt: Prompt) -> int:
        """Tokens of the longest cached prefix; the last token is always computed anew."""
        hits = 0
        for block in prompt.blocks[: max(0, prompt.tokens - 1) // figures.BLOCK_TOKENS]:
            if block not in self._blocks:
                break
            self._blocks.move_to_end(block)
            hits += 1
        return hits * figures.BLOCK_TOKENS

    def add(self, prompt: Prompt) -> None:
        """Keep the blocks of a prompt that has been computed."""
        for block in prompt.blocks:
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)


class Request:
    """One request on its way.

    `length` is the answer's length in tokens, `finish` why it ends there, `arrived` is on the monotonic clock.
    """

    def __init__(
        self, prompt: Prompt, length: int, finish: Literal["stop", "length"], seed: int, arrived: float
    ) -> None:
        self.prompt = prompt
        self.length = length
        self.finish = finish
        self.seed = seed
        self.arrived = arrived
        self.admitted = asyncio.Event()
        self.phase: Literal["waiting", "prefill", "decode"] = "waiting"
        self.cached = 0
        """Prompt tokens found in the prefix cache."""
        self.begin = self.due = 0.0
        """When the prefill begins and when the first token is due, on the monotonic clock."""
        self.done = 0
        """Tokens of the answer so far."""

    @property
    def uncached(self) -> int:
        return self.prompt.tokens - self.cached


class EngineCore:
    """What the requests share: the batch, the KV cache, the prefix cache, the GPUs, the counters."""

    def __init__(self, config: EngineConfig, memory: GpuMemory) -> None:
        drafted = len(config.engine.acceptance)
        self.counters = Counters(drafted_positions=drafted, accepted=[0] * drafted)
        self._config = config
        self._scale = config.engine.time_scale
        self._memory = memory
        self._cache = PrefixCache(figures.kv_tokens(config) // figures.BLOCK_TOKENS)
        self._waiting: deque[Request] = deque()
        self._running: list[Request] = []
        self._dead = False
        self._prefill_free = 0.0
        """When the prefills taken on so far are done."""

    def totals(self) -> Counters:
        """The counters as they stand now, apart from those that go on."""
        return deepcopy(self.counters)

    def gauges(self) -> Gauges:
        """What runs and waits now, and how much of the KV cache is in use."""
        used = sum(self._in_kv(request) for request in self._running) / figures.kv_tokens(self._config)
        return Gauges(len(self._running), len(self._waiting), min(1.0, used))

    async def generate(self, request: Request) -> AsyncGenerator[list[int], None]:
        """Yield how many tokens of the answer there are after each step, all steps that are due at once.

        Raises EngineDead where the engine is stopped before the answer is complete.
        """
        engine = self._config.engine
        self._waiting.append(request)
        self._admit()
        # Reading and tokenising a long prompt takes as long as a few steps; its prefill counts from its arrival.
        ready = request.arrived if request.admitted.is_set() else None
        try:
            await request.admitted.wait()
            await self._prefill(request, monotonic() if ready is None else ready)
            steps = decode_steps(request.length, engine.decode_tok_s, engine.acceptance, Random(request.seed))
            place = 0
            while place < len(steps):
                await self._until(request.due + steps[place].at / self._scale)
                now, ends = monotonic(), []
                while place < len(steps) and request.due + steps[place].at / self._scale <= now:
                    ends.append(self._take(request, steps[place]))
                    place += 1
                yield ends
        finally:
            self._leave(request)

    def stop(self) -> None:
        """The engine dies: every answer that is not complete fails."""
        self._dead = True
        for request in self._waiting:
            request.admitted.set()

    async def _prefill(self, request: Request, ready: float) -> None:
        engine, counters = self._config.engine, self.counters
        request.cached = self._cache.cached_tokens(request.prompt)
        counters.prefix_queries += request.prompt.tokens
        counters.prefix_hits += request.cached
        request.begin = max(ready, self._prefill_free)
        request.due = self._prefill_free = request.begin + request.uncached / engine.prefill_tok_s / self._scale
        await self._until(request.begin)
        request.phase = "prefill"
        self._tell_gpus()
        await self._until(request.due)
        request.phase = "decode"
        self._tell_gpus()
        self._cache.add(request.prompt)
        counters.prompt_tokens += request.prompt.tokens
        counters.cached_tokens += request.cached

    def _take(self, request: Request, step: Step) -> int:
        if step.accepted is not None:
            self.counters.draft(step.accepted)
        self.counters.generation_tokens += step.tokens
        request.done += step.tokens
        return request.done

    async def _until(self, due: float) -> None:
        """Sleep until `due` on the monotonic clock; what is overdue hardly waits, so lateness never adds up."""
        while True:
            await asyncio.sleep(min(_NAP_S, max(0.0, due - monotonic())))
            if self._dead:
                raise EngineDead
            if monotonic() >= due:
                return

    def _admit(self) -> None:
        """Let in who has waited longest, as long as there is a place in the batch and room in the KV cache."""
        while self._waiting and len(self._running) < figures.max_num_seqs(self._config):
            needed = sum(one.prompt.tokens + one.length for one in (*self._running, self._waiting[0]))
            if self._running and needed > figures.kv_tokens(self._config):
                return
            request = self._waiting.popleft()
            self._running.append(request)
            request.admitted.set()

    def _leave(self, request: Request) -> None:
        """The request ended or was cut short, wherever it stood."""
        if request in self._waiting:
            self._waiting.remove(request)
        else:
            self._running.remove(request)
        self.counters.requests[request.finish if request.done == request.length else "abort"] += 1
        if request.done == 0 and self._prefill_free == request.due:
            self._prefill_free = monotonic()
        self._tell_gpus()
        self._admit()

    def _in_kv(self, request: Request) -> int:
        if request.phase == "decode":
            return request.prompt.tokens + request.done
        elapsed = (monotonic() - request.begin) * self._scale if request.phase == "prefill" else 0.0
        chunk = figures.batch_tokens(self._config)
        return request.cached + prefilled(elapsed, request.uncached, self._config.engine.prefill_tok_s, chunk)

    def _tell_gpus(self) -> None:
        chunk = figures.batch_tokens(self._config)
        prefills = [one.uncached for one in self._running if one.phase == "prefill"]
        decoding = any(one.phase == "decode" for one in self._running)
        self._memory.work(min(1.0, max(prefills, default=0) / chunk), decoding)
