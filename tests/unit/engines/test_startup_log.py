"""Reading as the log grows: chunking, recognition, attempts, bounds."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.engines.startup_log import DIALECTS, KEPT_ATTEMPTS, LINE_LIMIT, StartupLog
from anvil_tui.records.startup_report import StartupReport
from tests.unit.engines.logs import CASES, case, report

HEAD = "(EngineCore pid=5) INFO 10-05 10:04:21 [core.py:1] "
START = [
    "(APIServer pid=1) INFO 10-05 10:04:00 [api.py:1]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0\n",
    "(APIServer pid=1) INFO 10-05 10:04:00 [api.py:1] non-default args: {'max_num_seqs': 4}\n",
    "(EngineCore pid=5) INFO 10-05 10:04:10 [core.py:1] vLLM is using nccl==2.28\n",
    "(Worker_TP0 pid=6) INFO 10-05 10:04:20 [w.py:1] Available KV cache memory: 15.27 GiB\n",
]
READY = "INFO:     Application startup complete.\n"


def fed(log: bytes, cuts: list[int], engine: str | None = None) -> tuple[StartupReport, ...]:
    reader = StartupLog(engine)
    at = 0
    for cut in sorted(cuts):
        reader.feed(log[at:cut])
        at = cut
    reader.feed(log[at:])
    reader.finish()
    return (*reader.attempts(), reader.report())


@pytest.mark.parametrize("name", CASES)
def test_byte_by_byte_is_the_same_report(name: str) -> None:
    log = case(name)[0][:6000]
    assert fed(log, list(range(len(log)))) == fed(log, [])


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(CASES),
    cuts=st.lists(st.integers(0, 20_000), max_size=20),
    engine=st.sampled_from([None, *DIALECTS]),
)
def test_any_chunking_is_the_same_report(name: str, cuts: list[int], engine: str | None) -> None:
    log = case(name)[0]
    assert fed(log, [min(cut, len(log)) for cut in cuts], engine) == fed(log, [], engine)


PIECES = [
    *(line for name in CASES for line in case(name)[0].splitlines(keepends=True)[:12]),
    b"\r", b"\n", b"\x1b[", b"\xff\xfe", b"{",
    b'{"message": "Available KV cache memory: 1.0 GiB"}\n', b"(Worker_TP0 pid=",
    b"torch.OutOfMemoryError: CUDA out of memory. Tried\n", b"2026-07-17T12:38:51Z ", b"vllm-1  | ",
    b"9" * 5000, b"\x00",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    pieces=st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=40)), max_size=30),
    cuts=st.lists(st.integers(0, 5000), max_size=6),
    engine=st.sampled_from([None, *DIALECTS]),
)
def test_no_bytes_crash_a_dialect(pieces: list[bytes], cuts: list[int], engine: str | None) -> None:
    log = b"".join(pieces)
    assert fed(log, [min(cut, len(log)) for cut in cuts], engine) == fed(log, [], engine)


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(CASES), keep=st.integers(0, 20_000), noise=st.binary(max_size=8), at=st.integers(0, 20_000))
def test_damaged_logs_are_read_too(name: str, keep: int, noise: bytes, at: int) -> None:
    log = case(name)[0]
    damaged = log[: min(at, len(log))] + noise + log[min(at, len(log)) :][:keep]
    found = report(damaged)
    assert found.bytes == len(damaged)


def test_what_is_no_engines_log_is_unknown() -> None:
    found = report("Dear diary,\ntoday the KV cache had 3.5 GiB.\nINFO:     Application startup complete.\n")
    assert (found.engine, found.lines, found.unread) == ("unknown", 3, ())
    assert StartupLog().attempts() == ()
    assert report(b"").engine == "unknown"


def test_a_log_of_sglang_that_begins_with_a_line_of_vllm() -> None:
    log = (
        "INFO 03-07 12:29:02 __init__.py:190] Automatically detected platform cuda.\n"
        "[2025-03-08 12:29:21 TP0] Memory pool end. avail mem=2.09 GB\n"
    )
    assert report(log).engine == "sglang"


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(KeyError):
        StartupLog("ollama")


def test_the_report_grows_with_the_log() -> None:
    reader = StartupLog("vllm")
    states = []
    for line in [*START, READY]:
        reader.feed(line.encode())
        found = reader.report()
        states.append((found.state, found.last_phase, found.lines))
    assert states == [
        ("loading", "args", 1),
        ("loading", "args", 2),
        ("loading", "nccl", 3),
        ("loading", "profile", 4),
        ("ready", "ready", 5),
    ]


def test_a_line_without_its_end_waits_for_it() -> None:
    reader = StartupLog("vllm")
    reader.feed((HEAD + "Available KV cache memory: 15").encode())
    assert reader.report().kv_available_gib == {} and reader.report().lines == 1
    reader.feed(b".27 GiB")
    assert reader.report().kv_available_gib == {}
    reader.finish()
    assert reader.report().kv_available_gib["EngineCore"].value == 15.27


def test_lines_and_offsets() -> None:
    log = "one\r\ntwo\n\n" + HEAD + "Available KV cache memory: 15.27 GiB\r\nlast"
    found = report(log)
    source = found.kv_available_gib["EngineCore"].source
    assert (source.line, source.offset, found.lines, found.bytes) == (4, 10, 5, len(log))


def test_each_attempt_is_a_report_of_its_own() -> None:
    failed = HEAD.replace("INFO", "ERROR") + "ValueError: No available memory for the cache blocks.\n"
    first, second, third = [*START, failed], START[:3], [*START, READY]
    log = "".join(first + second + third)
    reader = StartupLog()
    reader.feed(log.encode())
    reader.finish()
    one, two, three = reader.attempts()
    assert [found.attempt for found in (one, two, three)] == [1, 2, 3]
    assert (one.state, one.failure and one.failure.kind, one.lines) == ("failed", "no_kv_memory", 5)
    assert (two.state, two.failure and two.failure.message) == ("failed", "ended during nccl: the log just ends")
    assert (three.state, three.failure, three.lines) == ("ready", None, 5)
    assert three == reader.report() and two.kv_available_gib == {}
    assert one.bytes + two.bytes + three.bytes == len(log.encode())
    assert three.kv_available_gib["TP0"].source.line == 5 + 3 + 4


def test_without_a_banner_a_process_that_starts_over_is_another_attempt() -> None:
    length = "(APIServer pid=1) INFO 10-05 10:04:01 [model.py:1] Using max model len 4096\n"
    failed = HEAD.replace("INFO", "ERROR") + "ValueError: No available memory for the cache blocks.\n"
    config = HEAD + "Initializing a V1 LLM engine (v0.32.0) with config: model='m'\n"
    reader = StartupLog()
    reader.feed("".join([length, config, failed, length, config, *START[2:], READY, length, config]).encode())
    assert [found.state for found in reader.attempts()] == ["failed", "died_after_ready", "loading"]
    # what several processes say once each, also beside another that failed, and what is said late, is one start's
    reader = StartupLog()
    other = config.replace("EngineCore pid=5", "EngineCore_DP1 pid=7")
    reader.feed("".join([length, config, failed, other, READY, other.replace("DP1", "DP2")]).encode())
    assert len(reader.attempts()) == 1


@pytest.mark.parametrize("word", [b"A", b"a-", b"a.", b" ", b"1 ", b"vllm-1 | ", b"[1,0]"])
def test_the_longest_line_costs_little(word: bytes) -> None:
    began = time.process_time()
    report((word * LINE_LIMIT)[: LINE_LIMIT - 20] + b" memory Error GiB\n" + START[0].encode())
    assert time.process_time() - began < 5  # a tenth of it here; it was two minutes


def test_a_second_banner_of_one_start_is_no_second_attempt() -> None:
    reader = StartupLog()
    reader.feed("".join([START[0], START[1], START[0], *START[1:]]).encode())
    assert len(reader.attempts()) == 1


def test_a_ready_server_that_is_restarted_had_died_unless_it_said_goodbye() -> None:
    reader = StartupLog("vllm")
    goodbye = "INFO:     Application shutdown complete.\n"
    reader.feed("".join([*START, READY, *START, READY, goodbye, *START]).encode())
    assert [found.state for found in reader.attempts()] == ["died_after_ready", "ready", "loading"]


def test_a_signal_to_the_server_is_no_death_of_its_engine() -> None:
    dead = (
        "(APIServer pid=1) INFO 12-01 14:25:43 [launcher.py:254] [shutdown] API server: shutdown triggered\n"
        "(APIServer pid=1) ERROR 12-01 14:25:43 [async_llm.py:906] AsyncLLM output_handler failed.\n"
        "INFO:     Application shutdown complete.\n"
    )
    found = report("".join([*START, READY, dead]))
    assert (found.state, found.failure) == ("ready", None)


def test_attempts_are_bounded_and_their_numbers_go_on() -> None:
    reader = StartupLog("vllm")
    reader.feed("".join(START * (KEPT_ATTEMPTS + 10)).encode())
    assert len(reader.attempts()) == KEPT_ATTEMPTS + 1
    assert reader.report().attempt == KEPT_ATTEMPTS + 10


def test_memory_is_bounded_whatever_the_log_names() -> None:
    reader = StartupLog("vllm")
    for number in range(3000):
        line = f"(Worker_TP{number} pid={number}) INFO 10-05 10:04:21 [w.py:1] Available KV cache memory: 1.5 GiB\n"
        reader.feed(line.encode())
    assert len(reader.report().kv_available_gib) == 512


def test_a_line_without_end_is_cut_and_counted() -> None:
    reader = StartupLog("vllm")
    for _ in range(40):
        reader.feed(b"x" * LINE_LIMIT)
    reader.feed(b" Available KV cache memory: 1.5 GiB\n" + HEAD.encode() + b"Available KV cache memory: 2.5 GiB\n")
    found = reader.report()
    assert found.kv_available_gib["EngineCore"].source.offset == 40 * LINE_LIMIT + 36
    assert (found.lines, len(found.kv_available_gib)) == (2, 1)
