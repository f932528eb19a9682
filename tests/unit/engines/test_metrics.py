from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.engines import metrics

VLLM = """# HELP vllm:prompt_tokens_total Number of prefill tokens processed.
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="a \\"b\\" {c}, d"} 1000.0
vllm:prompt_tokens_total{engine="1",model_name="m"} 500.0
vllm:prompt_tokens_created{engine="0",model_name="m"} 1.7961337716292982e+09
vllm:prompt_tokens_created{engine="1",model_name="m"} 1.7961337726292982e+09
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 77.0
vllm:request_success_total{engine="0",finished_reason="stop"} 3.0
vllm:request_success_total{engine="0",finished_reason="length"} 4.0
vllm:num_requests_running{engine="0"} 2.0
vllm:num_requests_waiting{engine="0"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.5
vllm:spec_decode_num_drafts_total{engine="0"} 1766.0
vllm:spec_decode_num_draft_tokens_total{engine="0"} 8830.0
vllm:spec_decode_num_accepted_tokens_total{engine="0"} 4865.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 1492.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 1218.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 2.0
vllm:spec_decode_num_accepted_tokens_per_pos_created{engine="0",position="0"} 1.7e+09
vllm:request_prefill_time_seconds_bucket{engine="0",le="0.3"} 1.0
vllm:request_prefill_time_seconds_sum{engine="0"} 2.5
vllm:request_prefill_time_seconds_count{engine="0"} 7.0
vllm:cache_config_info{block_size="16",engine="1",kv_cache_size_tokens="1"} 1.0
vllm:cache_config_info{block_size="128",engine="0",kv_cache_size_tokens="524288",num_gpu_blocks="4096"} 1.0
"""


def test_counters_are_summed_over_engines_and_created_series_left_out() -> None:
    read = metrics.counters(VLLM, at="t", now_us=5)
    assert read.values["prompt_tokens"] == 1500
    assert read.values["requests"] == 7
    assert read.values["kv_usage"] == 0.5
    assert read.values["requests_running"] == 2
    assert read.values["prefill_seconds"] == 2.5
    assert read.values["prefill_count"] == 7
    assert (read.values["spec_drafts"], read.values["spec_draft_tokens"]) == (1766, 8830)
    assert read.values["spec_accepted_tokens"] == 4865
    assert read.accepted_per_position == (1492, 1218, *[0] * 8, 2)
    assert read.process_start == 1.7e9
    assert "preemptions" not in read.values
    assert (read.mono_us, read.at) == (5, "t")


def test_gauges_and_cache_config() -> None:
    now = metrics.gauges(VLLM)
    assert (now.running, now.waiting, now.kv_usage) == (2, 1, 0.5)
    assert metrics.cache_config(VLLM)["num_gpu_blocks"] == "4096"
    assert metrics.kv_pool_tokens(VLLM) == 524288
    assert metrics.kv_pool_tokens('vllm:cache_config_info{kv_cache_size_tokens="None"} 1\n') is None
    assert metrics.gauges("").kv_usage is None
    assert metrics.cache_config("") == {}


@pytest.mark.parametrize(
    ("line", "name", "value"),
    [
        ("vllm:gpu_cache_usage_perc 0.25", "kv_usage", 0.25),
        ('sglang:token_usage{model="m"} 0.5', "kv_usage", 0.5),
        ("llamacpp:kv_cache_usage_ratio 0.75", "kv_usage", 0.75),
        ("vllm:gpu_prefix_cache_hits_total 9", "prefix_cache_hits", 9),
        ("vllm:prefix_cache_hits 9", "prefix_cache_hits", 9),
        ("vllm:time_per_output_token_seconds_sum 4", "per_token_seconds", 4),
        ("sglang:num_running_reqs 3", "requests_running", 3),
        ("vllm:num_preemptions_total 2 1700000000000", "preemptions", 2),
        ("process_start_time_seconds 12.5", None, 12.5),
    ],
)
def test_names_of_versions_and_engines(line: str, name: str | None, value: float) -> None:
    read = metrics.counters(line)
    assert (read.process_start if name is None else read.values[name]) == value


def test_a_new_name_wins_over_an_old_one() -> None:
    both = "vllm:gpu_cache_usage_perc 0.1\nvllm:kv_cache_usage_perc 0.2\n"
    assert metrics.gauges(both).kv_usage == 0.2


def test_differences_notice_a_restart() -> None:
    before = metrics.counters("vllm:prompt_tokens_total 10\nprocess_start_time_seconds 1\n")
    after = metrics.counters(
        "vllm:prompt_tokens_total 25\nvllm:num_preemptions_total 2\nprocess_start_time_seconds 1\n"
    )
    assert metrics.difference(before, after) == {"prompt_tokens": 15, "preemptions": 2}
    restarted = metrics.counters("vllm:prompt_tokens_total 25\nprocess_start_time_seconds 2\n")
    assert metrics.difference(before, restarted) is None
    unknown = metrics.counters("vllm:prompt_tokens_total 10\n")
    fell = metrics.counters("vllm:prompt_tokens_total 9\nvllm:num_preemptions_total 2\n")
    assert metrics.difference(unknown, fell) is None
    grown = metrics.counters("vllm:prompt_tokens_total 11\nvllm:num_preemptions_total 2\n")
    assert metrics.difference(unknown, grown) == {"prompt_tokens": 1}


def test_escapes_in_labels() -> None:
    (sample,) = metrics.samples('a{x="1\\"2\\\\3\\n4",y="}"} NaN')
    assert sample.labels == {"x": '1"2\\3\n4', "y": "}"}
    assert metrics.counters("vllm:prompt_tokens_total NaN").values == {}


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=200) | st.text('vllm:{}="\\,. 1e\n', max_size=100))
def test_no_text_breaks_it(text: str) -> None:
    metrics.counters(text)
    metrics.gauges(text)
    metrics.cache_config(text)
