"""The functional checks of a gate: what each asks and what makes its answer right. Status 200 proves nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any

from msgspec.structs import replace

from anvil_tui.clock import utc_now
from anvil_tui.engines.endpoint import EndpointClient, EndpointError
from anvil_tui.probes.client.answer import Answer, ToolCall, kept
from anvil_tui.probes.client.errors import shown
from anvil_tui.probes.client.exchange import Exchanged, chat_request, exchange
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.probes.prompts.prompt import needle_frame
from anvil_tui.probes.prompts.sizing import sizer
from anvil_tui.probes.rung import not_sent, scored, sized
from anvil_tui.records.gate import GateCheckName, GateObservation, ToolCallSeen
from anvil_tui.records.probe import MeasureGate
from anvil_tui.records.request import Needle, RequestError, RequestRecord

EVENT_LIMIT = 10_000
"""Events of a streamed tool call that are accepted."""

_WEATHER = "What is the weather in Oakland right now? Use the tool."
_GARBAGE = ("<<tool", "<|", "function=", "\ufffd")
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The present weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "Name of the city"}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
    }
]
_SYSTEM = "You answer each question about the weather with the given tool. " * 400
"""About 5,000 tokens that all requests of a batch share."""

Judge = Callable[[Exchanged], str | None]
"""What is wrong with an answer; None where it is right."""


class Gate:
    """One gate in progress: sends the requests of its checks and hands each observation on."""

    def __init__(self, ask: MeasureGate, watch: HostWatch, observe: Callable[[GateObservation], None]) -> None:
        self.ask = ask
        self.observations: list[GateObservation] = []
        self.watch = watch
        self._observe = observe

    async def run(self, check: GateCheckName) -> None:
        """Make every request of `check`. A check that raises leaves an observation that says so."""
        try:
            await CHECKS[check](self)
        except (EndpointError, ValueError, TypeError, LookupError) as error:
            self.note(GateObservation(check=check, request_index=0, passed=False, words=shown(str(error)), record=None))

    def note(self, observation: GateObservation) -> None:
        self.observations.append(observation)
        self._observe(observation)

    def base(self, index: int) -> RequestRecord:
        ask = self.ask
        return RequestRecord(
            request_index=index,
            outcome="not_sent",
            model=ask.target.model,
            max_tokens=ask.budget.max_tokens,
            reasoning_effort=ask.reasoning_effort,
            nonce=ask.nonce,
        )

    async def chat(
        self,
        check: GateCheckName,
        messages: Sequence[Mapping[str, Any]],
        judge: Judge,
        *,
        index: int = 0,
        stream: bool = False,
        tools: bool = False,
    ) -> Exchanged:
        """Send one request, judge its answer, and note both."""
        extra = {"tools": _TOOLS, "tool_choice": "auto"} if tools else None
        request = chat_request(
            self.ask.target, messages, self.base(index), self.ask.deadlines, stream=stream, extra=extra
        )
        exchanged = await exchange(request, self.watch)
        self.judge(check, exchanged, judge)
        return exchanged

    def judge(self, check: GateCheckName, exchanged: Exchanged, judge: Judge) -> None:
        """Note what came and whether it is right."""
        record, answer = exchanged.record, exchanged.answer
        wrong = _unfinished(record) or judge(exchanged)
        self.note(
            GateObservation(
                check=check,
                request_index=record.request_index,
                passed=wrong is None,
                words=wrong or "as expected",
                record=record,
                tool_calls=tuple(_seen(call) for call in answer.tool_calls),
                reasoning_chars=len(answer.reasoning),
                events=exchanged.events or None,
            )
        )


async def _smoke(gate: Gate) -> None:
    question = "Write one line of Python that sums the list xs. Answer with the code only."
    await gate.chat("smoke", _user(question), lambda got: None if "sum(" in got.answer.content else "no `sum(` in it")


async def _json(gate: Gate) -> None:
    question = (
        'Answer with a JSON object and nothing else. It has the key "language" with the value "python" and the key "ok"'
        " with the value true."
    )
    await gate.chat("json", _user(question), lambda got: wrong_json(got.answer.content))


async def _tools(gate: Gate) -> None:
    messages = [{"role": "system", "content": _SYSTEM}, *_user(_WEATHER)]
    calls = (
        gate.chat("tools", messages, lambda got: wrong_call(got.answer), index=index, tools=True)
        for index in range(gate.ask.tool_batch)
    )
    await asyncio.gather(*calls)


async def _streaming_tools(gate: Gate) -> None:
    await gate.chat("streaming-tools", _user(_WEATHER), _wrong_stream, stream=True, tools=True)


async def _tool_result(gate: Gate) -> None:
    first = await gate.chat("tool-result", _user(_WEATHER), lambda got: wrong_call(got.answer), tools=True)
    if wrong_call(first.answer) is not None:
        return
    call = first.answer.tool_calls[0]
    call_id = call.id or "call_0"
    messages = [
        *_user(_WEATHER),
        {
            "role": "assistant",
            "content": first.answer.content or None,
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            ],
        },
        {
            "role": "tool",
            "tool_call_id": call_id,
            "content": json.dumps({"city": "Oakland", "temperature_f": 72, "sky": "sunny"}),
        },
        *_user("Answer with exactly this and nothing else: OAKLAND 72F"),
    ]

    def judge(got: Exchanged) -> str | None:
        text = got.answer.content.casefold()
        missing = [word for word in ("oakland", "72f") if word not in text]
        return f"no {' and no '.join(missing)} in the final answer" if missing else None

    await gate.chat("tool-result", messages, judge, index=1, tools=True)


async def _responses(gate: Gate) -> None:
    ask, base = gate.ask, gate.base(0)
    sent_at, sent_ns = utc_now(), perf_counter_ns()
    try:
        async with EndpointClient(ask.target.base_url, api_key_env=ask.target.api_key_env) as endpoint:
            got = await endpoint.respond(
                ask.target.model,
                "Reply with exactly READY",
                max_output_tokens=base.max_tokens,
                reasoning_effort=ask.reasoning_effort,
                timeout_s=ask.deadlines.total_s or 600.0,
            )
    except EndpointError as error:
        failed = RequestError(message=shown(str(error)), status=error.status)
        outcome = "http_error" if error.status else "disconnected"
        record = replace(base, outcome=outcome, error=failed, sent_at=sent_at)
        words = f"no answer of the Responses API: {failed.message}"
        gate.note(GateObservation(check="responses", request_index=0, passed=False, words=words, record=record))
        return
    text, reasoning = got.text("output_text"), got.text("reasoning_text")
    wrong = None
    if got.status != "completed":
        wrong = f"status {got.status!r}, not 'completed'"
    elif text.strip() != "READY":
        wrong = f"{shown(text)[:80]!r}, not 'READY'"
    usage, end_ns = got.usage, perf_counter_ns()
    details = usage.output_tokens_details if usage else None
    record = replace(
        base,
        outcome="ok" if got.status == "completed" else "truncated",
        request_id=got.id,
        sent_at=sent_at,
        sent_us=sent_ns // 1000,
        ended_us=end_ns // 1000,
        e2e_ms=(end_ns - sent_ns) / 1e6,
        prompt_tokens=usage.input_tokens if usage else None,
        output_tokens=usage.output_tokens if usage else None,
        reasoning_tokens=details.reasoning_tokens if details else None,
        finish_reason="stop" if got.status == "completed" else None,
        content=kept(text),
        reasoning=kept(reasoning),
    )
    gate.note(
        GateObservation(
            check="responses",
            request_index=0,
            passed=wrong is None,
            words=wrong or "as expected",
            record=record,
            reasoning_chars=len(reasoning),
            response_status=shown(got.status or "") or None,
        )
    )


async def _needle(gate: Gate) -> None:
    ask = gate.ask
    if ask.needle_tokens is None:
        raise ValueError("the check `needle` needs needle_tokens, the length of its prompt")
    async with sizer(ask.target, ask.reasoning_effort) as sizes:
        for index, depth in enumerate(ask.needle_depths):
            nonce = f"{ask.nonce}-needle-{index}"
            prompt = await sized(sizes, needle_frame(nonce, depth), ask.needle_tokens)
            base = replace(gate.base(index), nonce=nonce, sizing=prompt.sizing)
            if prompt.message is None:
                record = not_sent(base, prompt.sizing.error or "the prompt could not be sized")
                gate.judge("needle", Exchanged(record=record, answer=Answer()), lambda _: None)
                continue
            request = chat_request(ask.target, _user(prompt.message), base, ask.deadlines)
            exchanged = await exchange(request, gate.watch)
            needle = scored(exchanged, nonce, depth)
            found = replace(exchanged, record=replace(exchanged.record, needle=needle))
            gate.judge("needle", found, lambda got: _missed(got.record.needle))


CHECKS: Mapping[GateCheckName, Callable[[Gate], Awaitable[None]]] = {
    "smoke": _smoke,
    "json": _json,
    "tools": _tools,
    "streaming-tools": _streaming_tools,
    "tool-result": _tool_result,
    "responses": _responses,
    "needle": _needle,
}


def wrong_json(content: str) -> str | None:
    """What is wrong with an answer that should be an object with `language: "python"` and `ok: true`."""
    start, end = content.find("{"), content.rfind("}")
    if start < 0 or end < start:
        return "no JSON object in it"
    try:
        value = json.loads(content[start : end + 1])
    except ValueError as error:
        return f"no valid JSON: {error}"
    if not isinstance(value, dict) or str(value.get("language")).casefold() != "python" or value.get("ok") is not True:
        return 'not the object with language "python" and ok true'
    return None


def wrong_call(answer: Answer) -> str | None:
    """What is wrong with an answer that should be one valid call of the weather tool."""
    marker = next((one for one in _GARBAGE if one in answer.content), None)
    if marker is not None:
        return f"{marker!r} leaked into the visible answer"
    if not answer.tool_calls:
        return "no tool call"
    call = answer.tool_calls[0]
    if call.name != "get_weather":
        return f"a call of {shown(call.name)!r}, not of 'get_weather'"
    arguments = call.parsed()
    if arguments is None:
        return "the arguments are no JSON object"
    city = arguments.get("city")
    if not isinstance(city, str) or not city.strip():
        return "the argument city is no text"
    return None


def _wrong_stream(got: Exchanged) -> str | None:
    record = got.record
    if got.events > EVENT_LIMIT:
        return f"{got.events:,} events, more than {EVENT_LIMIT:,}"
    wrong = wrong_call(got.answer)
    if wrong is None and not record.saw_done:
        return "the stream ended without [DONE]"
    if wrong is None and record.finish_reason != "tool_calls":
        return f"finish reason {record.finish_reason!r}, not 'tool_calls'"
    return wrong


def _missed(needle: Needle | None) -> str | None:
    return (
        None if needle and needle.found else f"the code at depth {needle.depth if needle else 0:g} is not in the answer"
    )


def _unfinished(record: RequestRecord) -> str | None:
    """Why an answer cannot be judged: it never came whole."""
    if record.outcome == "ok":
        return None
    if record.outcome == "no_visible_content":
        spent = "" if record.output_tokens is None else f" of {record.output_tokens:,} tokens"
        return f"no visible content: the budget{spent} went into reasoning or was cut"
    if record.outcome == "truncated":
        return f"cut by the budget of {record.max_tokens:,} tokens"
    return f"{record.outcome}{f': {record.error.message}' if record.error else ''}"


def _seen(call: ToolCall) -> ToolCallSeen:
    return ToolCallSeen(name=shown(call.name), arguments=shown(call.arguments))


def _user(content: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": content}]
