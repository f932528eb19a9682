"""The schedule: rates without drift, speculation, prefix cache, admission."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from time import monotonic

import msgspec
import pytest

from anvil_tui.rehearsal.core import (
    EngineCore,
    EngineDead,
    PrefixCache,
    Prompt,
    Request,
    decode_steps,
    hash_blocks,
    prefilled,
)
from anvil_tui.rehearsal.memory import GpuMemory

from .conftest import small

LATE_S = 0.25
"""How late a busy machine may be; early is never right."""
SHARES = (0.845, 0.690, 0.524, 0.406, 0.290)


def test_without_speculation_each_step_brings_one_token() -> None:
    steps = decode_steps(5, 50.0, (), Random(1))
    assert [(step.at, step.tokens, step.accepted) for step in steps] == [(n / 50, 1, None) for n in range(5)]


def test_speculation_brings_several_tokens_a_step_at_the_same_mean_rate() -> None:
    steps = decode_steps(40_000, 130.0, SHARES, Random(2))
    assert sum(step.tokens for step in steps) == 40_000
    assert 39_999 / steps[-1].at == pytest.approx(130.0, rel=0.02)
    drafts = steps[1:]
    for position, share in enumerate(SHARES):
        taken = sum(step.accepted is not None and step.accepted > position for step in drafts) / len(drafts)
        assert taken == pytest.approx(share, abs=0.015)


@pytest.mark.parametrize("tokens", [1, 2, 7])
def test_the_steps_bring_exactly_what_is_asked(tokens: int) -> None:
    assert sum(step.tokens for step in decode_steps(tokens, 100.0, SHARES, Random(3))) == tokens


@pytest.mark.parametrize(
    ("elapsed", "expected"),
    [(-1.0, 0), (0.0, 0), (0.9, 0), (1.1, 1024), (2.5, 2048), (2.93, 3000), (9.0, 3000)],
)
def test_prefill_advances_in_whole_chunks(elapsed: float, expected: int) -> None:
    assert prefilled(elapsed, 3000, 1024.0, 1024) == expected


def test_prefix_cache_shares_whole_blocks_only() -> None:
    cache = PrefixCache(100)
    words = [f"w{n}" for n in range(700)]
    cache.add(hash_blocks(words, ""))
    assert cache.cached_tokens(hash_blocks(words, "")) == 512
    assert cache.cached_tokens(hash_blocks([*words[:600], "other"], "")) == 512
    assert cache.cached_tokens(hash_blocks([*words[:300], *["other"] * 400], "")) == 256
    assert cache.cached_tokens(hash_blocks(["other", *words[1:]], "")) == 0
    assert cache.cached_tokens(hash_blocks(words, "salt")) == 0


def test_the_last_token_is_always_computed() -> None:
    cache = PrefixCache(100)
    words = ["w"] * 512
    cache.add(hash_blocks(words, ""))
    assert cache.cached_tokens(hash_blocks(words, "")) == 256


def test_the_cache_forgets_the_oldest() -> None:
    cache = PrefixCache(2)
    first, second = hash_blocks(["a"] * 600, ""), hash_blocks(["b"] * 600, "")
    cache.add(first)
    cache.add(second)
    assert (cache.cached_tokens(first), cache.cached_tokens(second)) == (0, 512)


@dataclass
class Timed:
    """When an answer began and ended, on the monotonic clock."""

    first: float = 0.0
    last: float = 0.0


async def consume(core: EngineCore, request: Request) -> Timed:
    timed = Timed()
    async with aclosing(core.generate(request)) as batches:
        async for _ in batches:
            timed.first = timed.first or monotonic()
            timed.last = monotonic()
    return timed


def request(tokens: int, length: int, name: str = "x") -> Request:
    return Request(Prompt(tokens, (name.encode(),)), length, "stop", 7, monotonic())


def core_of(tmp_path: Path, **changed: object) -> EngineCore:
    config = small(tmp_path / "timelines")
    engine = msgspec.structs.replace(config.engine, acceptance=(), **changed)
    recipe = msgspec.structs.replace(config.recipe, speculation=None)
    config = msgspec.structs.replace(config, engine=engine, recipe=recipe)
    return EngineCore(config, GpuMemory(config))


def test_a_request_takes_its_prefill_and_its_tokens(tmp_path: Path) -> None:
    core = core_of(tmp_path)

    async def run() -> None:
        asked = request(4000, 101)
        timed = await consume(core, asked)
        # 4,000 tokens at 2,000/s and 100 more at 100/s, fifty times as fast.
        assert asked.due - asked.arrived == pytest.approx(0.040)
        assert 0.040 <= timed.first - asked.arrived < 0.040 + LATE_S
        assert 0.060 <= timed.last - asked.arrived < 0.060 + LATE_S

    asyncio.run(run())
    assert core.counters.prompt_tokens == 4000
    assert core.counters.generation_tokens == 101
    assert core.counters.requests == {"stop": 1}


def test_prefills_take_turns_and_places_are_limited(tmp_path: Path) -> None:
    core = core_of(tmp_path)

    async def run() -> None:
        asked = [request(2000, 51, str(n)) for n in range(3)]
        tasks = [asyncio.ensure_future(consume(core, one)) for one in asked]
        await asyncio.sleep(0)
        assert (core.gauges().running, core.gauges().waiting) == (2, 1)
        timed = await asyncio.gather(*tasks)
        assert asked[1].begin == asked[0].due
        assert asked[1].due - asked[1].begin == pytest.approx(0.020)
        # The third waits until one of the others has ended.
        assert asked[2].begin >= min(timed[0].last, timed[1].last)
        assert core.gauges().kv_usage == 0.0

    asyncio.run(run())


def test_kv_usage_advances_in_prefill(tmp_path: Path) -> None:
    core = core_of(tmp_path, prefill_tok_s=500.0)
    seen: list[float] = []

    async def run() -> None:
        task = asyncio.ensure_future(consume(core, request(8192, 2)))
        while not task.done():
            seen.append(core.gauges().kv_usage)
            await asyncio.sleep(0.005)

    asyncio.run(run())
    assert seen == sorted(seen)
    assert len(set(seen)) >= 6
    assert max(seen) < 8194 / 32768 + 1e-9


def test_a_request_too_many_for_the_kv_cache_waits(tmp_path: Path) -> None:
    core = core_of(tmp_path)

    async def run() -> None:
        tasks = [asyncio.ensure_future(consume(core, request(16000, 1000, str(n)))) for n in range(2)]
        await asyncio.sleep(0)
        assert (core.gauges().running, core.gauges().waiting) == (1, 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (core.gauges().running, core.gauges().waiting) == (0, 0)

    asyncio.run(run())
    assert core.counters.requests == {"abort": 2}


def test_stopping_fails_what_runs_and_what_waits(tmp_path: Path) -> None:
    core = core_of(tmp_path)

    async def run() -> None:
        tasks = [asyncio.ensure_future(consume(core, request(10, 9000, str(n)))) for n in range(3)]
        await asyncio.sleep(0)
        core.stop()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(one, EngineDead) for one in ended)

    asyncio.run(run())
