from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from anvil_tui.evidence.reserve import judge
from anvil_tui.records.vram import (
    MIB,
    Gpu,
    GpuReading,
    ReserveVerdict,
    SamplerGap,
    SpillWitness,
    VramSample,
)

DATA = Path(__file__).parents[2] / "data"
PERIOD = 50_000
LENGTH = 6_000_000
A = Gpu(uuid="GPU-aaaa", name="one", index=0)
B = Gpu(uuid="GPU-bbbb", name="two", index=1)
TOTAL = 97887 * MIB


def reading(gpu: Gpu, free: int | None, **fields: Any) -> GpuReading:
    return GpuReading(uuid=gpu.uuid, free=free, **fields)


def series(
    free: Callable[[int], int | None] = lambda _: 4000 * MIB, gpus: Sequence[Gpu] = (A,), length: int = LENGTH
) -> list[VramSample]:
    """A sample every period of a window from 0, the first one period in."""
    return [
        VramSample(mono_us=at, at="", gpus=tuple(reading(gpu, free(at)) for gpu in gpus))
        for at in range(PERIOD, length + 1, PERIOD)
    ]


def verdict(samples: Sequence[VramSample], gaps: Sequence[SamplerGap] = (), **options: Any) -> ReserveVerdict:
    settings: dict[str, Any] = {
        "window_from_us": 0,
        "window_to_us": LENGTH,
        "gpus": (A,),
        "reserve_mib": 3072,
        "policy": "enforce",
        "policy_reason": None,
        "period_us": PERIOD,
        "spill_applies": False,
    }
    return judge(samples, gaps, **{**settings, **options})


def witness(spilled: bool | None, from_us: int = 0, to_us: int = LENGTH, words: str = "said so") -> SpillWitness:
    return SpillWitness(from_us=from_us, to_us=to_us, witness="kernel log", spilled=spilled, words=words)


def test_enough_free_memory_all_the_time_passes() -> None:
    found = verdict(series())
    assert (found.verdict, found.spill) == ("PASS", "not applicable")
    assert (found.samples, found.hz, found.max_gap_ms, found.coverage_pct) == (120, 20.0, 50.0, 100.0)
    (row,) = found.gpus
    assert (row.min_free_bytes, row.margin_bytes, row.below_seconds) == (4000 * MIB, 928 * MIB, 0.0)


@pytest.mark.parametrize(
    ("free", "expected"),
    [(3072 * MIB, "PASS"), (3072 * MIB - 1, "FAIL"), (0, "FAIL"), (3072 * MIB + 1, "PASS")],
)
def test_bytes_are_compared_and_the_reserve_itself_passes(free: int, expected: str) -> None:
    found = verdict(series(lambda _: free))
    assert found.verdict == expected
    assert found.gpus[0].margin_bytes == free - 3072 * MIB


@pytest.mark.parametrize("row", json.loads((DATA / "gpu_reserve.json").read_text()), ids=lambda row: row["case"])
def test_recorded_gpus(row: dict[str, Any]) -> None:
    """Figures of real cards: free is judged, and total − used, which would pass some of them, never is."""
    expected = row["expected"]
    figures = {"total": row["total"] * MIB, "used": row["used"] * MIB, "reserved": expected["driver_reserved"] * MIB}
    for known in (figures, {**figures, "reserved": None}):
        sample = VramSample(mono_us=0, at="", gpus=(reading(A, row["free_reported"] * MIB, **known),))
        found = verdict([structs.replace(sample, mono_us=at) for at in range(0, LENGTH + 1, PERIOD)])
        assert (found.verdict == "PASS") is expected["reserve_pass_3072"]
        margin = found.gpus[0].margin_bytes
        assert margin is not None
        assert max(0, -margin) == expected["shortfall_mib"] * MIB


def test_the_driver_reserve_does_not_count_as_free() -> None:
    """638 MiB of driver reserve: total − used of NVML's second record says 3068, what is free is 2430 MiB."""
    total, free, reserved = TOTAL, 2430 * MIB, 638 * MIB
    figures = {"total": total, "used": total - free - reserved, "reserved": reserved}
    sample = VramSample(mono_us=0, at="", gpus=(reading(A, free, **figures),))
    samples = [structs.replace(sample, mono_us=at) for at in range(0, LENGTH + 1, PERIOD)]
    found = verdict(samples, reserve_mib=3000)
    assert (found.verdict, found.gpus[0].margin_bytes) == ("FAIL", -570 * MIB)
    assert found.gpus[0].reserved_bytes == reserved
    assert found.reason == "GPU-aaaa: 2430 MiB free at least: 570 MiB short of 3000 MiB"


def test_one_short_dip_fails_with_its_time() -> None:
    found = verdict(series(lambda at: 1249 * MIB if at == 3_000_000 else 4000 * MIB))
    (row,) = found.gpus
    assert (found.verdict, row.min_free_bytes, row.min_free_at_us) == ("FAIL", 1249 * MIB, 3_000_000)
    assert row.below_seconds == pytest.approx(0.05)


def test_a_dip_fails_even_where_samples_are_missing() -> None:
    samples = [s for s in series(lambda at: 3000 * MIB if at == 1_000_000 else 4000 * MIB) if s.mono_us < 1_100_000]
    gap = SamplerGap(from_us=1_100_000, to_us=5_000_000, reason="killed")
    found = verdict(samples, [gap])
    assert found.verdict == "FAIL"
    assert found.gpus[0].below_seconds == pytest.approx(0.05)


def test_what_lies_outside_the_window_says_nothing() -> None:
    before = VramSample(mono_us=-1, at="", gpus=(reading(A, 0),))
    after = VramSample(mono_us=LENGTH + 1, at="", gpus=(reading(A, 0),))
    gap = SamplerGap(from_us=LENGTH + 1, to_us=LENGTH + 9, reason="later")
    assert verdict([before, *series(), after], [gap]).verdict == "PASS"


@pytest.mark.parametrize(
    ("missing", "expected", "words"),
    [
        (range(0, 0), "PASS", "928 MiB above"),
        (range(3_000_000, 3_050_000), "PASS", ""),
        (range(3_000_000, 3_100_000), "INCOMPLETE", "2 samples are missing"),
        (range(3_000_000, 3_200_000), "INCOMPLETE", "4 samples are missing"),
        (range(3_000_000, 3_250_000), "INCOMPLETE", "300 ms without a sample"),
        (range(0, 1_000_000), "INCOMPLETE", "1000 ms without"),
        (range(4_100_000, LENGTH + 1), "INCOMPLETE", "1950 ms without"),
        (range(3_900_000, LENGTH + 1), "UNKNOWN", "no sample in the last 2.1 s"),
        (range(0, LENGTH + 1), "UNKNOWN", "no sample of this GPU"),
    ],
)
def test_missing_samples(missing: range, expected: str, words: str) -> None:
    found = verdict([sample for sample in series() if not missing.start <= sample.mono_us < missing.stop])
    assert found.verdict == expected
    assert words in found.reason


def test_one_missing_sample_in_a_hundred_is_tolerated_and_two_are_not() -> None:
    long = 30_000_000
    samples = series(length=long)
    for every, expected in ((100, "PASS"), (60, "INCOMPLETE")):
        kept = [sample for at, sample in enumerate(samples, 1) if at % every]
        assert verdict(kept, window_to_us=long).verdict == expected


def test_a_sampler_that_had_to_slow_down_is_not_a_full_watch() -> None:
    found = verdict(series()[::2])
    assert (found.verdict, found.hz) == ("INCOMPLETE", 10.0)
    assert "at the 20 Hz asked for" in found.reason
    assert verdict(series()[::2], period_us=2 * PERIOD).verdict == "PASS"


def test_a_restart_is_incomplete_and_named() -> None:
    found = verdict(series(), [SamplerGap(from_us=2_000_000, to_us=2_010_000, reason="sampler: signal 11 (SIGSEGV)")])
    assert found.verdict == "INCOMPLETE"
    assert "SIGSEGV" in found.reason


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (GpuReading(uuid=A.uuid, error="GPU_IS_LOST"), "GPU_IS_LOST"),
        (GpuReading(uuid=A.uuid, total=TOTAL), "no figure of free memory"),
        (GpuReading(uuid=A.uuid, free=4000 * MIB, total=0), "no dedicated memory"),
        (GpuReading(uuid=A.uuid, free=TOTAL + 1, total=TOTAL), "free is"),
        (GpuReading(uuid=A.uuid, free=5000 * MIB, used=TOTAL - 4000 * MIB, total=TOTAL), "do not sum"),
        (GpuReading(uuid=A.uuid, free=4000 * MIB, used=9 * MIB, reserved=638 * MIB, total=TOTAL), "do not sum"),
        (GpuReading(uuid=A.uuid, free=-1), "free is -1"),
    ],
)
def test_one_reading_that_cannot_be_judged_is_unknown(wrong: GpuReading, words: str) -> None:
    samples = series()
    samples[60] = structs.replace(samples[60], gpus=(wrong,))
    found = verdict(samples)
    assert found.verdict == "UNKNOWN"
    assert words in found.reason


@pytest.mark.parametrize("used", [TOTAL - 4000 * MIB, TOTAL - 4638 * MIB])
def test_used_with_or_without_the_driver_reserve_is_credible(used: int) -> None:
    sample = VramSample(mono_us=0, at="", gpus=(reading(A, 4000 * MIB, total=TOTAL, used=used, reserved=638 * MIB),))
    assert verdict([structs.replace(sample, mono_us=at) for at in range(0, LENGTH + 1, PERIOD)]).verdict == "PASS"


def test_every_gpu_counts_and_the_worst_decides() -> None:
    samples = [
        VramSample(mono_us=at, at="", gpus=(reading(B, 3071 * MIB), reading(A, 4000 * MIB)))
        for at in range(PERIOD, LENGTH + 1, PERIOD)
    ]
    found = verdict(samples, gpus=(A, B))
    assert [row.verdict for row in found.gpus] == ["PASS", "FAIL"]
    assert (found.verdict, found.reason) == ("FAIL", "GPU-bbbb: 3071 MiB free at least: 1 MiB short of 3072 MiB")
    assert verdict(samples, gpus=(A,)).verdict == "PASS"
    lost = verdict(series(), gpus=(A, B))
    assert (lost.verdict, lost.gpus[1].min_free_bytes, lost.gpus[1].below_seconds) == ("UNKNOWN", None, None)


def test_no_gpu_and_no_sample_are_unknown() -> None:
    assert verdict(series(), gpus=()).verdict == "UNKNOWN"
    found = verdict([])
    assert (found.verdict, found.samples, found.hz, found.max_gap_ms, found.coverage_pct) == (
        "UNKNOWN", 0, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("witnesses", "expected", "spill"),
    [
        ([], "PASS (spill not checked)", "not checked"),
        ([witness(None)], "PASS (spill not checked)", "not checked"),
        ([witness(False)], "PASS", "none"),
        ([witness(None), witness(False)], "PASS", "none"),
        ([witness(False), witness(True)], "FAIL", "seen"),
        ([witness(False, from_us=1)], "PASS (spill not checked)", "not checked"),
        ([witness(False, to_us=LENGTH - 1)], "PASS (spill not checked)", "not checked"),
        ([witness(True, from_us=LENGTH, to_us=LENGTH + 5)], "FAIL", "seen"),
        ([witness(True, from_us=LENGTH + 1, to_us=LENGTH + 5)], "PASS (spill not checked)", "not checked"),
    ],
)
def test_spill(witnesses: list[SpillWitness], expected: str, spill: str) -> None:
    found = verdict(series(), spill_applies=True, witnesses=witnesses)
    assert (found.verdict, found.spill) == (expected, spill)
    assert [row.verdict for row in found.gpus] == [expected]


def test_the_witness_that_decides_is_named() -> None:
    found = verdict(series(), spill_applies=True, witnesses=[witness(None, words="deaf"), witness(False, words="calm")])
    assert found.spill_witness == "kernel log: calm"
    found = verdict(series(), spill_applies=True, witnesses=[witness(None, words="deaf")])
    assert found.spill_witness == "kernel log: deaf"


def test_no_verdict_passes_over_spill() -> None:
    spilled = {"spill_applies": True, "witnesses": [witness(True)]}
    assert verdict([], **spilled).verdict == "FAIL"
    assert verdict(series()[:3], **spilled).verdict == "FAIL"


def test_a_rehearsal_cannot_spill() -> None:
    found = verdict(series(), spill_applies=True, rehearsal=True)
    assert (found.verdict, found.spill, found.rehearsal) == ("PASS", "not applicable", True)


@pytest.mark.parametrize("policy", ["enforce", "waived", "off"])
def test_the_policy_does_not_change_what_was_measured(policy: str) -> None:
    found = verdict(series(lambda _: 0), policy=policy, policy_reason="a reason")
    assert (found.verdict, found.policy, found.policy_reason) == ("FAIL", policy, "a reason")


free_figures = st.one_of(st.none(), st.integers(0, 8000 * MIB), st.integers(3071 * MIB, 3073 * MIB))
sample_lists = st.lists(
    st.tuples(st.integers(-PERIOD, LENGTH // 4), free_figures, free_figures), max_size=60, unique_by=lambda row: row[0]
)


@settings(max_examples=150, deadline=None)
@given(rows=sample_lists, dense=st.booleans(), seed=st.integers(0, 99))
def test_properties_of_every_verdict(rows: list[tuple[int, int | None, int | None]], dense: bool, seed: int) -> None:
    length = LENGTH // 4
    samples = [VramSample(mono_us=at, at="", gpus=(reading(A, a), reading(B, b))) for at, a, b in rows]
    if dense:
        samples += [s for s in series(gpus=(A, B), length=length) if s.mono_us not in {at for at, _, _ in rows}]
    options = {"gpus": (A, B), "window_to_us": length}
    found = verdict(samples, **options)
    inside = [s for s in samples if 0 <= s.mono_us <= length]
    figures = [r.free for s in inside for r in s.gpus]
    short = any(free is not None and free < 3072 * MIB for free in figures)
    assert (found.verdict == "FAIL") is short
    if found.verdict == "PASS":
        assert figures
        assert all(free is not None and free >= 3072 * MIB for free in figures)
        stamps = sorted(s.mono_us for s in inside)
        edges = [0, *stamps, length]
        assert max(after - before for before, after in itertools.pairwise(edges)) <= 250_000
        assert verdict(samples, [SamplerGap(from_us=5, to_us=6, reason="x")], **options).verdict == "INCOMPLETE"
    for row in found.gpus:
        if row.min_free_bytes is None:
            assert row.verdict == "UNKNOWN"
            assert row.margin_bytes is None
        else:
            assert row.margin_bytes == row.min_free_bytes - 3072 * MIB
            assert (row.below_seconds == 0) is (row.margin_bytes >= 0) or row.min_free_at_us == length
    shuffled = list(samples)
    random.Random(seed).shuffle(shuffled)
    assert verdict(shuffled, **options) == found
