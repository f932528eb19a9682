"""A capacity run: many prompts of one length, so many at a time; every request gets its record, failed ones too."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable
from time import perf_counter_ns
from typing import Literal, Protocol

from msgspec import Struct
from msgspec.structs import replace

from anvil_tui.clock import utc_now
from anvil_tui.engines import metrics
from anvil_tui.engines.endpoint import EndpointClient, EndpointError
from anvil_tui.probes.client.exchange import chat_request, exchange, salt_of
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.probes.client.reading import spared
from anvil_tui.probes.client.stream import Stream
from anvil_tui.probes.prompts.prompt import Frame, Prompt, Shared, topic_frame
from anvil_tui.probes.prompts.sizing import sizer
from anvil_tui.probes.rung import not_sent, sized, unsized
from anvil_tui.records.artifact import Counters
from anvil_tui.records.probe import MeasureCapacity, ProbeCapacity, Target
from anvil_tui.records.request import Outcome, RequestRecord

_SIZED_AT_ONCE = 4
_METRICS_S = 5.0

Step = Literal["sizing", "warm-up", "measuring"]


class Report(Protocol):
    """Where a run says how it goes while it goes."""

    def step(self, step: Step) -> None: ...

    def started(self, stream: Stream, sent_ns: int, /) -> None: ...

    def measured(self, record: RequestRecord, stream: Stream | None, *, warmup: bool) -> None: ...


class _Planned(Struct, frozen=True, kw_only=True):
    """A request and its prompt, ready to be sent."""

    base: RequestRecord
    prompt: Prompt
    cache_salt: str | None


async def measure_capacity(ask: MeasureCapacity, watch: HostWatch, report: Report) -> ProbeCapacity:
    """Size all prompts, warm up, then run the closed loop. Raises CannotRun without the API key.

    Cancelling closes every open connection; requests that were not begun have no record then.
    """
    started_at = utc_now()
    run = _Run(ask, watch, report)
    before = after = None
    cancelled = False
    try:
        report.step("sizing")
        warmups, scored = await _plan(ask)
        report.step("warm-up")
        await run.loop(warmups, warmup=True)
        before = await read_counters(ask.target)
        report.step("measuring")
        started_at = utc_now()
        await run.loop(scored, warmup=False)
        after = await read_counters(ask.target)
    except asyncio.CancelledError:
        spared()
        cancelled = True
    return ProbeCapacity(
        id=ask.id,
        started_at=started_at,
        finished_at=utc_now(),
        wall_clock_ms=run.wall_clock_ms,
        counters_before=before,
        counters_after=after,
        cancelled=cancelled,
    )


async def read_counters(target: Target) -> Counters | None:
    """The engine's counters now; None where it has no metrics."""
    try:
        async with EndpointClient(target.base_url, api_key_env=target.api_key_env, timeout_s=_METRICS_S) as endpoint:
            return metrics.counters(await endpoint.metrics())
    except EndpointError:
        return None


def request_nonce(nonce: str, request_index: int) -> str:
    """The nonce of one request of a run: it follows from the run's and the request's number."""
    return f"{nonce}-{request_index}"


def frame_of(ask: MeasureCapacity, request_index: int) -> Frame:
    """The frame of one request: cold from its first block on, or beginning as all others do."""
    if ask.prefix == "nonce":
        return topic_frame(request_nonce(ask.nonce, request_index))
    shared = Shared(seed=ask.nonce, tokens=ask.shared_prefix_tokens)
    return topic_frame(ask.nonce, shared=shared, request_index=request_index)


async def _plan(ask: MeasureCapacity) -> tuple[list[_Planned], list[_Planned]]:
    """The warm-up requests, numbered below zero, and the scored ones. Prompts are sized a few at a time."""
    indices = range(-ask.warmup_requests, ask.requests)
    gate = asyncio.Semaphore(_SIZED_AT_ONCE)
    async with sizer(ask.target, ask.reasoning_effort) as sizes:

        async def plan(index: int) -> _Planned:
            frame = frame_of(ask, index)
            base = RequestRecord(
                request_index=index,
                outcome="not_sent",
                model=ask.target.model,
                max_tokens=ask.max_tokens,
                output_length=ask.output_length,
                reasoning_effort=ask.reasoning_effort,
                nonce=frame.nonce,
            )
            if ask.limit_tokens is not None and ask.context_tokens > ask.limit_tokens:
                prompt = unsized(
                    ask.context_tokens, f"{ask.context_tokens:,} tokens are above the limit of {ask.limit_tokens:,}"
                )
            else:
                async with gate:
                    prompt = await sized(sizes, frame, ask.context_tokens)
            cache_salt = salt_of(frame.nonce) if ask.cache_salt else None
            return _Planned(base=replace(base, sizing=prompt.sizing), prompt=prompt, cache_salt=cache_salt)

        first = await plan(indices[0])
        rest = await asyncio.gather(*map(plan, indices[1:]))
    planned = [first, *rest]
    return planned[: ask.warmup_requests], planned[ask.warmup_requests :]


class _Run:
    def __init__(self, ask: MeasureCapacity, watch: HostWatch, report: Report) -> None:
        self._ask = ask
        self._watch = watch
        self._report = report
        self._first_ns: int | None = None
        self._last_ns: int | None = None

    @property
    def wall_clock_ms(self) -> float | None:
        """From the first scored request's start to the last one's end, connecting included."""
        if self._first_ns is None or self._last_ns is None:
            return None
        return (self._last_ns - self._first_ns) / 1e6

    async def loop(self, planned: list[_Planned], *, warmup: bool) -> None:
        """Send `planned` with as many workers as the ask's concurrency, each taking the next when it is free."""
        queue = iter(planned)
        started_s = asyncio.get_running_loop().time()
        due = itertools.count()
        workers = [
            asyncio.create_task(self._work(queue, due, started_s, warmup=warmup))
            for _ in range(min(self._ask.concurrency, len(planned)))
        ]
        await asyncio.gather(*workers)

    async def _work(self, queue: Iterable[_Planned], due: Iterable[int], started_s: float, *, warmup: bool) -> None:
        for planned, number in zip(queue, due, strict=False):
            rate = self._ask.arrivals_per_s
            if rate is not None and not warmup:
                await asyncio.sleep(started_s + number / rate - asyncio.get_running_loop().time())
            if await self._one(planned, warmup=warmup) == "cancelled":
                return

    async def _one(self, planned: _Planned, *, warmup: bool) -> Outcome:
        ask, message = self._ask, planned.prompt.message
        if message is None:
            words = planned.prompt.sizing.error or "the prompt could not be sized"
            self._report.measured(not_sent(planned.base, words), None, warmup=warmup)
            return "not_sent"
        messages = [{"role": "user", "content": message}]
        request = chat_request(ask.target, messages, planned.base, ask.deadlines, cache_salt=planned.cache_salt)
        streams: list[Stream] = []

        def started(stream: Stream, sent_ns: int) -> None:
            streams.append(stream)
            self._report.started(stream, sent_ns)

        begun_ns = perf_counter_ns()
        exchanged = await exchange(request, self._watch, started)
        if not warmup:
            self._first_ns = begun_ns if self._first_ns is None else self._first_ns
            self._last_ns = perf_counter_ns()
        self._report.measured(exchanged.record, streams[-1] if streams else None, warmup=warmup)
        return exchanged.record.outcome
