"""The engine as a real process: how it comes up, what it answers, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from anvil_tui.rehearsal import engine as engine_module
from anvil_tui.rehearsal.timeline import TimelineReader, timeline_path

from .conftest import DEADLINE_S, Engine, free_port, small, start, until

MODEL = "rehearsal-small"
TEXT = "def add(value):\n    return value + 1\n"


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def stream(engine: Engine, path: str = "/v1/chat/completions", **body: Any) -> list[dict[str, Any] | str]:
    """The data of each server-sent event; what is no JSON stays text."""
    with engine.http.stream("POST", path, json={"model": MODEL, "stream": True} | body) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["content-type"].startswith("text/event-stream")
        data = [line[6:] for line in answer.iter_lines() if line.startswith("data: ")]
    return [json.loads(one) if one.startswith("{") else one for one in data]


def chat(engine: Engine, text: str, **body: Any) -> dict[str, Any]:
    answer = engine.http.post("/v1/chat/completions", json={"model": MODEL, "messages": user(text)} | body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def count(engine: Engine, text: str) -> int:
    return int(engine.http.post("/tokenize", json={"model": MODEL, "messages": user(text)}).json()["count"])


# The stream


def test_the_order_of_a_chat_stream(engine: Engine) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    chunks = stream(engine, messages=user("Reply with exactly READY"), stream_options=options)
    assert chunks[-1] == "[DONE]"
    role, *deltas, usage = [chunk for chunk in chunks if isinstance(chunk, dict)]
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert role["usage"]["completion_tokens"] == 0
    kinds = ["".join(delta["choices"][0]["delta"]) for delta in deltas]
    assert kinds == sorted(kinds, reverse=True)
    assert set(kinds) == {"reasoning", "content"}
    assert [delta["choices"][0]["finish_reason"] for delta in deltas] == [None] * (len(deltas) - 1) + ["stop"]
    counts = [delta["usage"]["completion_tokens"] for delta in deltas]
    assert counts == sorted(counts)
    assert counts[-1] == usage["usage"]["completion_tokens"]
    assert usage["choices"] == []
    assert usage["usage"]["prompt_tokens"] == count(engine, "Reply with exactly READY")
    assert usage["usage"]["completion_tokens_details"]["reasoning_tokens"] == counts[-1] - 1
    assert len({chunk["id"] for chunk in [role, *deltas, usage]}) == 1


def test_speculation_puts_several_tokens_in_a_chunk(engine: Engine) -> None:
    before = {
        name: engine.metric(f"spec_decode_num_{name}_total") for name in ("drafts", "draft_tokens", "accepted_tokens")
    }
    chunks = stream(
        engine, messages=user("Summarise."), max_tokens=400, ignore_eos=True, stream_options={"include_usage": True}
    )
    deltas = [chunk for chunk in chunks if isinstance(chunk, dict) and chunk["choices"]][1:]
    assert len(deltas) < 200
    assert deltas[-1]["choices"][0]["finish_reason"] == "length"
    drafts, drafted, accepted = (engine.metric(f"spec_decode_num_{name}_total") - before[name] for name in before)
    assert drafted == 5 * drafts
    assert accepted / drafted == pytest.approx(0.46, abs=0.08)
    assert engine.metric("spec_decode_num_accepted_tokens_per_pos_total") == engine.metric(
        "spec_decode_num_accepted_tokens_total"
    )


def test_usage_is_sent_only_where_it_is_asked_for(engine: Engine) -> None:
    chunks = stream(engine, messages=user("Reply with exactly READY"))
    assert all("usage" not in chunk for chunk in chunks if isinstance(chunk, dict))


def test_reasoning_that_is_not_included_is_still_counted(engine: Engine) -> None:
    asked: dict[str, Any] = {"include_reasoning": False, "max_tokens": 5, "stream_options": {"include_usage": True}}
    chunks = stream(engine, messages=user("Summarise."), **asked)
    role, last, usage = [chunk for chunk in chunks if isinstance(chunk, dict)]
    assert role["choices"][0]["delta"]["content"] == ""
    assert last["choices"][0] == {
        "index": 0,
        "delta": {},
        "logprobs": None,
        "finish_reason": "length",
        "token_ids": None,
    }
    assert usage["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5


WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}


def test_a_streamed_tool_call(engine: Engine) -> None:
    chunks = stream(engine, messages=user("What is the weather in Oakland? Use the tool."), tools=[WEATHER])
    choices = [chunk["choices"][0] for chunk in chunks if isinstance(chunk, dict)]
    calls = [choice["delta"]["tool_calls"][0] for choice in choices if "tool_calls" in choice["delta"]]
    assert calls[0]["type"] == "function"
    assert calls[0]["id"]
    assert calls[0]["function"] == {"name": "get_weather", "arguments": ""}
    assert all(set(call) == {"index", "function"} for call in calls[1:])
    assert json.loads("".join(call["function"]["arguments"] for call in calls)) == {"city": "Oakland"}
    assert choices[-1]["finish_reason"] == "tool_calls"


# Whole answers


def test_a_whole_answer(engine: Engine) -> None:
    body = chat(engine, "Reply with exactly READY", reasoning_effort="low")
    message = body["choices"][0]["message"]
    assert message["content"] == "READY"
    assert message["reasoning"]
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"]


def test_effort_scales_reasoning(engine: Engine) -> None:
    spent = [
        chat(engine, "Summarise.", reasoning_effort=effort)["usage"]["completion_tokens_details"]["reasoning_tokens"]
        for effort in ("none", "minimal", "low", "high", "max")
    ]
    assert spent[0] == 0
    assert spent == sorted(spent)
    quiet = chat(engine, "Summarise.", chat_template_kwargs={"enable_thinking": False})
    assert quiet["choices"][0]["message"]["reasoning"] is None


def test_a_named_function_ends_with_stop(engine: Engine) -> None:
    choice = {"type": "function", "function": {"name": "get_weather"}}
    body = chat(engine, "Oakland, please", tools=[WEATHER], tool_choice=choice)
    assert body["choices"][0]["finish_reason"] == "stop"
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "get_weather"


def test_min_tokens_and_seed(engine: Engine) -> None:
    longer = chat(engine, "Reply with exactly READY", min_tokens=120, max_tokens=300)
    assert longer["usage"]["completion_tokens"] == 120
    assert longer["choices"][0]["finish_reason"] == "stop"
    one, two = (chat(engine, "Summarise.", seed=seed)["choices"][0]["message"]["content"] for seed in (1, 2))
    assert one == chat(engine, "Summarise.", seed=1)["choices"][0]["message"]["content"] != two


def test_json_objects(engine: Engine) -> None:
    body = chat(engine, 'Return language:"python" and ok:true.', response_format={"type": "json_object"})
    assert json.loads(body["choices"][0]["message"]["content"]) == {"language": "python", "ok": True}


def test_responses(engine: Engine) -> None:
    body = engine.http.post("/v1/responses", json={"model": MODEL, "input": "Reply with exactly READY"}).json()
    assert body["status"] == "completed"
    texts = [part["text"] for item in body["output"] if item["type"] == "message" for part in item["content"]]
    assert texts == ["READY"]
    cut = engine.http.post("/v1/responses", json={"input": "Summarise.", "max_output_tokens": 3}).json()
    assert (cut["status"], cut["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})


def test_a_stream_of_responses(engine: Engine) -> None:
    events = stream(engine, "/v1/responses", input=[{"role": "user", "content": "Reply with exactly READY"}])
    kinds = [event["type"] for event in events if isinstance(event, dict)]
    assert len(kinds) == len(events)
    assert kinds[:3] == ["response.created", "response.in_progress", "response.output_item.added"]
    assert kinds[-1] == "response.completed"
    assert [event["sequence_number"] for event in events if isinstance(event, dict)] == list(range(len(events)))
    deltas = [
        event["delta"] for event in events if isinstance(event, dict) and event["type"].endswith("output_text.delta")
    ]
    assert "".join(deltas) == "READY"


# Tokens, cache, counters


@pytest.mark.parametrize("repeats", [0, 1, 40, 400])
def test_the_tokenizer_endpoint_counts_what_usage_counts(engine: Engine, repeats: int) -> None:
    text = TEXT * repeats + "Reply with exactly READY"
    assert chat(engine, text)["usage"]["prompt_tokens"] == count(engine, text)


def test_tokenize_and_detokenize(engine: Engine) -> None:
    body = engine.http.post("/tokenize", json={"prompt": "Hello there, 123 — ok", "return_token_strs": True}).json()
    assert body["count"] == len(body["tokens"]) == len(body["token_strs"])
    assert body["max_model_len"] == 16384
    back = engine.http.post("/detokenize", json={"tokens": body["tokens"]}).json()
    assert back == {"prompt": "<|begin|>Hello there, 123 — ok"}


def test_a_repeated_prompt_is_cached_but_not_under_another_salt(engine: Engine) -> None:
    text = "cached " * 1200
    cold, warm, salted = (
        chat(engine, text, **body)["usage"]["prompt_tokens_details"]["cached_tokens"]
        for body in ({}, {}, {"cache_salt": "other"})
    )
    assert (cold, warm, salted) == (0, 1024, 0)


def test_counters_follow_the_requests(engine: Engine) -> None:
    names = ("prompt_tokens_total", "generation_tokens_total", "prefix_cache_queries_total", "request_success_total")
    before = [engine.metric(name) for name in names]
    usage = chat(engine, "Count me.")["usage"]
    prompt, generated, queried, requests = (engine.metric(name) - old for name, old in zip(names, before, strict=True))
    assert (prompt, generated, queried) == (usage["prompt_tokens"], usage["completion_tokens"], usage["prompt_tokens"])
    assert requests == 1
    text = engine.http.get("/metrics").text
    assert 'num_gpu_blocks="400"' in text
    assert 'kv_cache_max_concurrency="2.0"' in text
    assert 'kv_cache_size_tokens="32768"' in text
    assert "process_start_time_seconds " in text


def test_the_log_tells_what_was_done(engine: Engine) -> None:
    chat(engine, "Count me in the log, too.")
    until(lambda: "Engine 000: Avg prompt throughput: " in engine.log.read_text(), "the log tells the throughput")
    until(lambda: "Per-position acceptance rate: " in engine.log.read_text(), "the log tells the acceptance")


def test_a_client_that_hangs_up_ends_its_request(engine: Engine) -> None:
    aborted = 'request_success_total{engine="0",model_name="rehearsal-small",finished_reason="abort"}'

    def aborts() -> float:
        lines = engine.http.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if aborted in line)

    before = aborts()
    url = f"{engine.http.base_url}/v1/chat/completions"
    body = {"messages": user("Go on."), "max_tokens": 16000, "ignore_eos": True}
    with httpx.stream("POST", url, json=body | {"stream": True}) as answer:
        next(answer.iter_lines())
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(url, json=body, timeout=0.2)
    until(lambda: aborts() == before + 2, "both requests are aborted")
    until(lambda: engine.metric("num_requests_running") == 0, "nothing runs")


def test_many_streams_at_once(engine: Engine) -> None:
    answers: list[list[dict[str, Any] | str]] = []

    def one(place: int) -> None:
        answers.append(stream(engine, messages=user(f"Number {place}. Summarise."), max_tokens=200, ignore_eos=True))

    threads = [threading.Thread(target=one, args=(place,)) for place in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_S)
    assert len(answers) == 12
    assert all(answer[-1] == "[DONE]" for answer in answers)


# Refusals


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param"),
    [
        ("/v1/chat/completions", {"model": "nope", "messages": user("x")}, 404, "NotFoundError", "model"),
        ("/v1/chat/completions", {"model": MODEL}, 400, "Bad Request", "messages"),
        (
            "/v1/chat/completions",
            {"messages": user("x"), "reasoning_effort": "ultra"},
            400,
            "Bad Request",
            "reasoning_effort",
        ),
        ("/v1/chat/completions", {"messages": user("x"), "max_tokens": 0}, 400, "BadRequestError", "max_tokens"),
        ("/v1/chat/completions", {"messages": user("x"), "max_tokens": 16385}, 400, "BadRequestError", "max_tokens"),
        ("/v1/chat/completions", {"messages": user("x"), "max_tokens": 16384}, 400, "BadRequestError", "input_tokens"),
        ("/v1/chat/completions", {"messages": user("x " * 16384)}, 400, "BadRequestError", "input_tokens"),
        (
            "/v1/chat/completions",
            {"messages": user("x"), "max_tokens": 5, "min_tokens": 6},
            400,
            "BadRequestError",
            "min_tokens",
        ),
        (
            "/v1/responses",
            {"input": "x", "previous_response_id": "resp_1"},
            404,
            "invalid_request_error",
            "previous_response_id",
        ),
        ("/tokenize", {}, 400, "Bad Request", "prompt"),
        ("/detokenize", {"tokens": [255]}, 400, "BadRequestError", "tokens"),
    ],
)
def test_refusals(engine: Engine, path: str, body: dict[str, Any], status: int, kind: str, param: str) -> None:
    answer = engine.http.post(path, json=body)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == (kind, param, status)


def test_the_words_of_a_prompt_that_is_too_long(engine: Engine) -> None:
    answer = engine.http.post("/v1/chat/completions", json={"messages": user("x " * 20000)})
    message = answer.json()["error"]["message"]
    assert message.startswith(
        "This model's maximum context length is 16384 tokens. However, your prompt contains at least"
    )
    assert message.endswith("(parameter=input_tokens, value=20005)")


def test_what_is_no_json_and_what_is_no_route(engine: Engine) -> None:
    answer = engine.http.post("/v1/chat/completions", content=b"{")
    assert (answer.status_code, answer.json()["error"]["type"]) == (400, "Bad Request")
    assert engine.http.post("/reset_prefix_cache").status_code == 404
    assert engine.http.get("/v1/chat/completions").json() == {"detail": "Method Not Allowed"}


def test_models_and_version(engine: Engine) -> None:
    (card,) = engine.http.get("/v1/models").json()["data"]
    assert (card["id"], card["max_model_len"], card["root"]) == (MODEL, 16384, "example/Small-V1")
    assert engine.http.get("/version").json() == {"version": "0.32.0"}


# The process


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Engine]:
    """An engine of the test's own, still starting."""
    running = start(small(tmp_path / "timelines", free_port()), tmp_path)
    try:
        yield running
    finally:
        running.end()


def held(engine: Engine) -> int:
    return TimelineReader(timeline_path(Path(engine.config.timelines), "GPU-a")).load().mib


def test_sigterm_ends_open_answers_and_exits_0(own: Engine) -> None:
    own.wait_ready()
    assert held(own) > 90_000
    body = {"messages": user("Go on."), "max_tokens": 16000, "ignore_eos": True, "stream": True}
    with own.http.stream("POST", "/v1/chat/completions", json=body) as answer:
        lines = answer.iter_lines()
        next(lines)
        own.process.send_signal(signal.SIGTERM)
        data = [line for line in lines if line.startswith("data: ")]
    assert '"type":"InternalServerError"' in data[-2]
    assert data[-1] == "data: [DONE]"
    assert own.process.wait(DEADLINE_S) == 0
    assert held(own) == 0
    assert [line.split(None, 1)[1] for line in own.log.read_text().splitlines()[-4:]] == [
        "Shutting down",
        "Waiting for application shutdown.",
        "Application shutdown complete.",
        f"Finished server process [{own.process.pid}]",
    ]


def test_a_killed_engine_gives_its_memory_back(own: Engine) -> None:
    own.wait_ready()
    own.process.kill()
    own.process.wait()
    assert held(own) == 0


def test_connections_are_refused_while_it_loads(tmp_path: Path) -> None:
    config = small(tmp_path / "timelines", free_port())
    config = msgspec.structs.replace(
        config, engine=msgspec.structs.replace(config.engine, startup_seconds=100, startup_time_scale=60)
    )
    running = start(config, tmp_path)
    try:
        until(lambda: "Loading safetensors" in running.log.read_text(), "it loads")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", config.port), timeout=DEADLINE_S)
        began = time.monotonic()
        running.wait_ready()
        assert time.monotonic() - began < 2.5
    finally:
        running.end()


def test_a_port_in_use_is_told_before_anything_loads(own: Engine, tmp_path: Path) -> None:
    own.wait_ready()
    (tmp_path / "second").mkdir()
    second = start(own.config, tmp_path / "second")
    assert second.process.wait(DEADLINE_S) == 1
    second.end()
    assert second.log.read_text().endswith("OSError: [Errno 98] Address already in use\n")


def test_a_second_lane_finds_the_gpus_taken(own: Engine, tmp_path: Path) -> None:
    own.wait_ready()
    (tmp_path / "second").mkdir()
    second = start(msgspec.structs.replace(own.config, port=free_port()), tmp_path / "second")
    assert second.process.wait(DEADLINE_S) == 1
    second.end()
    text = second.log.read_text()
    assert "ValueError: Free memory on device cuda:0 (" in text
    assert "is less than desired GPU memory utilization (" in text
    assert "RuntimeError: Engine core initialization failed." in text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"recipe": {"max_model_len": 10, "tensor_parallel_size": 1}}, "gpus: 2 of them"),
        ({"recipe": {"tensor_parallel_size": 2}}, "recipe.max_model_len: missing"),
        ({"engine": {"kv_blocks": 1}}, "engine.kv_blocks: 1"),
        ({"engine": {"kv_blocks": 1000, "kv_blocks_per_request": 10, "acceptance": [0.2, 0.4]}}, "engine.acceptance"),
        ({"port": "x"}, "port: 'x'"),
    ],
)
def test_a_configuration_that_cannot_be(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], changed: dict[str, Any], words: str
) -> None:
    plain = msgspec.to_builtins(small(tmp_path / "timelines", free_port()))
    config = tmp_path / "engine.json"
    config.write_bytes(msgspec.json.encode(plain | changed))
    assert engine_module.main(["--config", str(config)]) == 2
    assert words in capfd.readouterr().err
