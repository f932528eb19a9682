"""Run metrics against the golden artifacts, and what must not change them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from anvil_tui.evidence.run_metrics import observed_concurrency, request_timing, run_metrics, wall_time_ms
from anvil_tui.records.request import RequestRecord
from tests.unit.evidence.samples import GOLDENS, request


def rows_of(case: dict[str, Any]) -> tuple[RequestRecord, ...]:
    rows = [
        RequestRecord(
            request_index=row["request_index"],
            outcome="ok",
            model=case["model"],
            max_tokens=case["max_tokens"],
            connect_ms=0.0,
            **{name: row[name] for name in row if name not in ("request_index", "planned_context_tokens")},
        )
        for row in case["inputs"]["rows"]
    ]
    failed = [
        RequestRecord(
            request_index=one["request_index"], outcome="no_visible_content", model="m", max_tokens=case["max_tokens"]
        )
        for one in case["failures"]
    ]
    return (*rows, *failed)


@pytest.mark.parametrize("case", GOLDENS["capacity"], ids=lambda case: case["source"].rsplit("/", 1)[-1])
def test_golden_artifacts(case: dict[str, Any]) -> None:
    """Every figure that an artifact states follows from its rows, to 1e-9."""
    rows = rows_of(case)
    found = msgspec.to_builtins(run_metrics(rows, wall_ms=case["inputs"]["wall_clock_ms"], clock="connect"))
    assert (found["completed"], found["failed"]) == (case["completed"], case["failed"])
    for row, expected in zip(rows, case["expected"]["rows"], strict=False):
        timing = msgspec.to_builtins(request_timing(row, "connect"))
        for name, value in expected.items():
            if name in timing:
                assert timing[name] == pytest.approx(value, rel=1e-9), name
    stated = {
        name: value for part in case["expected"].values() if isinstance(part, dict) for name, value in part.items()
    }
    stated |= {name: value for name, value in case["expected"].items() if not isinstance(value, dict | list)}
    checked = 0
    for name, value in stated.items():
        if name in found and name != "prefix_cache_hit_avg" and isinstance(value, int | float):
            assert found[name] == pytest.approx(value, rel=1e-9), name
            checked += 1
    assert checked >= 10


def test_the_seeds_clock_adds_the_time_to_connect() -> None:
    one = request(connect_ms=7.0)
    assert request_timing(one).time_to_first_output_ms == 200.0
    assert request_timing(one, "connect").time_to_first_output_ms == 207.0
    assert request_timing(one, "connect").generation_ms == request_timing(one).generation_ms
    assert request_timing(replace(one, connect_ms=None), "connect").e2e_ms is None


def test_a_burst_has_no_rate() -> None:
    timing = request_timing(request(smooth=False))
    assert timing.decode_tok_s is None
    assert timing.mean_inter_token_latency_ms is None
    assert timing.generation_ms == 1000.0


def test_what_rests_on_missing_usage_is_null() -> None:
    metrics = run_metrics([request(output_tokens=None), request(1)])
    assert metrics.output_tokens is None
    assert metrics.throughput_tok_s is None
    assert metrics.e2e_p50_ms == 1200.0


def test_nothing_is_measured_of_nothing() -> None:
    metrics = run_metrics([])
    assert metrics.completed == 0
    assert {metrics.wall_ms, metrics.throughput_tok_s, metrics.decode_tok_s_p50, metrics.prompt_tokens} == {None}


def test_wall_and_concurrency_come_from_the_requests() -> None:
    overlapping = [request(sent_us=0, ended_us=3_000), request(1, sent_us=1_000, ended_us=2_000)]
    assert wall_time_ms(overlapping) == 3.0
    assert observed_concurrency(overlapping) == 2
    assert observed_concurrency([request(0), request(1)]) == 1
    assert wall_time_ms([request(ended_us=None)]) is None
    assert observed_concurrency([request(sent_us=None)]) is None


records = st.builds(
    lambda first, gap, rest, tokens, ok: request(
        outcome="ok" if ok else "timeout",
        connect_ms=0.0,
        time_to_first_output_ms=float(first),
        ttft_ms=float(first + gap),
        e2e_ms=float(first + gap + rest),
        output_tokens=tokens,
    ),
    st.integers(1, 9999),
    st.integers(0, 9999),
    st.integers(1, 99999),
    st.integers(1, 4000),
    st.booleans(),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=1, max_size=12), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows: list[RequestRecord], shuffler: Any) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    assert run_metrics(rows, wall_ms=9.0) == run_metrics(shuffled, wall_ms=9.0)


@settings(max_examples=60, deadline=None)
@given(st.lists(records, min_size=1, max_size=12), st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_the_scale_of_the_clock_scales_times_and_nothing_else(rows: list[RequestRecord], scale: float) -> None:
    def scaled(value: float | None) -> float | None:
        return None if value is None else value * scale

    slower = [
        replace(
            row,
            time_to_first_output_ms=scaled(row.time_to_first_output_ms),
            ttft_ms=scaled(row.ttft_ms),
            e2e_ms=scaled(row.e2e_ms),
        )
        for row in rows
    ]
    old, new = run_metrics(rows, wall_ms=8.0), run_metrics(slower, wall_ms=8.0 * scale)
    assert new.e2e_p50_ms == scaled(old.e2e_p50_ms)
    assert new.generation_p95_ms == scaled(old.generation_p95_ms)
    assert new.output_tokens == old.output_tokens
    for rate in ("decode_tok_s_p50", "throughput_tok_s", "effective_prefill_tok_s_p95"):
        value = getattr(old, rate)
        assert getattr(new, rate) == (None if value is None else pytest.approx(value / scale))
