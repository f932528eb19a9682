"""Foreign formats: what is mapped, what is labelled, what is refused."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from anvil_tui.errors import BadInput
from anvil_tui.evidence.arms.inputs import read_arms
from anvil_tui.evidence.arms.runs import run_value
from anvil_tui.evidence.comparison import compare
from anvil_tui.evidence.imports.formats import reader_of
from anvil_tui.records.arm import Arm, MeasuredRun, MemoryWindow
from tests.unit.evidence.samples import artifact, request, write

EARLY: dict[str, Any] = {
    "base_url": "http://127.0.0.1:39026/v1",
    "completed": 10,
    "concurrency": 1,
    "context_tokens": 8192,
    "max_context_tokens": None,
    "max_tokens": 256,
    "metrics": {"e2e_p50_ms": 661.9, "ttft_p50_ms": 458.9, "throughput_tok_s": 15.2, "prefix_cache_hit_avg": None},
    "model": "m",
    "requests": 12,
    "run_id": "benchmark-20260712T072457Z",
    "schema": "anvil-serving.benchmark/v1",
    "serve_flags": {"no_thinking": False, "shared_prefix_burst": False, "thinking_mode": "disabled"},
}
VLLM: dict[str, Any] = {
    "date": "20260814-120000",
    "backend": "openai-chat",
    "model_id": "m",
    "num_prompts": 3,
    "request_rate": "inf",
    "max_concurrency": 1,
    "duration": 4.0,
    "completed": 2,
    "failed": 1,
    "total_input_tokens": 200,
    "total_output_tokens": 20,
    "request_throughput": 0.5,
    "output_throughput": 5.0,
    "median_ttft_ms": 150.0,
    "median_tpot_ms": 10.0,
    "input_lens": [100, 100, 100],
    "output_lens": [11, 9, 0],
    "ttfts": [0.1, 0.2, 0.0],
    "itls": [[0.05, 0.05], [0.08], []],
    "errors": ["", "", "Bad Request"],
}


def one(data: Any, path: str = "file.json") -> MeasuredRun:
    read = reader_of(data)
    assert read is not None
    found = read(data, path)
    assert len(found) == 1
    assert isinstance(found[0], MeasuredRun)
    return found[0]


def test_early_benchmarks_hold_no_rows_and_stand_as_they_state() -> None:
    run = one(EARLY)
    assert (run.completed, run.failed, run.passed) == (10, 2, False)
    assert run.started_at == "2026-07-12T07:24:57Z"
    assert run.max_model_len is None
    value = run_value(run, "e2e_p50_ms", "connect")
    assert (value.value, value.recomputed) == (661.9, False)
    assert run_value(run, "decode_tok_s_p50", "connect").value is None


def test_chunk_counts_are_no_tokens() -> None:
    row = {
        "request_index": 0,
        "output_tokens": 20,
        "output_token_source": "content_chunks",
        "e2e_ms": 9.0,
        "ttft_ms": 2.0,
    }
    run = one({**EARLY, "requests": 1, "completed": 1, "request_timings": [row], "metrics": {}})
    assert run.requests[0].output_tokens is None
    assert run_value(run, "throughput_tok_s", "connect").value is None
    assert run_value(run, "e2e_p50_ms", "connect").value == 9.0


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (("ValueError", "stream completed without visible content"), "no_visible_content"),
        (("HTTPError", "HTTP Error 400: Bad Request"), "http_error"),
        (("TimeoutError", "timed out"), "timeout"),
        (("URLError", "connection refused"), "disconnected"),
    ],
)
def test_failures_keep_their_text(error: tuple[str, str], outcome: str) -> None:
    failure = {"request_index": 1, "error_type": error[0], "error_message": error[1]}
    row = {"request_index": 0, "e2e_ms": 9.0}
    run = one({**EARLY, "requests": 2, "completed": 1, "request_timings": [row], "failures": [failure]})
    assert run.requests[1].outcome == outcome
    assert run.failures == (error[1],)
    assert not run.passed


def test_escapes_in_foreign_text_are_gone() -> None:
    run = one({**EARLY, "failures": [{"error_message": "\x1b[31mred\x07"}]})
    assert run.failures == ("red\ufffd",)


@pytest.mark.parametrize(
    ("change", "place"), [({"requests": "ten"}, "requests"), ({"request_timings": [{"e2e_ms": "x"}]}, "e2e_ms")]
)
def test_wrong_types_are_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(BadInput, match=place):
        one({**EARLY, **change})


def test_a_vllm_result_is_labelled() -> None:
    run = one(VLLM)
    assert (run.completed, run.failed, run.failures) == (2, 1, ("Bad Request",))
    assert run.reported["throughput_tok_s"] == 5.0
    assert "throughput_tok_s" not in run.definitions
    assert run.reported["time_to_first_output_p50_ms"] == 100.0
    assert run.reported["e2e_p50_ms"] == pytest.approx(200.0)
    assert run.reported["decode_tok_s_p50"] == pytest.approx(100.0)
    assert "role-only chunk" in run.definitions["time_to_first_output_p50_ms"]
    assert "ttft_p50_ms" not in run.reported
    bare = one({name: value for name, value in VLLM.items() if name not in ("ttfts", "itls", "errors")})
    assert bare.reported["decode_tok_s_p50"] == 100.0
    assert "interpolated median" in bare.definitions["decode_tok_s_p50"]


def line(phase: str, first: float, latency: float, tokens: int, **told: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "request_start_ns": 10**9,
            "request_end_ns": 10**9 + int(latency * 1e6),
            "benchmark_phase": phase,
            "was_cancelled": False,
        },
        "metrics": {
            "time_to_first_token": {"value": first, "unit": "ms"},
            "request_latency": {"value": latency, "unit": "ms"},
            "output_sequence_length": {"value": tokens, "unit": "tokens"},
            "input_sequence_length": {"value": 100, "unit": "tokens"},
        },
        "error": None,
        **told,
    }


def test_aiperf_leaves_warm_up_and_failures_out(tmp_path: Path) -> None:
    lines = [
        line("warmup", 900, 2000, 11),
        line("profiling", 100, 1100, 101),
        line("profiling", 1, 1, 1, error={"code": 500}),
    ]
    path = tmp_path / "profile_export.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")
    (arm,) = read_arms([("a", [path])])
    run = arm.runs[0]
    assert (run.completed, run.failed, run.warm_up) == (1, 1, True)
    assert run.reported["time_to_first_output_p50_ms"] == 100
    assert run.reported["decode_tok_s_p50"] == pytest.approx(100)
    assert run.reported["throughput_tok_s"] == pytest.approx(101 / 1.1)
    assert set(run.definitions) == {"e2e_p50_ms", "generation_p50_ms", "decode_tok_s_p50"}


def test_llama_benchy_gives_a_run_a_cell() -> None:
    def metric(*values: float) -> dict[str, Any]:
        return {"mean": sum(values) / len(values), "std": 0.0, "values": list(values)}

    cell = {
        "concurrency": 1,
        "context_size": 4096,
        "prompt_size": 2048,
        "response_size": 32,
        "is_context_prefill_phase": False,
        "pp_req_throughput": metric(7000, 7100, 7200),
        "tg_req_throughput": metric(70, 71, 72),
        "tg_throughput": metric(70, 71, 72),
        "e2e_ttft": metric(900, 910, 920),
    }
    report = {
        "version": "0.4.0",
        "timestamp": "2026-08-01 00:00:00",
        "latency_mode": "none",
        "latency_ms": 0.0,
        "model": "m",
        "prefix_caching_enabled": True,
        "max_concurrency": 1,
        "benchmarks": [cell, {**cell, "is_context_prefill_phase": True}],
    }
    run = one(report)
    assert (run.label_tokens, run.completed) == (6144, 3)
    assert run.reported["time_to_first_output_p50_ms"] == 910
    assert "any kind" in run.definitions["effective_prefill_tok_s_p50"]
    assert "time_to_first_output_p50_ms" not in run.definitions


def test_lil_bench_is_read_compressed(tmp_path: Path) -> None:
    cells = [
        {"concurrency": 1, "context_tokens": 0, "aggregate_tps": 100.0, "per_request_avg_tps": 100.0},
        {"concurrency": 8, "context_tokens": 65536, "aggregate_tps": -1.0},
    ]
    data = {
        "schema": "lil-bench-result/1",
        "started": "2026-08-01T00:00:00+00:00",
        "server": {"api": {"model_id": "org/m", "max_model_len": 32768}},
        "results": {"bench": {"prefill": {"8192": {"tok_per_sec": 5000.0, "ttft_seconds": 1.6}}, "results": cells}},
    }
    path = tmp_path / "result.json.gz"
    path.write_bytes(gzip.compress(json.dumps(data).encode()))
    (arm,) = read_arms([("a", [path])])
    prefill, decode, failed = sorted(
        arm.runs, key=lambda run: (run.concurrency or 0, run.run != "x", -(run.label_tokens or 0))
    )
    assert prefill.reported["time_to_first_output_p50_ms"] == 1600
    assert decode.reported["decode_tok_s_p50"] == 100
    assert "sustained in a fixed window" in decode.definitions["decode_tok_s_p50"]
    assert (failed.passed, failed.failures) == (False, ("no valid measurement",))
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(BadInput, match="gzip"):
        read_arms([("a", [path])])


def test_nvidia_smi_snapshots() -> None:
    text = "index, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n0, 97887 MiB, 97044 MiB, 395 MiB\n"
    read = reader_of(text)
    assert read is not None
    (window,) = read(text, "idle-after-ladder.csv")
    assert isinstance(window, MemoryWindow)
    assert (window.phase, window.gpus[0].reserved_mib) == ("idle after ladder", 448)
    with pytest.raises(BadInput, match=r"line 2, memory\.free"):
        read(text.replace("395 MiB", "[N/A]"), "x.csv")


def test_a_metric_that_means_something_else_is_not_compared(tmp_path: Path) -> None:
    vllm = write(
        tmp_path / "vllm.json", {**VLLM, "completed": 3, "failed": 0, "errors": ["", "", ""], "output_lens": [11, 9, 9]}
    )
    ours = write(tmp_path / "ours.json", artifact("a-r1", (request(),), what="capacity"))
    document = compare("ours", [ours], "theirs", [vllm])
    e2e = document["metrics"]["e2e_p50_ms"]
    assert e2e["theirs_latency_delta_percent"] is None
    assert e2e["effect"]["verdict"] == "invalid (the metric does not mean the same in both arms)"
    assert document["metrics"]["throughput_tok_s"]["theirs_delta_percent"] is not None
    assert "unlike_definitions" in {one["rule"] for one in document["caveats"]}


def test_two_files_of_one_foreign_format_compare_with_a_label(tmp_path: Path) -> None:
    whole = {**VLLM, "completed": 3, "failed": 0, "errors": ["", "", ""], "output_lens": [11, 9, 9]}
    old, new = write(tmp_path / "a.json", whole), write(tmp_path / "b.json", {**whole, "ttfts": [0.2, 0.4, 0.4]})
    document = compare("a", [old], "b", [new])
    assert document["metrics"]["time_to_first_output_p50_ms"]["b_latency_delta_percent"] == pytest.approx(300.0)
    assert document["metrics"]["time_to_first_output_p50_ms"]["basis"] == "as the files state it"
    assert any("means: first chunk with choices" in one["text"] for one in document["caveats"])


def test_ours_and_an_imported_run_share_the_clock(tmp_path: Path) -> None:
    """anvil-serving's clock holds the time to connect, so ours is added."""
    rows = [{"request_index": 0, "time_to_first_output_ms": 200.0, "ttft_ms": 500.0, "e2e_ms": 1200.0}]
    theirs = write(
        tmp_path / "t.json", {**EARLY, "requests": 1, "completed": 1, "request_timings": rows, "metrics": {}}
    )
    ours = write(tmp_path / "o.json", artifact("a-r1", (request(connect_ms=5.0),), what="capacity", target_tokens=8192))
    document = compare("ours", [ours], "theirs", [theirs])
    assert document["metrics"]["e2e_p50_ms"]["ours_median"] == 1205.0
    assert document["protocol"]["clock"] == "from before connecting"


def test_labels_are_the_shortest_names_that_tell_files_apart(tmp_path: Path) -> None:
    paths = [write(tmp_path / arm / "r1.json", artifact(f"{arm}-r1", (request(),))) for arm in ("a", "b")]
    paths.append(write(tmp_path / "b" / "r2.json", artifact("b-r2", (request(),))))
    arms: tuple[Arm, ...] = read_arms([("a", paths[:1]), ("b", paths[1:])])
    assert [run.path for arm in arms for run in arm.runs] == ["a/r1.json", "b/r1.json", "r2.json"]
    assert list(arms[1].hashes) == ["b/r1.json", "r2.json"]


def test_a_file_that_is_given_twice_counts_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "r1.json", artifact("a-r1", (request(),)))
    link = tmp_path / "link.json"
    link.symlink_to(path)
    (arm,) = read_arms([("a", [path, tmp_path / "a" / ".." / "a" / "r1.json", link])])
    assert len(arm.runs) == 1


def test_a_file_that_nests_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 200_000)
    with pytest.raises(BadInput, match="JSON"):
        read_arms([("a", [path])])


ROW = {
    "request_index": 0,
    "prompt_tokens": 100,
    "output_tokens": 11,
    "time_to_first_output_ms": 100.0,
    "ttft_ms": 200.0,
    "e2e_ms": 300.0,
}
RAN = {**EARLY, "requests": 1, "completed": 1, "request_timings": [ROW]}
DRAFTED = {
    "schema": "anvil-serving.speculative-decoding-snapshot/v1",
    "counters": {"draft_tokens": 10, "accepted_tokens": 11},
}


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ({**RAN, "completed": -1}, "completed: -1"),
        ({**RAN, "failed": -1}, "failed: -1"),
        ({**RAN, "wall_clock_ms": 1e308}, "wall_ms: 1e+308"),
        ({**RAN, "requests": 2, "completed": 3}, "3 completed and 0 failed of 2"),
        ({**RAN, "failed": 1}, "1 completed and 1 failed of 1"),
        ({**EARLY, "metrics": {"throughput_tok_s": -5.0}}, "throughput_tok_s: -5"),
        ({**RAN, "request_timings": [{**ROW, "output_tokens": -3}]}, "requests[0].output_tokens: -3"),
        ({**RAN, "request_timings": [{**ROW, "e2e_ms": 150.0}]}, "requests[0].e2e_ms: 150"),
        ({**RAN, "request_timings": [{**ROW, "ttft_ms": 50.0}]}, "requests[0].ttft_ms: 50"),
        ({**VLLM, "duration": -4.0}, "wall_ms: -4000"),
        (DRAFTED, "accepted_tokens: 11"),
    ],
)
def test_what_cannot_have_been_measured_is_refused(data: dict[str, Any], place: str, tmp_path: Path) -> None:
    write(tmp_path / "a.json", data)
    with pytest.raises(BadInput, match=re.escape(place)):
        read_arms([("a", [tmp_path / "a.json"])])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"requests": 1', '"requests": 1, "requests": 2', "'requests' stands twice"),
        ('"e2e_ms": 300.0', '"e2e_ms": 1e999', "1e999 is not a number"),
        ('"e2e_ms": 300.0', '"e2e_ms": NaN', "NaN is not a number"),
    ],
)
def test_json_that_is_not_one_text_is_refused(old: str, new: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(RAN).replace(old, new))
    with pytest.raises(BadInput, match=words):
        read_arms([("a", [tmp_path / "a.json"])])


def test_a_copy_is_no_second_run_and_a_lost_request_no_success(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {**RAN, "requests": 3, "failed": 1})
    (arm,) = read_arms([("a", [tmp_path / "a.json"])])
    (run,) = arm.runs
    assert (run.completed, run.failed, run.passed) == (1, 2, False)
    assert run.failures == ("1 requests of which the file says nothing",)
    (tmp_path / "copy.json").write_bytes((tmp_path / "a.json").read_bytes())
    for groups in ([("a", ["a.json", "copy.json"])], [("a", ["a.json"]), ("b", ["copy.json"])]):
        with pytest.raises(BadInput, match=r"same bytes as a\.json"):
            read_arms([(name, [tmp_path / one for one in files]) for name, files in groups])
