"""The gate against a scripted lane: what passes, what fails, and how it is told."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from anvil_tui.probes.checks import wrong_call, wrong_json
from anvil_tui.probes.client.answer import Answer
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.probes.gate import measure_gate, policy_errors
from anvil_tui.records.gate import EvidencePolicy, GateBudget, GateCheckName, GateObservation, GateResult
from anvil_tui.records.probe import MeasureGate, Target
from anvil_tui.records.request import RequestRecord


class Lane:
    """An endpoint in this process whose answers a test writes; it keeps what it was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.bodies: list[tuple[str, dict[str, Any]]] = []

    async def __aenter__(self) -> Lane:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = next(
            int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")
        )
        path, body = head.split()[1], json.loads(await reader.readexactly(length))
        self.bodies.append((path, body))
        status, kind, text = self.answer(path, body)
        raw = text.encode()
        writer.write(
            f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(raw)}\r\n"
            "Connection: close\r\n\r\n".encode()
            + raw
        )
        await writer.drain()
        writer.close()


def completion(message: dict[str, Any], finish: str = "stop", reasoning: int | None = None) -> tuple[int, str, str]:
    usage: dict[str, Any] = {"prompt_tokens": 20, "completion_tokens": 9}
    if reasoning is not None:
        usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return 200, "application/json", json.dumps({"id": "x", "choices": [choice], "usage": usage})


def call(arguments: str = '{"city": "Oakland"}', name: str = "get_weather") -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def good(path: str, body: dict[str, Any]) -> tuple[int, str, str]:
    if path == "/v1/responses":
        output = [{"type": "message", "content": [{"type": "output_text", "text": "READY"}]}]
        return 200, "application/json", json.dumps({"id": "r", "status": "completed", "output": output})
    if path == "/tokenize":
        return 200, "application/json", json.dumps({"count": len(body["messages"][0]["content"].split()) + 5})
    text = body["messages"][-1]["content"]
    if "exactly this" in text:
        return completion({"content": "OAKLAND 72F"})
    if body.get("stream") and "access code" in text:
        code = text.split("archive is ")[1].split(".")[0]
        return events([{"content": code}], "stop")
    if body.get("stream"):
        first = {"index": 0, "id": "c1", "function": {"name": "get_weather", "arguments": ""}}
        rest = {"index": 0, "function": {"arguments": '{"city": "Oakland"}'}}
        return events([{"tool_calls": [first]}, {"tool_calls": [rest]}], "tool_calls")
    if body.get("tools"):
        return completion({"content": None, "tool_calls": [call()]}, "tool_calls")
    if "JSON" in text:
        return completion({"content": 'Here: {"language": "python", "ok": true}'})
    return completion({"content": "total = sum(xs)", "reasoning": "easy"})


def events(deltas: list[dict[str, Any]], finish: str) -> tuple[int, str, str]:
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
    chunks += [{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}}]
    lines = [f"data: {json.dumps(one)}\n\n" for one in chunks]
    return 200, "text/event-stream", "".join([*lines, "data: [DONE]\n\n"])


ALL: tuple[GateCheckName, ...] = (
    "smoke",
    "json",
    "tools",
    "streaming-tools",
    "tool-result",
    "responses",
    "needle",
)


def run(answer: Any, **how: Any) -> tuple[GateResult, Lane]:
    async def gated() -> tuple[GateResult, Lane]:
        async with Lane(answer) as lane, HostWatch() as watch:
            asked = {"checks": ALL, "tool_batch": 3, "needle_tokens": 400, "nonce": "n", **how}
            ask = MeasureGate(id="g", target=Target(base_url=lane.base_url, model="m"), **asked)
            seen: list[GateObservation] = []
            result = await measure_gate(ask, watch, seen.append)
            assert tuple(seen) == result.observations
            return result, lane

    return asyncio.run(gated())


def test_a_good_lane_passes() -> None:
    result, lane = run(good, reasoning_effort="low", budget=GateBudget(visible_answer_tokens=512))
    assert result.passed, result
    assert [check.passed for check in result.checks] == [True] * 7
    assert len([one for one in result.observations if one.check == "tools"]) == 3
    sent = [body for path, body in lane.bodies if path == "/v1/chat/completions"]
    assert all(body["reasoning_effort"] == "low" for body in sent)
    assert all(body["max_tokens"] == 512 for body in sent)
    responses = next(body for path, body in lane.bodies if path == "/v1/responses")
    assert responses["reasoning"] == {"effort": "low"}
    final = sent[-2]["messages"] if "access" in sent[-1]["messages"][-1]["content"] else sent[-1]["messages"]
    assert [message["role"] for message in final] == ["user", "assistant", "tool", "user"]
    streamed = next(one for one in result.observations if one.check == "streaming-tools")
    assert streamed.events == 5
    assert streamed.tool_calls[0].arguments == '{"city": "Oakland"}'


def broken(check: str) -> Any:
    """A lane whose answers to one check are wrong although each is a 200."""

    def answer(path: str, body: dict[str, Any]) -> tuple[int, str, str]:
        text = body["messages"][-1]["content"] if "messages" in body else ""
        streamed = bool(body.get("stream"))
        if check == "smoke" and "sums the list" in text:
            return completion({"content": "for x in xs: total += x"})
        if check == "json" and "JSON" in text:
            return completion({"content": '{"language": "rust", "ok": true}'})
        if check == "tools" and body.get("tools") and not streamed and "system" in body["messages"][0]["role"]:
            return completion({"content": "<tool_call>get_weather</tool_call>"})
        if check == "streaming-tools" and streamed and body.get("tools"):
            return events([{"tool_calls": [call('{"city": ')]}], "tool_calls")
        if check == "tool-result" and "exactly this" in text:
            return completion({"content": "It is sunny."})
        if check == "responses" and path == "/v1/responses":
            return 200, "application/json", '{"status": "incomplete", "output": []}'
        if check == "needle" and streamed and "access code" in text:
            return events([{"content": "1234-1234"}], "stop")
        return good(path, body)

    return answer


@pytest.mark.parametrize("check", ALL)
def test_each_check_can_fail_alone(check: str) -> None:
    result, _ = run(broken(check))
    assert not result.passed
    assert [one.name for one in result.checks if not one.passed] == [check]
    failed = next(one for one in result.observations if one.check == check and not one.passed)
    assert failed.words
    assert failed.record is not None


def test_a_dead_lane_leaves_an_observation_for_each_check() -> None:
    result, _ = run(lambda path, body: (500, "text/plain", "Internal Server Error"))
    assert {one.check for one in result.observations} == set(ALL)
    assert not any(one.passed for one in result.observations)
    assert all("500" in one.words or "Internal" in one.words for one in result.observations)


def test_a_cut_answer_is_cut_and_not_wrong() -> None:
    def answer(path: str, body: dict[str, Any]) -> tuple[int, str, str]:
        return completion({"content": '{"language": "py'}, "length")

    result, _ = run(answer, checks=("json",))
    assert "cut by the budget" in result.observations[0].words
    assert result.policy_errors


def test_a_budget_spent_on_reasoning_is_named() -> None:
    def answer(path: str, body: dict[str, Any]) -> tuple[int, str, str]:
        return completion({"content": None, "reasoning": "hmm"}, "length")

    result, _ = run(answer, checks=("smoke",))
    assert "no visible content" in result.observations[0].words


def observation(check: GateCheckName, *, chars: int = 0, tokens: int | None = None, finish: str | None = "stop") -> Any:
    record = RequestRecord(
        request_index=0, outcome="ok", model="m", max_tokens=9, reasoning_tokens=tokens, finish_reason=finish
    )
    return GateObservation(check=check, request_index=0, passed=True, words="", record=record, reasoning_chars=chars)


@pytest.mark.parametrize(
    ("reasoning", "scope", "observations", "errors"),
    [
        ("any", "gate", [observation("smoke")], 0),
        ("required", "gate", [observation("smoke"), observation("json", chars=5)], 0),
        ("required", "gate", [observation("smoke"), observation("json", tokens=5)], 0),
        ("required", "gate", [observation("smoke"), observation("json", tokens=0)], 1),
        ("required", "check", [observation("smoke"), observation("json", chars=5)], 1),
        ("forbidden", "gate", [observation("smoke"), observation("json", chars=5)], 1),
        ("forbidden", "check", [observation("smoke", chars=1), observation("json", chars=5)], 2),
        ("any", "gate", [observation("smoke", finish="length")], 1),
        ("any", "gate", [observation("smoke", finish=None)], 0),
    ],
)
def test_policy(reasoning: Any, scope: Any, observations: list[GateObservation], errors: int) -> None:
    policy = EvidencePolicy(reasoning=reasoning, reasoning_scope=scope)
    assert len(list(policy_errors(policy, ("smoke", "json"), observations))) == errors


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ('{"language": "Python", "ok": true}', None),
        ('```json\n{"language": "python", "ok": true}\n```', None),
        ("none", "no JSON object"),
        ("{", "no JSON object"),
        ('{"language": }', "no valid JSON"),
        ('{"language": "python"}', "not the object"),
        ('{"language": "python", "ok": "true"}', "not the object"),
    ],
)
def test_wrong_json(content: str, wrong: str | None) -> None:
    found = wrong_json(content)
    assert found is None if wrong is None else found is not None and found.startswith(wrong)


@pytest.mark.parametrize(
    ("delta", "wrong"),
    [
        ({"tool_calls": [call()]}, None),
        ({"content": "no tool"}, "no tool call"),
        ({"content": "<|tool|>", "tool_calls": [call()]}, "leaked"),
        ({"tool_calls": [call(name="other")]}, "not of 'get_weather'"),
        ({"tool_calls": [call("4.03e+147")]}, "no JSON object"),
        ({"tool_calls": [call('{"city": "')]}, "no JSON object"),
        ({"tool_calls": [call('{"city": " "}')]}, "no text"),
        ({"tool_calls": [call("{}")]}, "no text"),
    ],
)
def test_wrong_call(delta: dict[str, Any], wrong: str | None) -> None:
    answer = Answer()
    answer.add(delta)
    found = wrong_call(answer)
    assert found is None if wrong is None else found is not None and wrong in found
