"""Traces: samples by boot, and a reduction that loses no low."""

from __future__ import annotations

from array import array
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.evidence.report.trace import SILENCE_US, GpuTrace, spans, traces
from tests.unit.evidence.report.folders import GPU, INVENTORY, MIB, sample

FREE = st.integers(min_value=0, max_value=1 << 37)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(min_value=1, max_value=3 * SILENCE_US), FREE), min_size=1, max_size=80),
    st.integers(min_value=1, max_value=12),
)
def test_spans_keep_the_lows_the_highs_and_the_silences(steps: list[tuple[int, int]], columns: int) -> None:
    times, at = [], 0
    for step, _ in steps:
        at += step
        times.append(at)
    frees = [free for _, free in steps]
    found = list(spans(GpuTrace(array("q", times), array("q", frees)), times[0], times[-1], columns))
    assert min(span.low for span in found) == min(frees) and max(span.high for span in found) == max(frees)
    assert all(span.low <= span.high and span.from_us <= span.to_us for span in found)
    silences = sum(after - before > SILENCE_US for before, after in pairwise(times))
    assert found[-1].segment == silences
    assert len(found) <= columns + silences
    covered = [(span.from_us, span.to_us) for span in found]
    assert covered == sorted(covered) and covered[0][0] == times[0] and covered[-1][1] == times[-1]


def test_samples_of_two_boots_are_two_traces() -> None:
    lines = [
        INVENTORY,
        sample(9_000_000, 100),
        sample(100, 50),
    ]
    lines[1] = type(lines[1])(mono_us=9_000_000, at="2026-08-11T00:00:10.000Z", gpus=lines[1].gpus)  # type: ignore[union-attr]
    lines[2] = type(lines[2])(mono_us=100, at="2026-08-11T01:00:00.000Z", gpus=lines[2].gpus)  # type: ignore[union-attr]
    starts = [("2026-08-11T00:00:00.000Z", "first"), ("2026-08-11T00:59:00.000Z", "second")]
    first, second = traces("vram/samples.jsonl", lines, starts)
    assert (first.boot_id, second.boot_id) == ("first", "second")
    assert list(first.gpus[GPU.uuid].free) == [100 * MIB] and list(second.gpus[GPU.uuid].free) == [50 * MIB]
    assert first.known == second.known == {GPU.uuid: GPU}


def test_what_is_not_credible_is_counted_and_not_drawn() -> None:
    lines = [
        sample(0, 100, total=1000 * MIB, used=900 * MIB),
        sample(1, None),
        sample(2, 100, error="Unknown Error"),
        sample(3, 2000, total=1000 * MIB),
    ]
    (trace,) = traces("vram/samples.jsonl", lines, [])
    assert trace.samples == 4 and trace.doubtful == 3
    assert list(trace.gpus[GPU.uuid].at_us) == [0]
    assert trace.boot_id is None
