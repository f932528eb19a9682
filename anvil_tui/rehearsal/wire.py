"""How answers go out: chat completions and Responses, whole or as server-sent events, in vLLM's shapes."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from itertools import count, pairwise
from typing import Any

import msgspec

from anvil_tui.rehearsal.answers import Channel, Token
from anvil_tui.rehearsal.asks import ChatBody, Work
from anvil_tui.rehearsal.core import EngineCore, EngineDead

DONE = b"data: [DONE]\n\n"
DEAD = {
    "error": {
        "message": "EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "type": "InternalServerError",
        "param": None,
        "code": 500,
    }
}
"""What a client gets, even in mid-stream, where the engine dies under its request."""


def runs(tokens: Sequence[Token], start: int, end: int) -> Iterator[tuple[Channel, str, int]]:
    """Tokens `start` to `end` as texts of one channel each, with how many tokens the answer has at their ends."""
    while start < end:
        channel, stop = tokens[start].channel, start + 1
        while stop < end and tokens[stop].channel == channel:
            stop += 1
        yield channel, "".join(token.text for token in tokens[start:stop]), stop
        start = stop


def said(work: Work, channel: Channel) -> str:
    """All that goes to one channel."""
    return "".join(token.text for token in work.tokens if token.channel == channel)


# Chat completions


async def chat_events(core: EngineCore, work: Work, body: ChatBody, model: str) -> AsyncIterator[bytes]:
    """The stream of a chat completion: role, deltas as they are due, usage where it is asked for, [DONE]."""
    options = body.stream_options
    with_usage = bool(options and options.include_usage)
    continuous = bool(with_usage and options and options.continuous_usage_stats)
    head: dict[str, Any] = {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": "chat.completion.chunk"}
    head |= {"created": int(time.time()), "model": model}
    call_id = f"chatcmpl-tool-{uuid.uuid4().hex}"

    def chunk(delta: dict[str, Any], done: int, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish, "token_ids": None}
        usage = {"usage": _plain_usage(work, done)} if continuous else {}
        return _event(head | {"choices": [choice]} | usage)

    def step(start: int, end: int) -> Iterator[bytes]:
        if start == 0:
            yield chunk({"role": "assistant", "content": ""}, 0)
        for channel, text, done in runs(work.tokens, start, end):
            finish = work.finish_reason if done == work.request.length else None
            if channel != "reasoning" or body.include_reasoning:
                yield chunk(_delta(channel, text, call_id), done, finish)
            elif finish is not None:
                yield chunk({}, done, finish)

    sent = 0
    try:
        async with aclosing(core.generate(work.request)) as batches:
            async for ends in batches:
                starts = [sent, *ends]
                yield b"".join(event for start, end in pairwise(starts) for event in step(start, end))
                sent = ends[-1]
    except EngineDead:
        yield _event(DEAD) + DONE
        return
    if with_usage:
        yield _event(head | {"choices": [], "usage": chat_usage(work), "system_fingerprint": None})
    yield DONE


def chat_completion(work: Work, body: ChatBody, model: str) -> dict[str, Any]:
    """A chat completion in one piece."""
    message: dict[str, Any] = {"role": "assistant", "content": said(work, "content") or None, "tool_calls": []}
    message["reasoning"] = (said(work, "reasoning") or None) if body.include_reasoning else None
    if name := said(work, "name"):
        function = {"name": name, "arguments": said(work, "arguments")}
        message["tool_calls"] = [{"id": f"chatcmpl-tool-{uuid.uuid4().hex}", "type": "function", "function": function}]
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": work.finish_reason}],
        "usage": chat_usage(work),
    }


def chat_usage(work: Work) -> dict[str, Any]:
    """Usage of an answer that is complete."""
    return _plain_usage(work, len(work.tokens)) | {
        "prompt_tokens_details": {"cached_tokens": work.request.cached},
        "completion_tokens_details": {"reasoning_tokens": work.reasoning_tokens},
    }


def _plain_usage(work: Work, done: int) -> dict[str, Any]:
    prompt = work.request.prompt.tokens
    return {"prompt_tokens": prompt, "total_tokens": prompt + done, "completion_tokens": done}


def _delta(channel: Channel, text: str, call_id: str) -> dict[str, Any]:
    match channel:
        case "name":
            function = {"name": text, "arguments": ""}
            return {"tool_calls": [{"id": call_id, "type": "function", "index": 0, "function": function}]}
        case "arguments":
            return {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        case _:
            return {channel: text}


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


# Responses


async def response_events(core: EngineCore, work: Work, model: str) -> AsyncIterator[bytes]:
    """The stream of a response: numbered events, item by item; it ends with `response.completed`, without [DONE]."""
    envelope = response(work, model, "in_progress")
    numbers = count()
    items = {_CHANNELS[str(item["type"])]: (place, item) for place, item in enumerate(_items(work))}

    def event(kind: str, **data: Any) -> bytes:
        return f"event: {kind}\n".encode() + _event({"type": kind, "sequence_number": next(numbers)} | data)

    def opened(channel: Channel) -> Iterator[bytes]:
        place, item = items[channel]
        called = item["type"] == "function_call"
        empty: dict[str, Any] = {"arguments": ""} if called else {"content": []}
        begun = item | {"status": "in_progress"} | empty
        yield event("response.output_item.added", output_index=place, item=begun)
        if not called:
            part = item["content"][0] | {"text": ""}
            yield event("response.content_part.added", **_where(item, place), part=part)

    def closed(channel: Channel) -> Iterator[bytes]:
        place, item = items[channel]
        if item["type"] == "function_call":
            yield event(f"{_TEXTS[channel]}.done", **_where(item, place), arguments=item["arguments"])
        else:
            part = item["content"][0]
            yield event(f"{_TEXTS[channel]}.done", **_where(item, place), text=part["text"])
            yield event("response.content_part.done", **_where(item, place), part=part)
        yield event("response.output_item.done", output_index=place, item=item)

    yield event("response.created", response=envelope) + event("response.in_progress", response=envelope)
    sent, current = 0, None
    try:
        async with aclosing(core.generate(work.request)) as batches:
            async for ends in batches:
                for channel, text, _ in runs(work.tokens, sent, ends[-1]):
                    if channel == "name":
                        continue
                    if channel != current:
                        yield b"".join((*(closed(current) if current else ()), *opened(channel)))
                        current = channel
                    place, item = items[channel]
                    yield event(f"{_TEXTS[channel]}.delta", **_where(item, place), delta=text)
                sent = ends[-1]
    except EngineDead:
        yield _event(DEAD)
        return
    if current:
        yield b"".join(closed(current))
    yield event("response.completed", response=response(work, model, _status(work), envelope["id"]))


_CHANNELS: dict[str, Channel] = {"reasoning": "reasoning", "message": "content", "function_call": "arguments"}
_TEXTS: dict[Channel, str] = {
    "reasoning": "response.reasoning_text",
    "content": "response.output_text",
    "arguments": "response.function_call_arguments",
}


def response(work: Work, model: str, status: str, name: str | None = None) -> dict[str, Any]:
    """A response object; its output and usage stand only in one that has ended."""
    ended = status != "in_progress"
    return {
        "id": name or f"resp_{uuid.uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "model": model,
        "output": _items(work) if ended else [],
        "usage": _response_usage(work) if ended else None,
    }


def whole_response(work: Work, model: str) -> dict[str, Any]:
    """A response in one piece."""
    return response(work, model, _status(work))


def _status(work: Work) -> str:
    return "incomplete" if work.finish_reason == "length" else "completed"


def _items(work: Work) -> list[dict[str, Any]]:
    """The output items of an answer, in order; ids follow from the answer, so that a stream repeats them."""
    tag = f"{work.request.seed:016x}"
    items: list[dict[str, Any]] = []
    if text := said(work, "reasoning"):
        items.append({"type": "reasoning", "id": f"rs_{tag}", "status": "completed", "summary": []})
        items[-1]["content"] = [{"type": "reasoning_text", "text": text}]
    if name := said(work, "name"):
        call = {"name": name, "arguments": said(work, "arguments"), "call_id": f"call_{tag}"}
        items.append({"type": "function_call", "id": f"fc_{tag}", "status": "completed"} | call)
    if text := said(work, "content"):
        items.append({"type": "message", "id": f"msg_{tag}", "status": "completed", "role": "assistant"})
        items[-1]["content"] = [{"type": "output_text", "text": text, "annotations": [], "logprobs": None}]
    return items


def _response_usage(work: Work) -> dict[str, Any]:
    usage = chat_usage(work)
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": usage["prompt_tokens_details"],
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": usage["completion_tokens_details"],
        "total_tokens": usage["total_tokens"],
    }


def _where(item: dict[str, Any], place: int) -> dict[str, Any]:
    part = {} if item["type"] == "function_call" else {"content_index": 0}
    return {"item_id": item["id"], "output_index": place} | part
