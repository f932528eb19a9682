"""The endpoint client against a real server in another process, and its errors against every kind of bad answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator

import pytest

from anvil_tui.engines.endpoint import EndpointClient, EndpointError, api_base
from anvil_tui.errors import CannotRun
from tests.scripted_server import Script, ScriptedServer, count_messages

ROUTES = {
    "/version": (200, "application/json", '{"version": "0.32.0"}'),
    "/metrics": (200, "text/plain", "vllm:num_requests_running 1\n"),
    "/v1/responses": (
        200,
        "application/json",
        '{"id": "r", "status": "completed", "output": [{"type": "reasoning", "content": [{"type": "reasoning_text",'
        ' "text": "hm"}]}, {"type": "message", "content": [{"type": "output_text", "text": "READY"}]}],'
        ' "usage": {"input_tokens": 9, "output_tokens": 4, "output_tokens_details": {"reasoning_tokens": 2}}}',
    ),
}
Call = Callable[[EndpointClient], Awaitable[object]]


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer({"m": Script(steps=())}, routes=ROUTES) as one:
        yield one


def ask(base_url: str, call: Call, **how: object) -> object:
    async def run() -> object:
        async with EndpointClient(base_url, **how) as endpoint:  # type: ignore[arg-type]
            return await call(endpoint)

    return asyncio.run(run())


def served(status: int, body: str, kind: str = "application/json") -> Iterator[ScriptedServer]:
    routes = dict.fromkeys(("/v1/models", "/version", "/health", "/metrics", "/tokenize"), (status, kind, body))
    with ScriptedServer({}, routes={**routes, "/v1/chat/completions": (status, kind, body)}) as one:
        yield one


@pytest.mark.parametrize(
    ("given", "base"),
    [
        ("http://h:1", "http://h:1"),
        ("http://h:1/", "http://h:1"),
        ("http://h:1/v1", "http://h:1"),
        ("http://h:1/v1/", "http://h:1"),
        ("https://h/openai/v1", "https://h/openai"),
    ],
)
def test_api_base(given: str, base: str) -> None:
    assert api_base(given) == base


def test_good_answers(server: ScriptedServer) -> None:
    async def everything(endpoint: EndpointClient) -> None:
        (model,) = await endpoint.models()
        assert (model.id, model.length) == ("m", 1 << 20)
        assert await endpoint.version() == "0.32.0"
        assert await endpoint.health() is True
        assert "num_requests_running" in await endpoint.metrics()
        messages = [{"role": "user", "content": "The harbour, 42."}]
        plain = await endpoint.tokenize("m", messages)
        assert plain.count == len(count_messages(messages))
        assert plain.token_strs is None
        shown = await endpoint.tokenize("m", messages, token_strs=True, chat_template_kwargs={"enable_thinking": False})
        assert shown.token_strs is not None
        assert len(shown.token_strs) == shown.count
        one = await endpoint.one_token("m", messages=messages, reasoning_effort="low")
        assert (one.prompt_tokens, one.completion_tokens) == (plain.count, 1)
        answer = await endpoint.respond("m", "Reply", max_output_tokens=8, reasoning_effort="low")
        assert (answer.status, answer.text("output_text"), answer.text("reasoning_text")) == (
            "completed",
            "READY",
            "hm",
        )

    ask(server.base_url + "/v1", everything)


CALLS: list[Call] = [
    lambda endpoint: endpoint.models(),
    lambda endpoint: endpoint.version(),
    lambda endpoint: endpoint.tokenize("m", []),
    lambda endpoint: endpoint.one_token("m"),
]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (500, "boom \x1b[31m", "HTTP 500: boom"),
        (404, '{"detail":"Not Found"}', "HTTP 404"),
        (302, "", "HTTP 302"),
        (200, "<html>", "malformed"),
        (200, "{}", "missing required field"),
        (200, "[]", "Expected `object`"),
        (200, "", "Input data was truncated"),
    ],
)
def test_bad_answers_are_said(call: Call, status: int, body: str, words: str) -> None:
    for server in served(status, body):
        with pytest.raises(EndpointError) as caught:
            ask(server.base_url, call)
        assert words in str(caught.value)
        assert "\x1b" not in str(caught.value)
        assert caught.value.status == status
        assert not caught.value.refused


def test_a_completion_without_a_choice_is_no_life() -> None:
    for server in served(200, '{"choices": []}'):
        with pytest.raises(EndpointError, match="without a choice"):
            ask(server.base_url, lambda endpoint: endpoint.one_token("m"))


def test_health_says_what_the_status_says() -> None:
    for server in served(503, ""):
        assert ask(server.base_url, lambda endpoint: endpoint.health()) is False


def test_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(EndpointError, match="cannot connect") as caught:
            ask(f"http://127.0.0.1:{port}", lambda endpoint: endpoint.models())
    assert caught.value.refused


def test_a_silent_server_meets_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        with pytest.raises(EndpointError, match=r"no answer within 0\.2 s"):
            ask(f"http://127.0.0.1:{port}", lambda endpoint: endpoint.models(timeout_s=0.2))


def test_the_key_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, server: ScriptedServer) -> None:
    with pytest.raises(CannotRun, match="KEY_OF_LANE is not set"):
        ask(server.base_url, lambda endpoint: endpoint.models(), api_key_env="KEY_OF_LANE")
    monkeypatch.setenv("KEY_OF_LANE", "abc")
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert ask(server.base_url, lambda endpoint: endpoint.models(), api_key_env="KEY_OF_LANE")
