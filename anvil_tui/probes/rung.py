"""Size a prompt and send it once: a rung of a ladder, or one request to any server."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from anvil_tui.engines.endpoint import EndpointClient, EndpointError, TokenCount
from anvil_tui.probes.exchange import ChatRequest, Exchanged, chat_body, exchange
from anvil_tui.probes.pauses import HostWatch
from anvil_tui.probes.prompt import (
    Frame,
    Prompt,
    needle_code,
    needle_found,
    needle_frame,
    size_by_calibration,
    size_exactly,
    topic_question,
)
from anvil_tui.probes.stream import Stream
from anvil_tui.records.live import RequestPhase
from anvil_tui.records.probe import MeasureRung, ProbeUrl, Target
from anvil_tui.records.request import Needle, RequestError, RequestRecord, Sizing

_NO_TOKENIZER = {400, 401, 403, 404, 405, 415, 422, 501}
"""Answers of `/tokenize` that say that this server has none of vLLM's shape."""


class Report(Protocol):
    """Where a request says how it goes while it goes."""

    def phase(self, phase: RequestPhase) -> None: ...

    def sized(self, sizing: Sizing) -> None: ...

    def started(self, stream: Stream, sent_ns: int) -> None: ...


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
        return _not_sent(base, f"{ask.target_tokens:,} tokens are above the limit of {ask.limit_tokens:,}")
    frame = _frame(ask.nonce, ask.needle_depth)
    report.phase("sizing")
    try:
        prompt = await size(ask.target, frame, ask.target_tokens, ask.reasoning_effort)
    except EndpointError as error:
        prompt = Prompt(message=None, sizing=_unsized(ask.target_tokens, str(error)))
    report.sized(prompt.sizing)
    base = msgspec.structs.replace(base, sizing=prompt.sizing)
    if prompt.message is None:
        return _not_sent(base, prompt.sizing.error or "the prompt could not be sized")
    body = chat_body(
        ask.target.model,
        [{"role": "user", "content": prompt.message}],
        max_tokens=ask.max_tokens,
        fixed=ask.output_length == "fixed",
        reasoning_effort=ask.reasoning_effort,
        cache_salt=salt(ask.nonce) if ask.cache_salt else None,
    )
    report.phase("connecting")
    request = ChatRequest(target=ask.target, body=body, base=base, deadlines=ask.deadlines)
    exchanged = await exchange(request, watch, report.started)
    if ask.needle_depth is None:
        return exchanged.record
    return msgspec.structs.replace(exchanged.record, needle=_scored(exchanged, ask.nonce, ask.needle_depth))


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
    body = chat_body(
        ask.target.model,
        [{"role": "user", "content": question}],
        max_tokens=ask.max_tokens,
        fixed=ask.output_length == "fixed",
        reasoning_effort=ask.reasoning_effort,
    )
    report.phase("connecting")
    request = ChatRequest(target=ask.target, body=body, base=base, deadlines=ask.deadlines)
    return (await exchange(request, watch, report.started)).record


async def size(target: Target, frame: Frame, target_tokens: int, reasoning_effort: str | None) -> Prompt:
    """A prompt of `target_tokens`: exact by the engine's tokenizer, calibrated where it offers none.

    Raises EndpointError where the engine does not answer.
    """
    async with EndpointClient(target.base_url, api_key_env=target.api_key_env) as endpoint:

        async def by_tokenizer(message: str, token_strs: bool) -> TokenCount:
            return await endpoint.tokenize(
                target.model,
                _messages(message),
                chat_template_kwargs=template_kwargs(reasoning_effort),
                token_strs=token_strs,
            )

        async def by_usage(message: str, _: bool) -> TokenCount:
            answer = await endpoint.one_token(
                target.model, messages=_messages(message), reasoning_effort=reasoning_effort, timeout_s=300.0
            )
            if answer.prompt_tokens is None:
                raise EndpointError("neither a tokenizer endpoint nor a usage: no prompt can be sized here")
            return TokenCount(count=answer.prompt_tokens)

        try:
            return await size_exactly(frame, target_tokens, by_tokenizer)
        except EndpointError as error:
            if error.status not in _NO_TOKENIZER | {200}:
                raise
        return await size_by_calibration(frame, target_tokens, by_usage)


def template_kwargs(reasoning_effort: str | None) -> Mapping[str, Any] | None:
    """What vLLM hands its chat template for a reasoning effort, so that the tokenizer endpoint counts the same."""
    if reasoning_effort is None:
        return None
    return {"reasoning_effort": reasoning_effort, "enable_thinking": reasoning_effort != "none"}


def salt(nonce: str) -> str:
    """The cache salt that goes with a nonce."""
    return hashlib.sha256(f"salt/{nonce}".encode()).hexdigest()[:32]


def _frame(nonce: str, needle_depth: float | None) -> Frame:
    if needle_depth is None:
        return Frame(nonce=nonce, question=topic_question(nonce))
    return needle_frame(nonce, needle_depth)


def _scored(exchanged: Exchanged, nonce: str, depth: float) -> Needle:
    """Scored on the visible answer alone, never on the reasoning."""
    code = needle_code(nonce)
    whole = exchanged.record.outcome in ("ok", "truncated", "no_visible_content")
    return Needle(depth=depth, code=code, found=needle_found(exchanged.answer.content, code) if whole else None)


def _messages(message: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": message}]


def _not_sent(base: RequestRecord, words: str) -> RequestRecord:
    return msgspec.structs.replace(base, outcome="not_sent", error=RequestError(message=words))


def _unsized(target_tokens: int, words: str) -> Sizing:
    return Sizing(target_tokens=target_tokens, counted_tokens=None, method="none", tolerance=0, error=words)
