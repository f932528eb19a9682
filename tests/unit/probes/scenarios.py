"""Streams with known truth: prefill of 300 ms, then 100 tokens a second, in every shape that servers send."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.scripted_server import Script, Step

PREFILL_US = 300_000
TOKEN_US = 10_000
ROLE = {"role": "assistant", "content": ""}


@dataclass(frozen=True)
class Scenario:
    """A script and what a right client says of it. Times are the server's own, in µs after the request."""

    script: Script
    outcome: str = "ok"
    first_output_us: int | None = PREFILL_US
    visible_us: int | None = PREFILL_US
    decode: float | None = 100.0
    warnings: frozenset[str] = frozenset()
    is_so: dict[str, Any] = field(default_factory=dict)
    """Further fields of the record and their values."""
    max_tokens: int = 256
    fixed: bool = False


def sse(message: object, *, newline: str = "\n", prefix: str = "data: ") -> bytes:
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    return f"{prefix}{text}{newline}{newline}".encode()


def chunk(delta: Any, *, finish: str | None = None, usage: Any = ..., **extra: Any) -> dict[str, Any]:
    one: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk"}
    one["choices"] = [{"index": 0, "delta": delta, "finish_reason": finish}]
    if usage is not ...:
        one["usage"] = usage
    return one | extra


def usage(completion: int, *, prompt: int = 2960, **extra: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **extra}


def tokens(
    n: int = 20,
    *,
    name: str = "content",
    per_chunk: int = 1,
    start_us: int = PREFILL_US,
    counted: bool = False,
    begin: int = 0,
    text: str = "tok ",
    **how: Any,
) -> list[Step]:
    """n tokens, `per_chunk` in each event, one event every `per_chunk` × 10 ms."""
    steps = []
    for number in range(0, n, per_chunk):
        extra = {"usage": usage(begin + number + per_chunk)} if counted else {}
        message = chunk({name: f"{number}{text}" * per_chunk}, **extra)
        steps.append(Step(start_us + number * TOKEN_US, "body", sse(message, **how)))
    return steps


def ending(n: int | None, at_us: int, *, finish: str | None = "stop", done: bool = True, **how: Any) -> list[Step]:
    """The finish chunk, the usage chunk and [DONE], then the end of the body."""
    steps = []
    if finish is not None:
        steps.append(Step(at_us, "body", sse(chunk({}, finish=finish), **how)))
    if n is not None:
        steps.append(Step(at_us, "body", sse({"choices": [], "usage": usage(n)}, **how)))
    if done:
        steps.append(Step(at_us, "body", sse("[DONE]", **how)))
    return [*steps, Step(at_us, "end")]


def script(*parts: Iterable[Step], role_us: int | None = PREFILL_US, **how: Any) -> Script:
    role = [] if role_us is None else [Step(role_us, "body", sse(chunk(ROLE)))]
    return Script(steps=(*role, *(step for part in parts for step in part)), **how)


END_US = PREFILL_US + 19 * TOKEN_US
ESTIMATED = frozenset({"first_count_estimated"})


def _plain(**how: Any) -> Script:
    return script(tokens(**how), ending(20, END_US))


def _resent(steps: Iterable[Step], cut: int) -> list[Step]:
    """Each body cut in two chunks at byte `cut`, the second a millisecond later."""
    halves = []
    for step in steps:
        halves += [Step(step.at_us - 1000, "body", step.data[:cut]), Step(step.at_us, "body", step.data[cut:])]
    return halves


def _joined(steps: Iterable[Step], at_us: int) -> list[Step]:
    return [Step(at_us, "body", b"".join(step.data for step in steps))]


def _counted(counts: Iterable[tuple[int, str]]) -> list[Step]:
    return [
        Step(PREFILL_US + index * TOKEN_US, "body", sse(chunk({"content": text}, usage=usage(count))))
        for index, (count, text) in enumerate(counts)
    ]


def _error(code: int | str = 500, message: str = "EngineCore encountered an issue.") -> bytes:
    return sse({"error": {"message": message, "type": "InternalServerError", "param": None, "code": code}})


def _tools(fragments: Iterable[dict[str, Any]]) -> list[Step]:
    return [
        Step(PREFILL_US + index * TOKEN_US, "body", sse(chunk({"tool_calls": [fragment]})))
        for index, fragment in enumerate(fragments)
    ]


_CALL = [
    {"index": 0, "id": "call-1", "type": "function", "function": {"name": "get_weather", "arguments": ""}},
    *(
        {"index": 0, "function": {"arguments": part}}
        for part in ['{"', "ci", 'ty": ', '"', "Oak", "la", "nd", '"', "}"]
    ),
]
_LOOP = [
    Step(PREFILL_US + index * TOKEN_US, "body", sse(chunk({"content": "the cat sat on the mat. "})))
    for index in range(20)
]


def _body(body: bytes, kind: str) -> Scenario:
    """A body with status 200 that is neither an event stream nor a completion."""
    return Scenario(
        Script(steps=(Step(2_100, "body", body), Step(2_100, "end")), content_type=kind),
        outcome="empty_stream",
        first_output_us=None,
        visible_us=None,
        decode=None,
        warnings=frozenset({"no_usage"} if kind != "application/json" else {"no_usage", "not_streamed"}),
    )


SCENARIOS: dict[str, Scenario] = {
    # benchmarks 3.2
    "plain": Scenario(
        _plain(), is_so={"output_tokens": 20, "prompt_tokens": 2960, "content_chunks": 20, "saw_done": True}
    ),
    "role_early": Scenario(script(tokens(), ending(20, END_US), role_us=20_000)),
    "reasoning_new": Scenario(
        script(tokens(20, name="reasoning"), tokens(10, start_us=500_000), ending(30, 590_000)),
        visible_us=500_000,
        is_so={"reasoning_chunks": 20, "content_chunks": 10},
    ),
    "reasoning_old": Scenario(
        script(tokens(20, name="reasoning_content"), tokens(10, start_us=500_000), ending(30, 590_000)),
        visible_us=500_000,
        is_so={"reasoning_chunks": 20},
    ),
    "reasoning_only_length": Scenario(
        script(tokens(20, name="reasoning"), ending(20, END_US, finish="length")),
        outcome="no_visible_content",
        visible_us=None,
        max_tokens=20,
        is_so={"output_tokens": 20, "finish_reason": "length"},
    ),
    "mtp4": Scenario(
        script(tokens(32, per_chunk=4), ending(32, 580_000)), warnings=ESTIMATED, is_so={"output_tokens": 32}
    ),
    "usage_every": Scenario(
        script(tokens(32, per_chunk=4, counted=True), ending(32, 580_000)), is_so={"first_count": 4}
    ),
    "empty_text_tokens": Scenario(
        script(
            [
                Step(PREFILL_US + n * TOKEN_US, "body", sse(chunk({"content": "" if n < 10 else "x"})))
                for n in range(20)
            ],
            ending(20, END_US),
        ),
        visible_us=400_000,
        warnings=frozenset({"first_output_without_text"}),
    ),
    "empty_text_tokens_counted": Scenario(
        script(_counted((n + 1, "" if n < 10 else "x") for n in range(20)), ending(20, END_US)), visible_us=400_000
    ),
    "midstream_error": Scenario(
        script(
            tokens(5), [Step(345_000, "body", _error()), Step(345_000, "body", sse("[DONE]")), Step(345_000, "end")]
        ),
        outcome="error_in_stream",
        decode=None,
        is_so={"saw_done": True},
    ),
    "error_first": Scenario(
        script([Step(20_000, "body", _error()), Step(20_000, "body", sse("[DONE]"))], role_us=None),
        outcome="error_in_stream",
        first_output_us=None,
        visible_us=None,
        decode=None,
    ),
    "error_too_long": Scenario(
        script(
            [Step(20_000, "body", _error(400, "the request exceeds the available context size")), Step(20_000, "end")],
            role_us=None,
        ),
        outcome="rejected_too_long",
        first_output_us=None,
        visible_us=None,
        decode=None,
    ),
    "empty_done": Scenario(
        script(ending(None, 20_000, finish=None), role_us=None),
        outcome="empty_stream",
        first_output_us=None,
        visible_us=None,
        decode=None,
        warnings=frozenset({"no_finish_reason", "no_usage"}),
    ),
    "truncated": Scenario(script(tokens(5), [Step(345_000, "close")]), outcome="disconnected", decode=None),
    "reset": Scenario(script(tokens(5), [Step(345_000, "reset")]), outcome="disconnected", decode=None),
    "short_length": Scenario(
        script(tokens(5), [Step(345_000, "close")], framing="length", length=100_000),
        outcome="disconnected",
        decode=None,
    ),
    "clean_eof_no_finish": Scenario(
        script(tokens(), ending(None, END_US, finish=None, done=False)),
        outcome="no_finish_reason",
        decode=None,
        warnings=frozenset({"no_usage"}),
    ),
    "tool_only": Scenario(
        script(_tools(_CALL), ending(10, 390_000, finish="tool_calls")), is_so={"tool_chunks": 10, "content_chunks": 0}
    ),
    "u2028": Scenario(_plain(text="a\u2028b\u2029c\u0085d "), is_so={"content_chunks": 20}),
    "nospace": Scenario(script(tokens(prefix="data:"), ending(20, END_US, prefix="data:"))),
    "ping_comments": Scenario(
        script([Step(at, "body", b": ping\n\n") for at in range(20_000, 300_000, 40_000)], tokens(), ending(20, END_US))
    ),
    "crlf": Scenario(script(tokens(newline="\r\n"), ending(20, END_US, newline="\r\n"))),
    "cr": Scenario(script(tokens(newline="\r"), ending(20, END_US, newline="\r"))),
    "delta_null": Scenario(
        script(
            [Step(20_000, "body", sse(chunk(None))), Step(30_000, "body", sse({"choices": None}))],
            [Step(40_000, "body", sse(chunk({"content": None, "reasoning": None, "tool_calls": None})))],
            [Step(50_000, "body", sse(chunk({})))],
            tokens(),
            ending(20, END_US),
            role_us=None,
        )
    ),
    "no_usage": Scenario(
        script(tokens(), ending(None, END_US)),
        decode=None,
        warnings=frozenset({"no_usage"}),
        is_so={"output_tokens": None, "effective_prefill_tok_s": None, "decode_tok_s_seed": None},
    ),
    "usage_on_finish_chunk": Scenario(
        script(
            tokens(),
            [Step(END_US, "body", sse(chunk({}, finish="stop", usage=usage(20))))],
            ending(None, END_US, finish=None),
        )
    ),
    "late_usage": Scenario(script(tokens(), ending(20, END_US + 500_000)), is_so={"output_tokens": 20}),
    "coalesced": Scenario(
        script(_joined(tokens(), END_US), ending(20, END_US)),
        first_output_us=END_US,
        visible_us=END_US,
        decode=None,
        warnings=frozenset({"not_smooth"}),
        is_so={"smooth": False},
    ),
    "three_bursts": Scenario(
        script(
            _joined(tokens(6), PREFILL_US), _joined(tokens(6), 400_000), _joined(tokens(8), END_US), ending(20, END_US)
        ),
        decode=None,
        warnings=frozenset({"not_smooth"}),
    ),
    "quick_burst": Scenario(
        script([Step(PREFILL_US + n * 300, "body", step.data) for n, step in enumerate(tokens())], ending(20, 306_000)),
        decode=None,
        warnings=frozenset({"not_smooth"}),
    ),
    "http400": Scenario(
        Script(
            steps=(
                Step(
                    2_100,
                    "body",
                    b'{"error":{"message":"This model\'s maximum context length is 4096 tokens. However, your'
                    b' prompt contains at least 4097 input tokens","type":"BadRequestError",'
                    b'"param":"input_tokens","code":400}}',
                ),
                Step(2_100, "end"),
            ),
            status=400,
            content_type="application/json",
        ),
        outcome="rejected_too_long",
        first_output_us=None,
        visible_us=None,
        decode=None,
    ),
    "split_utf8": Scenario(
        script(_resent(tokens(text="日本語ñ "), 95), ending(20, END_US), role_us=20_000), is_so={"content_chunks": 20}
    ),
    "bigline": Scenario(
        script(
            [Step(20_000, "body", sse(chunk(ROLE, prompt_token_ids=list(range(60_000)))))],
            tokens(),
            ending(20, END_US),
            role_us=None,
        )
    ),
    "finish_with_token": Scenario(
        script(
            tokens(19),
            [Step(END_US, "body", sse(chunk({"content": "end"}, finish="stop")))],
            ending(20, END_US, finish=None),
        ),
        is_so={"content_chunks": 20},
    ),
    "open_after_done": Scenario(script(tokens(), ending(20, END_US)[:-1])),
    # benchmarks 3.3 and section 4
    "role_null": Scenario(
        script([Step(20_000, "body", sse(chunk({"role": "assistant", "content": None})))], tokens(), ending(20, END_US))
    ),
    "both_reasoning_names": Scenario(
        script(
            [
                Step(PREFILL_US + n * TOKEN_US, "body", sse(chunk({"reasoning": "r", "reasoning_content": "r"})))
                for n in range(20)
            ],
            tokens(10, start_us=500_000),
            ending(30, 590_000),
        ),
        visible_us=500_000,
        is_so={"reasoning": "r" * 20},
    ),
    "hidden_reasoning": Scenario(
        script(_counted((n + 1, "") for n in range(20)), ending(20, END_US, finish="length")),
        outcome="no_visible_content",
        visible_us=None,
        max_tokens=20,
    ),
    "uneven_counted": Scenario(
        script(
            [
                Step(PREFILL_US + done * TOKEN_US, "body", sse(chunk({"content": "x"}, usage=usage(done + size))))
                for done, size in [(0, 5), (5, 1), (6, 4), (10, 2), (12, 5), (17, 5)]
            ],
            ending(22, 470_000),
        ),
        decode=100.0,
        is_so={"first_count": 5},
    ),
    "end_token_in_finish_chunk": Scenario(
        script(
            _counted((n + 1, "x") for n in range(15)),
            [Step(450_000, "body", sse(chunk({"content": ""}, finish="stop", usage=usage(16))))],
            ending(16, 450_000, finish=None),
        )
    ),
    "usage_null": Scenario(
        script(
            [Step(one.at_us, "body", one.data.replace(b"}]}", b'}], "usage": null}')) for one in tokens()],
            ending(20, END_US),
        ),
        is_so={"output_tokens": 20},
    ),
    "done_without_finish": Scenario(
        script(tokens(), ending(20, END_US, finish=None)), warnings=frozenset({"no_finish_reason"})
    ),
    "finish_without_done": Scenario(
        script(tokens(), ending(20, END_US, done=False)), warnings=frozenset({"no_done"}), is_so={"saw_done": False}
    ),
    "left_open_after_finish": Scenario(
        script(tokens(), ending(20, END_US, done=False)[:-1]), warnings=frozenset({"no_done", "left_open"})
    ),
    "done_without_blank_line": Scenario(
        script(
            tokens(),
            ending(20, END_US, done=False)[:-1],
            [Step(END_US, "body", b"data: [DONE]\n"), Step(END_US, "end")],
        ),
        is_so={"saw_done": True},
    ),
    "until_close": Scenario(script(tokens(), ending(20, END_US), framing="close")),
    "bom_events_ids": Scenario(
        script(
            [Step(20_000, "body", b"\xef\xbb\xbfretry: 10\n\n")],
            [Step(one.at_us, "body", b"event: message\nid: 7\n" + one.data) for one in tokens()],
            ending(20, END_US),
        )
    ),
    "multiline_data": Scenario(
        script(
            [Step(one.at_us, "body", one.data.replace(b', "choices"', b',\ndata: "choices"')) for one in tokens()],
            ending(20, END_US),
        )
    ),
    "blank_line_before": Scenario(
        script(
            [Step(one.at_us, "body", b"\n" + one.data[:-1]) for one in tokens()], ending(20, END_US, prefix="\ndata: ")
        )
    ),
    "error_event_name": Scenario(
        script(
            tokens(5), [Step(345_000, "body", b'event: error\ndata: {"message": "boom"}\n\n'), Step(345_000, "end")]
        ),
        outcome="error_in_stream",
        decode=None,
    ),
    "error_text": Scenario(
        script(tokens(5), [Step(345_000, "body", sse({"error": "boom"})), Step(345_000, "body", sse("[DONE]"))]),
        outcome="error_in_stream",
        decode=None,
    ),
    "error_old_shape": Scenario(
        script(
            tokens(5),
            [
                Step(
                    345_000,
                    "body",
                    sse({"object": "error", "message": "boom", "type": "X", "param": None, "code": 500}),
                )
            ],
            [Step(345_000, "end")],
        ),
        outcome="error_in_stream",
        decode=None,
    ),
    "aborted": Scenario(script(tokens(5), ending(5, 345_000, finish="abort")), outcome="error_in_stream", decode=None),
    "refusal": Scenario(script(tokens(name="refusal"), ending(20, END_US)), is_so={"content_chunks": 20}),
    "blanks": Scenario(
        script(
            [Step(PREFILL_US + n * TOKEN_US, "body", sse(chunk({"content": " "}))) for n in range(15)],
            ending(15, 440_000),
        ),
        is_so={"output_tokens": 15},
    ),
    "reasoning_in_details": Scenario(
        script(
            tokens(),
            ending(None, END_US, done=False)[:1],
            [
                Step(
                    END_US,
                    "body",
                    sse(
                        {
                            "choices": [],
                            "usage": usage(
                                20,
                                prompt_tokens_details={"cached_tokens": 2816},
                                completion_tokens_details={"reasoning_tokens": 12, "accepted_prediction_tokens": 9},
                            ),
                        }
                    ),
                ),
                Step(END_US, "body", sse("[DONE]")),
            ],
        ),
        is_so={"output_tokens": 20, "reasoning_tokens": 12, "cached_tokens": 2816, "accepted_draft_tokens": 9},
    ),
    "cached_zero": Scenario(
        script(
            tokens(),
            [
                Step(
                    END_US, "body", sse({"choices": [], "usage": usage(20, prompt_tokens_details={"cached_tokens": 0})})
                )
            ],
            ending(None, END_US),
        ),
        is_so={"cached_tokens": 0},
    ),
    "clamped": Scenario(
        script(tokens(), ending(20, END_US, finish="length")),
        outcome="truncated",
        warnings=frozenset({"max_tokens_clamped"}),
    ),
    "cut_by_budget": Scenario(
        script(tokens(), ending(20, END_US, finish="length")), outcome="truncated", max_tokens=20
    ),
    "fixed": Scenario(script(tokens(), ending(20, END_US, finish="length")), max_tokens=20, fixed=True),
    "fixed_short": Scenario(_plain(), warnings=frozenset({"short_output"}), fixed=True),
    "repeated": Scenario(script(_LOOP, ending(20, END_US)), warnings=frozenset({"repeated_output"})),
    "tool_cut": Scenario(
        script(_tools(_CALL[:4]), ending(4, 330_000, finish="tool_calls")),
        outcome="truncated",
        decode=None,
        max_tokens=4,
        warnings=frozenset({"tool_call_cut", "short_window"}),
    ),
    "tool_without_index": Scenario(
        script(
            _tools({key: value for key, value in one.items() if key != "index"} for one in _CALL),
            ending(10, 390_000, finish="stop"),
        )
    ),
    "usage_above_text": Scenario(
        script(_counted((n + 1, "x") for n in range(28)), ending(32, 570_000)),
        warnings=frozenset({"usage_mismatch"}),
        is_so={"output_tokens": 32},
    ),
    "usage_below_chunks": Scenario(
        script(tokens(), ending(5, END_US)),
        decode=None,
        warnings=frozenset({"usage_mismatch"}),
    ),
    "stall_mid": Scenario(
        script(tokens(10), tokens(10, start_us=1_700_000), ending(20, 1_790_000)),
        decode=19 / 1.49,
        warnings=frozenset({"server_stall"}),
    ),
    "malformed_event": Scenario(
        script(
            tokens(10),
            [Step(395_000, "body", b"data: {nonsense\n\n")],
            tokens(10, start_us=400_000),
            ending(20, END_US),
        ),
        warnings=frozenset({"malformed_events"}),
    ),
    "one_chunk": Scenario(
        script([Step(PREFILL_US, "body", sse(chunk({"content": "all of it"})))], ending(20, END_US)),
        decode=None,
        warnings=frozenset({"not_smooth"}),
    ),
    "one_token": Scenario(
        script(tokens(1), ending(1, 310_000, finish="length")), decode=None, max_tokens=1, fixed=True
    ),
    "content_parts": Scenario(
        script(
            [
                Step(PREFILL_US + n * TOKEN_US, "body", sse(chunk({"content": [{"type": "text", "text": "x"}]})))
                for n in range(20)
            ],
            ending(20, END_US),
        ),
        is_so={"content": "x" * 20},
    ),
    "not_streamed": Scenario(
        Script(
            steps=(
                Step(
                    PREFILL_US,
                    "body",
                    json.dumps(
                        {
                            "id": "x",
                            "choices": [
                                {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}
                            ],
                            "usage": usage(2),
                        }
                    ).encode(),
                ),
                Step(PREFILL_US, "end"),
            ),
            content_type="application/json",
        ),
        first_output_us=None,
        visible_us=None,
        decode=None,
        warnings=frozenset({"not_streamed"}),
    ),
    "refuses_salt": Scenario(
        script(tokens(), ending(20, END_US), refuses=("cache_salt",)), warnings=frozenset({"cache_salt_refused"})
    ),
    "refuses_both": Scenario(
        script(tokens(), ending(20, END_US), refuses=("cache_salt", "continuous_usage_stats")),
        warnings=frozenset({"cache_salt_refused", "continuous_usage_stats_refused"}),
    ),
    "http500": Scenario(
        Script(
            steps=(Step(2_100, "body", b"Internal Server Error"), Step(2_100, "end")),
            status=500,
            content_type="text/plain",
        ),
        outcome="http_error",
        first_output_us=None,
        visible_us=None,
        decode=None,
    ),
    "html": _body(b"<html><body>Welcome to nginx!</body></html>\n", "text/html"),
    "no_completion": _body(b'{"status": "warming up"}', "application/json"),
    "lines_of_json": _body(b'{"message": {"content": "hi"}}\n{"done": true}\n', "application/x-ndjson"),
    "http413": Scenario(
        Script(steps=(Step(2_100, "end"),), status=413, content_type="text/plain"),
        outcome="rejected_too_long",
        first_output_us=None,
        visible_us=None,
        decode=None,
    ),
}
