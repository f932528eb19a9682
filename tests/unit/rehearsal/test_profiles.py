"""The shipped rehearsal lanes decode, exclude each other and carry the published figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from anvil_tui.engines.startup_log import StartupLog
from anvil_tui.records.lane import RehearsalLaunch
from anvil_tui.rehearsal import figures, startup_log
from anvil_tui.rehearsal.memory import CONTEXT_MIB, Held, held_mib

from .conftest import PROFILES, config_of, profile

NAMES = ("rehearsal-batch8192", "rehearsal-batch4096", "rehearsal-dspark", "rehearsal-control", "rehearsal-393k")
LOADED = Held(context=True, weights=1.0, non_torch=True, kv=True, graphs=True)
AT_PEAK = replace(LOADED, activation=1.0, kept=1.0)


def free_mib(name: str, held: Held) -> list[int]:
    """Free memory of each GPU while the lane alone holds that."""
    config = config_of(name)
    return [
        gpu.total_mib - gpu.reserved_mib - gpu.host_mib - held_mib(config, gpu, rank, held)
        for rank, gpu in enumerate(config.gpus)
    ]


def log_of(name: str, pid: int = 100, stamp: str = "12-01 03:40:29") -> str:
    """The lane's whole start-up log."""
    config = config_of(name)
    free = [
        (gpu.total_mib - gpu.reserved_mib - gpu.host_mib - min(CONTEXT_MIB, gpu.overhead_mib)) / figures.MIB_PER_GIB
        for gpu in config.gpus
    ]
    script = [*startup_log.opening(config), *startup_log.loading(config, free)]
    assert [entry.at for entry in script] == sorted(entry.at for entry in script)
    return "".join(startup_log.written(entry, pid, stamp) for entry in script)


def test_these_are_all_of_them() -> None:
    assert {path.stem for path in PROFILES.glob("rehearsal-*.toml")} == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_is_labelled_and_alone_on_its_gpus(name: str) -> None:
    lane = profile(name)
    assert lane.about.startswith("REHEARSAL")
    assert lane.endpoint.served_name.startswith("rehearsal-")
    assert lane.endpoint.base_url.startswith("http://127.0.0.1:")
    assert (lane.gpus.source, lane.gpus.reserve_mib) == ("rehearsal", 3072)
    assert isinstance(lane.launch, RehearsalLaunch)
    assert [gpu.uuid[:15] for gpu in lane.launch.gpus] == ["GPU-rehearsal-0", "GPU-rehearsal-1"]
    engine = lane.launch.engine
    assert engine.startup_time_scale is not None
    assert 4 <= engine.startup_seconds / engine.startup_time_scale <= 5
    # Tokens must stay further apart than a timer's tick, or a client sees bursts.
    assert (1 + sum(engine.acceptance)) / engine.decode_tok_s / engine.time_scale > 0.001
    figures.check(config_of(name), name)


def test_ports_and_names_differ_and_gpus_are_the_same() -> None:
    lanes = [profile(name) for name in NAMES]
    assert len({lane.endpoint.base_url for lane in lanes}) == len(NAMES)
    assert len({lane.endpoint.served_name for lane in lanes}) == len(NAMES)
    assert len({tuple(gpu.uuid for gpu in config_of(name).gpus) for name in NAMES}) == 1


def test_the_arms_of_the_batch_test_differ_in_one_setting() -> None:
    one, two = (profile(name).recipe for name in NAMES[:2])
    assert [field for field in one.__struct_fields__ if getattr(one, field) != getattr(two, field)] == [
        "max_num_batched_tokens"
    ]


@pytest.mark.parametrize(
    ("name", "kv_gib", "tokens", "concurrency", "weights", "activation"),
    [
        ("rehearsal-batch8192", 15.27, 283_917, 2.17, 75.64, 1.73),
        ("rehearsal-batch4096", 15.99, 553_243, 4.22, 75.51, 1.14),
        ("rehearsal-control", 13.85, 257_515, 1.96, 76.6, 2.41),
        ("rehearsal-dspark", 7.78, 138_459, 1.06, 82.47, 2.6),
    ],
)
def test_the_log_tells_the_published_figures_and_its_sums_hold(
    name: str, kv_gib: float, tokens: int, concurrency: float, weights: float, activation: float
) -> None:
    log = StartupLog()
    log.feed(log_of(name).encode() + b"INFO:     Application startup complete.\n")
    report = log.report()
    assert (report.state, report.ranks) == ("ready", 2)
    assert report.kv_available_gib["TP0"].value == pytest.approx(kv_gib, abs=0.006)
    assert report.kv_tokens is not None and report.kv_tokens.value == tokens
    assert report.max_concurrency is not None and report.max_concurrency.value == concurrency
    assert report.max_model_len is not None and report.max_model_len.value == 131_072
    assert {rank: figure.value for rank, figure in report.weights_gib.items()} == pytest.approx(
        {"TP0": weights, "TP1": weights}, abs=0.01
    )
    assert report.peak_activation_gib["TP1"].value == activation
    assert {check.rank for check in report.checks} == {"TP0", "TP1"}
    assert all(check.holds for check in report.checks)
    assert report.unread == ()


def test_the_seed_lanes_tell_what_lies_outside_torch() -> None:
    log = StartupLog()
    log.feed(log_of("rehearsal-batch8192").encode())
    report = log.report()
    assert {rank: figure.value for rank, figure in report.non_torch_gib.items()} == {"TP0": 0.35, "TP1": 0.12}
    assert {rank: figure.value for rank, figure in report.cuda_graph_gib.items()} == {"TP0": 0.04, "TP1": 0.04}


def test_the_log_to_the_letter() -> None:
    golden = Path(__file__).parents[2] / "data" / "rehearsal" / "startup-batch8192.txt"
    assert log_of("rehearsal-batch8192").encode() == golden.read_bytes()


@pytest.mark.parametrize(
    ("name", "after_work"), [("rehearsal-control", [1982, 2593]), ("rehearsal-dspark", [395, 265])]
)
def test_idle_memory_after_work_is_as_published(name: str, after_work: list[int]) -> None:
    assert free_mib(name, replace(LOADED, kept=1.0)) == after_work


@pytest.mark.parametrize("name", NAMES)
def test_a_long_prefill_misses_the_reserve_on_every_gpu_and_fits_the_card(name: str) -> None:
    assert all(0 < free < 3072 for free in free_mib(name, AT_PEAK))


def test_an_idle_look_before_the_first_request_flatters() -> None:
    assert all(free > 3072 for free in free_mib("rehearsal-batch8192", LOADED))


def test_both_arms_of_the_batch_test_fill_the_same_budget() -> None:
    one, two = free_mib("rehearsal-batch8192", AT_PEAK), free_mib("rehearsal-batch4096", AT_PEAK)
    assert one == pytest.approx(two, abs=1)


def test_acceptance_is_as_published() -> None:
    accepted = config_of("rehearsal-dspark").engine.acceptance
    assert sum(accepted) / 5 == pytest.approx(4865 / 8830, abs=0.001)


@pytest.mark.parametrize(
    ("name", "prompt", "first_output_ms", "generation_ms"),
    [("rehearsal-batch8192", 119_503, 15_855, 2031), ("rehearsal-batch4096", 119_503, 16_273, 1435)],
)
def test_the_largest_rung_takes_as_long_as_published(
    name: str, prompt: int, first_output_ms: float, generation_ms: float
) -> None:
    engine = config_of(name).engine
    assert prompt / engine.prefill_tok_s * 1000 == pytest.approx(first_output_ms, rel=0.001)
    assert (engine.output_tokens - 1) / engine.decode_tok_s * 1000 == pytest.approx(generation_ms, rel=0.002)


@pytest.mark.parametrize(("arm", "name"), [("dspark5", "rehearsal-dspark"), ("nospec", "rehearsal-control")])
def test_prefill_is_that_of_the_one_cold_request(arm: str, name: str) -> None:
    folder = Path(__file__).parents[4] / "shared" / "cases" / "seed000"
    path = folder / f"capacity-r16-b12x-{arm}-low-4k-c1-r3-headroom2048-r1.json"
    if not path.is_file():
        pytest.skip("the published artifacts are not here")
    row = json.loads(path.read_bytes())["request_timings"][0]
    assert config_of(name).engine.prefill_tok_s == pytest.approx(row["effective_prefill_tok_s"], rel=0.001)
