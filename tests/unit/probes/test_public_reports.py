"""Public bug reports about measuring clients, each with the test that holds it, or why none can.

A report is `project#number`; what it says is in a few words. A test is a scenario of scenarios.py by its name, or
`file::function`. The test here proves that each of them exists.
"""

from __future__ import annotations

import importlib

import pytest

from tests.unit.probes.scenarios import SCENARIOS

ELSEWHERE = "not the measuring client: "

REPORTS: dict[str, tuple[str, ...] | str] = {
    "vllm#57519 a stream that ends in an error counts as success": (
        "midstream_error",
        "error_event_name",
        "error_text",
    ),
    "vllm#54708 a stream of [DONE] alone counts as success": ("empty_done",),
    "guidellm#743, inference-perf#713 an error first counts as success": ("error_first",),
    "llama.cpp#14566 too long a prompt is answered by 200 and an error": ("error_too_long",),
    "vllm#3759, vllm#15106 the role chunk taken for the first token": ("role_early", "role_null"),
    "guidellm#737, inference-perf#592, sglang#23949 reasoning not timed": ("reasoning_new", "reasoning_old"),
    "vllm#50624, litellm#20246 reasoning lost by its other name": ("reasoning_old", "both_reasoning_names"),
    "vllm#52640 the budget goes into reasoning": ("reasoning_only_length", "hidden_reasoning"),
    "sglang#10746, sglang#24254 the length asked for taken for the one that came": ("no_usage",),
    "evalscope#778, inference-perf#364 a chunk taken for a token": (
        "mtp4",
        "test_stream::test_any_tokens_a_chunk_give_the_true_rate",
    ),
    "aiperf PR#1279 the first chunk's tokens inflate the rate": ("usage_every", "mtp4", "uneven_counted"),
    "llmperf#35 tokens counted from text": ("blanks", "empty_text_tokens"),
    "tokenomics PR#16 reasoning counted twice": ("reasoning_in_details",),
    "production-stack PR#873 a usage chunk without choices crashes": ("plain", "delta_null"),
    "vllm#27572, vllm-mlx#628 no finish reason at the end": ("clean_eof_no_finish", "done_without_finish"),
    "vllm-mlx#101 no [DONE] and a connection left open": ("left_open_after_finish", "open_after_done"),
    "httpx-sse#34, evalscope#1638 JSON cut at U+2028": ("u2028", "test_sse::test_standard"),
    "TRT-LLM PR#13952, inference-perf#283 lines too long": (
        "bigline",
        "test_exchange::test_an_event_without_end_is_cut",
    ),
    "vllm#35705 the last token rides on the finish chunk": ("finish_with_token", "end_token_in_finish_chunk"),
    "vllm#41691 the text has fewer tokens than the usage": ("usage_above_text",),
    "vllm#53269 a cut tool call says tool_calls": ("tool_cut", "test_gate::test_each_check_can_fail_alone"),
    "vllm#42210 content dropped at a stop string during a tool call": ("test_gate::test_wrong_call",),
    "vllm PR#9209 a named tool ends with stop": ("tool_without_index",),
    "vllm#54227, vllm#52884 a benchmark of the prefix cache": (
        "test_prompts::test_the_nonce_comes_first_and_the_text_does_not_repeat",
        "test_child::test_capacity",
        "reasoning_in_details",
        "cached_zero",
    ),
    "vllm#17408, guidellm#75 prompts not as long as asked": (
        "test_prompts::test_exact",
        "test_vllm_client::test_rungs_are_exact_cold_and_warm",
    ),
    "a ladder calibrated by characters a token": (
        "test_prompts::test_calibrated",
        "test_prompts::test_a_length_that_cannot_be_hit_fails_closed",
    ),
    "vllm#33418 the error tells a wrong size": ("http400", "test_stream::test_too_long_is_told_apart"),
    "max_tokens cut to the room that is left": ("clamped", "test_vllm_client::test_limits"),
    "vllm#26834 a bare 400": ("http400", "test_scenarios::test_errors_are_kept_whole"),
    "llama-benchy#15 a deep rung paid twice": ("test_child::test_a_rung_is_sized_exactly_and_measured",),
    "a healthy long prefill killed by a time-out": (
        "test_prefill::test_deadlines",
        "test_exchange::test_a_late_token_is_in_time",
    ),
    "vllm#39863 the engine is dead and /version answers": (
        "test_endpoint::test_a_completion_without_a_choice_is_no_life",
    ),
    "vllm#17972, vllm#13134 a request hangs": (
        "test_prefill::test_a_stall_is_told_from_slowness",
        "test_exchange::test_deadlines",
    ),
    "vllm#54947 generation goes on after a disconnect": (
        "test_exchange::test_cancelling_closes_the_connection_and_keeps_the_record",
    ),
    "guidellm#431, guidellm#1152 hangs between steps": (
        "test_exchange::test_deadlines",
        "test_child::test_a_lane_that_is_gone",
    ),
    "vllm#18687 ignore_eos ignored": ("fixed", "fixed_short"),
    "guidellm#518 nothing is written when all fail": (
        "test_gate::test_a_dead_lane_leaves_an_observation_for_each_check",
    ),
    "the time of a scrape leaks into the measured window": ("test_child::test_capacity",),
    "the last gauge used for a whole window": ("test_metrics::test_differences_notice_a_restart",),
    "vllm PR#24049 `_created` series and engines summed": (
        "test_metrics::test_counters_are_summed_over_engines_and_created_series_left_out",
    ),
    "vllm#18354, vllm#27133 a metric renamed": ("test_metrics::test_names_of_versions_and_engines",),
    "nvtop#432, nvitop#55 NVML under WSL": ELSEWHERE + "GPU samples are read by `gpus`",
    "32-bit PCIe counters wrap": ELSEWHERE + "no PCIe traffic is measured",
    "moby#19645, moby#4801 progress bars and log rotation": ELSEWHERE + "logs are read by `lanes` and `engines`",
    "WSL#40745, WSL#10006, WSL#12583 the VM pauses, the clock steps": (
        "test_rates::test_pauses_and_clock_steps",
        "stall_mid",
    ),
    "tt-studio#952 a slow first request after idling": ("test_exchange::test_connecting_is_outside_the_clock",),
    "a model that loops looks fast under speculation": ("repeated", "test_answer::test_loops"),
    "anubis-oss#34, llm-rig#100 finish reason and throttling not kept": ("plain", "reasoning_only_length"),
}
"""In the order of the collection that they come from."""


def module(name: str) -> str:
    room = "engines" if name in ("test_endpoint", "test_metrics") else "probes"
    return f"tests.e2e.{name}" if name == "test_vllm_client" else f"tests.unit.{room}.{name}"


@pytest.mark.parametrize("report", [report for report, held in REPORTS.items() if not isinstance(held, str)])
def test_the_tests_exist(report: str) -> None:
    for held in REPORTS[report]:
        file, separator, function = held.partition("::")
        if separator:
            assert hasattr(importlib.import_module(module(file)), function), held
        else:
            assert file in SCENARIOS, held


def test_every_report_is_accounted_for() -> None:
    assert len(REPORTS) == 48
