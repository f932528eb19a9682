"""Work of our own and looks at the sockets, in turns: nothing that waits holds up what comes in."""

from __future__ import annotations

import asyncio
import socket
import time

from anvil_tui.probes.client.patience import MANY, NAP_S, Batches, PatientSelector, patient_loop


def test_between_any_two_pieces_of_work_the_loop_looks_at_the_sockets() -> None:
    async def run() -> list[str]:
        here, there = socket.socketpair()
        here.setblocking(False)
        told: list[str] = []
        batches = Batches()
        asyncio.get_running_loop().add_reader(here, lambda: told.append(here.recv(1).decode()))

        def work(number: int) -> None:
            told.append(str(number))
            there.send(b"abc"[number : number + 1])

        for number in range(3):
            batches.soon(lambda number=number: work(2 - number))  # type: ignore[misc]
        while len(told) < 6:
            await asyncio.sleep(0)
        asyncio.get_running_loop().remove_reader(here)
        here.close()
        there.close()
        return told

    told = asyncio.run(run())
    assert [one for one in told if one.isdigit()] == ["0", "1", "2"]
    assert told.index("a") < told.index("2") and told.index("b") < told.index("c")


def test_what_may_wait_is_done_in_order_behind_what_may_not() -> None:
    async def run() -> tuple[list[str], float]:
        told: list[str] = []
        batches, started = Batches(), time.monotonic()
        batches.later(lambda: told.append("first"))
        batches.later(lambda: told.append("second"))
        batches.soon(lambda: told.append("now"))
        while len(told) < 3:
            await asyncio.sleep(0.001)
        batches.later(lambda: told.append("again"))
        while len(told) < 4:
            await asyncio.sleep(0.001)
        return told, time.monotonic() - started

    told, took = asyncio.run(run())
    assert told == ["now", "first", "second", "again"]
    assert took >= 0.15, "each of the two waited for its like"


def test_a_fault_in_one_piece_does_not_stop_the_others() -> None:
    async def run() -> list[str]:
        told: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(repr(context["exception"])))
        batches = Batches()
        batches.soon(lambda: told.append("after"))
        batches.soon(lambda: told.append(str(1 // 0)))
        while len(told) < 2:
            await asyncio.sleep(0)
        return told

    assert asyncio.run(run()) == ["ZeroDivisionError('integer division or modulo by zero')", "after"]


def test_the_loop_is_patient_with_many_sockets_only_and_never_past_a_timer() -> None:
    pairs = [socket.socketpair() for _ in range(MANY + 1)]
    with PatientSelector() as selector:
        for one, _ in pairs[:MANY]:
            selector.register(one, 1)
        pairs[0][1].send(b"x")
        began = time.perf_counter()
        assert len(selector.select(60)) == 1
        assert time.perf_counter() - began < 30
        selector.register(pairs[MANY][0], 1)
        began = time.perf_counter()
        assert len(selector.select(60)) == 1
        assert time.perf_counter() - began >= NAP_S
        pairs[0][0].recv(1)
        began = time.perf_counter()
        assert selector.select(0.0005) == []
        assert selector.select(0) == []
        assert time.perf_counter() - began < 30
    for one, other in pairs:
        one.close()
        other.close()


def test_a_patient_loop_runs() -> None:
    with asyncio.Runner(loop_factory=patient_loop) as runner:
        assert runner.run(asyncio.sleep(0.001, "done")) == "done"
