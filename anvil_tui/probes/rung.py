"""Size a prompt and send it once: a rung of a ladder, or one request to any server."""

from __future__ import annotations

import asyncio
from typing import Protocol

from msgspec.structs import replace

from anvil_tui.engines.endpoint import EndpointError
from anvil_tui.probes.client.exchange import Exchanged, chat_request, exchange, salt_of
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.probes.client.reading import spared
from anvil_tui.probes.client.stream import Stream
from anvil_tui.probes.prompts.prompt import Frame, Prompt, needle_code, needle_found, needle_frame, topic_frame
from anvil_tui.probes.prompts.sizing import Sizer, sizer
from anvil_tui.records.live import RequestPhase
from anvil_tui.records.probe import MeasureRung, ProbeUrl
from anvil_tui.records.request import Needle, RequestError, RequestRecord, Sizing


class Report(Protocol):
    """Where a request says how it goes while it goes."""

    def phase(self, phase: RequestPhase) -> None: ...

    def sized(self, sizing: Sizing) -> None: ...

    def started(self, stream: Stream, sent_ns: int, /) -> None: ...


async def measure_rung(ask: MeasureRung, watch: HostWatch, report: Report) -> RequestRecord:
    """Size the prompt of a rung, send it where it fits, and measure it. Raises CannotRun without the API key."""
    base = RequestRecord(
        request_index=ask.request_index,
        outcome="not_sent",
        model=ask.target.model,
        max_tokens=ask.max_tokens,
        output_length=ask.output_length,
        reasoning_effort=ask.reasoning_effort,
        nonce=ask.nonce,
    )
    if ask.limit_tokens is not None and ask.target_tokens > ask.limit_tokens:
        return not_sent(base, f"{ask.target_tokens:,} tokens are above the limit of {ask.limit_tokens:,}")
    frame = topic_frame(ask.nonce) if ask.needle_depth is None else needle_frame(ask.nonce, ask.needle_depth)
    report.phase("sizing")
    try:
        async with sizer(ask.target, ask.reasoning_effort) as sizes:
            prompt = await sized(sizes, frame, ask.target_tokens)
    except asyncio.CancelledError:
        spared()
        return replace(base, outcome="cancelled")
    report.sized(prompt.sizing)
    base = replace(base, sizing=prompt.sizing)
    if prompt.message is None:
        return not_sent(base, prompt.sizing.error or "the prompt could not be sized")
    report.phase("connecting")
    messages = [{"role": "user", "content": prompt.message}]
    cache_salt = salt_of(ask.nonce) if ask.cache_salt else None
    request = chat_request(ask.target, messages, base, ask.deadlines, cache_salt=cache_salt)
    exchanged = await exchange(request, watch, report.started)
    if ask.needle_depth is None:
        return exchanged.record
    return replace(exchanged.record, needle=scored(exchanged, ask.nonce, ask.needle_depth))


async def probe_url(ask: ProbeUrl, watch: HostWatch, report: Report) -> RequestRecord:
    """One measured request to any OpenAI-compatible server. Raises CannotRun without the API key."""
    if ask.prompt_tokens is not None:
        rung = MeasureRung(
            id=ask.id,
            target=ask.target,
            request_index=0,
            target_tokens=ask.prompt_tokens,
            max_tokens=ask.max_tokens,
            limit_tokens=None,
            reasoning_effort=ask.reasoning_effort,
            output_length=ask.output_length,
            nonce=ask.nonce,
            cache_salt=False,
            deadlines=ask.deadlines,
        )
        return await measure_rung(rung, watch, report)
    base = RequestRecord(
        request_index=0,
        outcome="not_sent",
        model=ask.target.model,
        max_tokens=ask.max_tokens,
        output_length=ask.output_length,
        reasoning_effort=ask.reasoning_effort,
        nonce=ask.nonce,
    )
    question = f"Record {ask.nonce}. Describe in a few sentences how a bicycle keeps its balance."
    report.phase("connecting")
    request = chat_request(ask.target, [{"role": "user", "content": question}], base, ask.deadlines)
    return (await exchange(request, watch, report.started)).record


async def sized(sizes: Sizer, frame: Frame, target_tokens: int) -> Prompt:
    """A sized prompt; where the endpoint fails, one without a message, whose sizing says why."""
    try:
        return await sizes.size(frame, target_tokens)
    except EndpointError as error:
        return unsized(target_tokens, str(error))


def unsized(target_tokens: int, words: str) -> Prompt:
    """No prompt, and why."""
    sizing = Sizing(target_tokens=target_tokens, counted_tokens=None, method="none", tolerance=0, error=words)
    return Prompt(message=None, sizing=sizing)


def scored(exchanged: Exchanged, nonce: str, depth: float) -> Needle:
    """Whether the needle was found: in the visible answer alone, never in the reasoning."""
    code = needle_code(nonce)
    whole = exchanged.record.outcome in ("ok", "truncated", "no_visible_content")
    return Needle(depth=depth, code=code, found=needle_found(exchanged.answer.content, code) if whole else None)


def not_sent(base: RequestRecord, words: str) -> RequestRecord:
    """The record of a request that was never sent, and why."""
    return replace(base, outcome="not_sent", error=RequestError(message=words))
