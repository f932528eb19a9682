"""Counters in vLLM's names, and the throughput lines of its log."""

from __future__ import annotations

from pathlib import Path

from anvil_tui.engines import metrics as reader
from anvil_tui.rehearsal.metrics import Counters, Gauges, exposition, throughput

from .conftest import config_of

DRAFTED = Counters(
    drafted_positions=5,
    prompt_tokens=2960,
    cached_tokens=2816,
    generation_tokens=407,
    prefix_queries=2960,
    prefix_hits=2816,
    drafts=100,
    accepted=[84, 69, 52, 41, 29],
)


def test_our_own_reader_understands_the_exposition() -> None:
    text = exposition(config_of("rehearsal-dspark", Path("t")), DRAFTED, Gauges(running=2, waiting=1, kv_usage=0.25))
    found = reader.counters(text)
    assert found.values["prompt_tokens"] == 2960
    assert found.values["generation_tokens"] == 407
    assert found.values["prefix_cache_hits"] == 2816
    assert found.values["spec_draft_tokens"] == 500
    assert found.values["spec_accepted_tokens"] == 275
    assert list(found.accepted_per_position) == [84, 69, 52, 41, 29]
    assert found.process_start is not None
    config = reader.cache_config(text)
    assert config["num_gpu_blocks"] == "7759"
    assert config["kv_cache_size_tokens"] == "138459"
    assert float(config["kv_cache_max_concurrency"]) == 7759 / 7345


def test_no_speculation_no_counters_of_it() -> None:
    text = exposition(config_of("rehearsal-control", Path("t")), Counters(), Gauges(running=0, waiting=0, kv_usage=0.0))
    assert "spec_decode" not in text


def test_throughput_lines() -> None:
    lines = [message for _, message in throughput(Counters(accepted=[0] * 5), DRAFTED, Gauges(1, 0, 0.021), 10.0)]
    assert lines == [
        "Engine 000: Avg prompt throughput: 296.0 tokens/s, Avg generation throughput: 40.7 tokens/s, Running: 1 reqs, "
        "Waiting: 0 reqs, GPU KV cache usage: 2.1%, Prefix cache hit rate: 95.1%",
        "SpecDecoding metrics: Mean acceptance length: 3.75, Accepted throughput: 27.50 tokens/s, "
        "Drafted throughput: 50.00 tokens/s, Accepted: 275 tokens, Drafted: 500 tokens, "
        "Per-position acceptance rate: 0.840, 0.690, 0.520, 0.410, 0.290, Avg Draft acceptance rate: 55.0%",
    ]
