"""What cuts a step short, and what does not."""

from __future__ import annotations

import asyncio

import pytest

from anvil_tui.campaigns.running.interrupts import Interrupt, Interrupts


def test_an_interrupt_ends_the_waiting_and_leaves_the_awaited_to_its_owner() -> None:
    async def run() -> None:
        interrupts = Interrupts()
        waiting = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(interrupts.strike, Interrupt("stop_now", "asked"))
        with pytest.raises(Interrupt, match="asked"):
            await interrupts.until(waiting)
        assert not waiting.done()

    asyncio.run(run())


def test_what_is_done_first_wins() -> None:
    async def run() -> None:
        interrupts = Interrupts()
        done = asyncio.get_running_loop().create_future()
        done.set_result(1)
        await interrupts.until(done)

    asyncio.run(run())


def test_a_skip_is_cleared_between_rungs_and_never_replaces_a_stop() -> None:
    async def run() -> None:
        interrupts = Interrupts()
        interrupts.strike(Interrupt("skip_rung", "skip"))
        interrupts.clear_skip()
        assert interrupts.pending is None
        interrupts.strike(Interrupt("lane_died", "died"))
        interrupts.strike(Interrupt("stop_now", "stop"))
        interrupts.clear_skip()
        assert interrupts.pending is not None and interrupts.pending.kind == "lane_died"
        with pytest.raises(Interrupt, match="died"):
            await interrupts.until(asyncio.get_running_loop().create_future())

    asyncio.run(run())
