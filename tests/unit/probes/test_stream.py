"""Every stream of scenarios.py through reader and state machine alone, on the script's own clock: exact figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.probes.client.errors import http_error, no_answer, too_long
from anvil_tui.probes.client.sse import SseEvent, SseReader
from anvil_tui.probes.client.stream import Asked, End, EndKind, Stream
from anvil_tui.records.request import RequestError, RequestRecord
from tests.scripted_server import Script
from tests.unit.probes.scenarios import SCENARIOS, Scenario, chunk, sse, usage

STREAMED = {
    name: scenario
    for name, scenario in SCENARIOS.items()
    if scenario.script.status == 200 and "event-stream" in scenario.script.content_type and not scenario.script.refuses
}


def base(scenario: Scenario) -> RequestRecord:
    length = "fixed" if scenario.fixed else "natural"
    return RequestRecord(
        request_index=0, outcome="not_sent", model="m", max_tokens=scenario.max_tokens, output_length=length
    )


def play(scenario: Scenario) -> RequestRecord:
    """What the client makes of the script if each step arrives at its own time to the nanosecond."""
    reader = SseReader()
    length = "fixed" if scenario.fixed else "natural"
    stream = Stream(Asked(max_tokens=scenario.max_tokens, output_length=length))
    end = None
    script: Script = scenario.script
    for step in sorted(script.steps, key=lambda step: step.at_us):
        at_ns = step.at_us * 1000
        if step.do in ("close", "reset"):
            end = End(how="disconnected", at_ns=at_ns, error=RequestError(message="cut"))
        elif step.do == "end":
            last = reader.close(at_ns)
            if last is not None:
                stream.take(last)
            end = End(how="done" if stream.done else "eof", at_ns=at_ns)
        else:
            for event in reader.feed(step.data, at_ns):
                stream.take(event)
                if stream.done:
                    end = End(how="done", at_ns=at_ns)
                    break
        if end is not None:
            break
    end = end or End(how="grace", at_ns=stream.last_event_ns or 0)
    return stream.record(base(scenario), end, 0)


@pytest.mark.parametrize("name", STREAMED)
def test_exact(name: str) -> None:
    scenario = STREAMED[name]
    record = play(scenario)
    assert record.outcome == scenario.outcome
    assert set(record.warnings) == set(scenario.warnings) - {"server_stall"}
    for field, value in scenario.is_so.items():
        assert getattr(record, field) == value, field
    for measured, truth_us in (
        (record.time_to_first_output_ms, scenario.first_output_us),
        (record.ttft_ms, scenario.visible_us),
    ):
        assert measured == (None if truth_us is None else truth_us / 1000)
    if scenario.decode is None:
        assert record.decode_tok_s is None
    else:
        assert record.decode_tok_s == pytest.approx(scenario.decode, rel=1e-9)


def test_late_usage_moves_the_seeds_figure_and_not_ours() -> None:
    record = play(STREAMED["late_usage"])
    assert record.last_token_ms == 490
    assert record.e2e_ms == 990
    assert record.decode_tok_s == pytest.approx(100)
    assert record.decode_tok_s_seed == pytest.approx(19 / 0.69)
    assert record.generation_ms == 690


def test_seed_figures_of_a_plain_stream() -> None:
    record = play(STREAMED["plain"])
    assert record.effective_prefill_tok_s == pytest.approx(2960 / 0.3)
    assert record.mean_inter_token_latency_ms == pytest.approx(10)
    assert record.visible_generation_ms == 190
    assert record.arrivals_us == (300_000, *[10_000] * 19)
    assert record.max_gap_ms == 10


@pytest.mark.parametrize("per_chunk", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("counted", [True, False])
def test_any_tokens_a_chunk_give_the_true_rate(per_chunk: int, counted: bool) -> None:
    stream = Stream(Asked(max_tokens=1000))
    n = per_chunk * 24
    for number in range(0, n, per_chunk):
        extra = {"usage": usage(number + per_chunk)} if counted else {}
        stream.take(event(chunk({"content": f"{number} "}, **extra), (300 + number * 10) * 1_000_000))
    stream.take(event({"choices": [], "usage": usage(n)}, 2_000_000_000))
    record = stream.record(base(SCENARIOS["plain"]), End(how="done", at_ns=2_000_000_000), 0)
    assert record.decode_tok_s == pytest.approx(100, rel=1e-9)
    assert record.first_count == (per_chunk if counted else None)


def event(message: object, at_ns: int) -> SseEvent:
    return SseEvent(json.dumps(message).encode(), at_ns)


KEYS = [*chunk({}, usage={}), *usage(1), "delta", "content", "reasoning", "tool_calls", "function", "arguments", "name"]
KEYS += ["index", "error", "message", "finish_reason", "role", "metrics", "prompt_tokens_details", "cached_tokens"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.lists(JSON, max_size=6), st.sampled_from(get_args(EndKind)))
def test_no_shape_of_json_breaks_it(messages: list[object], how: EndKind) -> None:
    stream = Stream(Asked(max_tokens=10))
    for index, message in enumerate(messages):
        stream.take(event(message, 1_000_000 * index))
        assert stream.phase in ("prefill", "reasoning", "answer", "finishing")
    record = stream.record(base(SCENARIOS["plain"]), End(how=how, at_ns=10_000_000), 0)
    assert record.outcome != "not_sent"
    assert record.output_tokens is None or record.output_tokens >= 0


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_cutting_the_bytes_anywhere_changes_nothing(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["plain", "crlf", "cr", "u2028", "tool_only", "usage_every", "multiline_data"]))
    whole = b"".join(step.data for step in STREAMED[name].script.steps)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=20)))
    reader, parts = SseReader(), []
    for start, stop in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        parts += reader.feed(whole[start:stop], 0)
    assert [one.data for one in parts] == [one.data for one in SseReader().feed(whole, 0)]


@pytest.mark.parametrize(
    ("body", "long"),
    [
        (b'{"error":{"message":"x","param":"input_tokens","code":400}}', True),
        (b'{"error":{"message":"x","code":"context_length_exceeded"}}', True),
        (
            b'{"error":{"message":"the request is 9 tokens of 8","type":"exceed_context_size_error"}}',
            True,
        ),
        (b'{"object":"error","message":"This model\'s maximum context length is 3 tokens.","code":400}', True),
        (b'{"detail":"The input (9000 tokens) is longer than the model\'s context length (8192 tokens)."}', True),
        (b'{"error":{"message":"Prompt is too long: 5000 > 4096"}}', True),
        (b'{"error":{"message":"max_tokens=5000 cannot be greater than max_model_len=4096"}}', True),
        (b'{"error":{"message":"temperature must be positive","param":"temperature"}}', False),
        (b'{"error":{"message":"The model `x` does not exist","code":404}}', False),
        (b"Bad Request", False),
        (b"", False),
    ],
)
def test_too_long_is_told_apart(body: bytes, long: bool) -> None:
    error = http_error(400, body, {})
    assert too_long(error) is long
    assert error.status == 400


def test_a_redirect_says_where_to() -> None:
    assert http_error(307, b"", {"location": "/v2/chat"}).message == "HTTP 307 without a body, redirected to /v2/chat"


def test_a_compressed_body_is_named() -> None:
    error = no_answer(b"\x1f\x8b", {"content-encoding": "GZIP", "content-type": "text/event-stream"})
    assert error is not None and error.message == "the body came as gzip although identity was asked for"


def test_an_error_body_is_bounded_and_holds_no_secret() -> None:
    error = http_error(500, b"key sk-abcdefghijklmnopqrstuvwx \x1b[31mred\n" + b"x" * 100_000, {})
    assert error.body is not None
    assert "sk-abc" not in error.body
    assert "\x1b" not in error.body
    assert len(error.body) < 4200


@pytest.mark.parametrize("row", range(3))
def test_goldens(row: int) -> None:
    from anvil_tui.probes.client.rates import seed_figures

    path = Path(__file__).parents[4] / "shared/cases/goldens.json"
    if not path.exists():
        pytest.skip("the golden figures are not here")
    for run in json.loads(path.read_text())["capacity"]:
        rows = run["inputs"]["rows"]
        if row >= len(rows):
            continue
        given_, expected = rows[row], run["expected"]["rows"][row]
        figures = seed_figures(
            first_output_ms=given_["time_to_first_output_ms"],
            ttft_ms=given_["ttft_ms"],
            e2e_ms=given_["e2e_ms"],
            prompt_tokens=given_["prompt_tokens"],
            output_tokens=given_["output_tokens"],
        )
        for name in ("generation_ms", "visible_generation_ms", "effective_prefill_tok_s", "decode_tok_s"):
            assert getattr(figures, name) == pytest.approx(expected[name], rel=1e-9, abs=1e-9), name
        assert figures.mean_inter_token_latency_ms == pytest.approx(expected["mean_inter_token_latency_ms"], rel=1e-9)


def test_sse_helper_writes_what_servers_write() -> None:
    assert sse("[DONE]") == b"data: [DONE]\n\n"
