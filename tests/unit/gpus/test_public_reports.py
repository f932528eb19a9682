"""Public bug reports of other GPU monitors, and the test here that holds each off, or why it cannot happen."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import NamedTuple

import pytest

import anvil_tui.gpus

GPUS, EVIDENCE = "tests.unit.gpus.", "tests.unit.evidence."
SAMPLER, SUPERVISOR = GPUS + "test_sampler", GPUS + "test_supervisor"
INVENTORY, HOST, KERNEL = GPUS + "test_inventory", GPUS + "test_host", GPUS + "test_kernel_log"
TYPEPERF, RESERVE = GPUS + "test_typeperf", EVIDENCE + "test_reserve"


class Report(NamedTuple):
    number: int
    where: str
    tests: tuple[tuple[str, str], ...] = ()
    """Module and test function."""
    cannot: str = ""
    """Why it cannot happen in this room."""


REPORTS = (
    Report(1, "nvtop#432", ((SAMPLER, "test_not_available_is_null_and_named"),)),
    Report(2, "btop#1612", ((SUPERVISOR, "test_a_hang_is_killed_and_the_child_started_again"),)),
    Report(3, "WSL#11277 #11870", ((SUPERVISOR, "test_a_crash_in_the_driver_costs_a_gap"),)),
    Report(4, "WSL#8518", ((SUPERVISOR, "test_a_driver_that_hangs_at_its_start_is_a_failure_and_tried_again"),)),
    Report(5, "WSL#12756", ((SAMPLER, "test_one_session_and_only_the_calls_that_are_needed"),)),
    Report(6, "WSL#41176", ((HOST, "test_the_kernel_log_is_a_witness_of_its_own"), (RESERVE, "test_spill"))),
    Report(7, "WSL#11050", ((HOST, "test_shared_memory_that_stays_is_no_spill_and_a_rise_is"),)),
    Report(
        8,
        "atomic-llama-cpp-turboquant#77",
        ((HOST, "test_shared_memory_that_stays_is_no_spill_and_a_rise_is"),),
    ),
    Report(9, "qwen38-27b-rtx3090#83", ((RESERVE, "test_no_verdict_passes_over_spill"),)),
    Report(
        10,
        "club-3090#1190",
        cannot="advice on what holds memory is a screen's; this room names no process, since WSL shows none of Windows",
    ),
    Report(11, "cognithor#318", cannot="a check before a launch, not a measurement of the GPU"),
    Report(
        12,
        "gpustat#141, nvml-wrapper#57, optimum-benchmark#31, nvitop#13",
        (
            (RESERVE, "test_the_driver_reserve_does_not_count_as_free"),
            (RESERVE, "test_used_with_or_without_the_driver_reserve_is_credible"),
        ),
    ),
    Report(13, "nvtop#322", ((SAMPLER, "test_identity_and_figures"), (RESERVE, "test_recorded_gpus"))),
    Report(14, "nvtop#436", ((SAMPLER, "test_figures_that_contradict_each_other_are_null_and_named"),)),
    Report(
        15,
        "jetson_stats#852, pynvml#63",
        ((SAMPLER, "test_one_session_and_only_the_calls_that_are_needed"),),
    ),
    Report(
        16,
        "marimo#6822, Monitorix#415, netdata#10311 #4892, sparkDash#28",
        (
            (SAMPLER, "test_not_available_is_null_and_named"),
            (SAMPLER, "test_any_error_of_an_optional_call_is_null"),
            (TYPEPERF, "test_figures"),
        ),
    ),
    Report(17, "MaxContextFinder#6", ((RESERVE, "test_every_gpu_counts_and_the_worst_decides"),)),
    Report(
        18,
        "pynvml#42, DALI#5696",
        ((SAMPLER, "test_any_error_of_an_optional_call_is_null"),),
    ),
    Report(19, "gpustat#147", ((SAMPLER, "test_a_driver_that_does_not_start_is_named"),)),
    Report(
        20,
        "nvtop#441 #318, ollama#1888",
        (
            (SAMPLER, "test_a_driver_that_does_not_start_is_named"),
            (SAMPLER, "test_no_library_anywhere_and_one_on_the_loader_path"),
        ),
    ),
    Report(21, "WSL#9099", ((SAMPLER, "test_a_driver_that_does_not_start_is_named"),)),
    Report(
        22,
        "LibreHardwareMonitor#2523",
        (
            (SAMPLER, "test_stale_handles_are_taken_anew_within_the_sample"),
            (SUPERVISOR, "test_a_crash_in_the_driver_costs_a_gap"),
        ),
    ),
    Report(
        23,
        "nvgpu#6, dcgm-exporter#604, NVSentinel#155",
        (
            (SAMPLER, "test_a_lost_gpu_is_named_and_the_other_lives_on"),
            (RESERVE, "test_one_reading_that_cannot_be_judged_is_unknown"),
        ),
    ),
    Report(
        24,
        "gpu-monitoring-tools#188, pai#889, nvitop#106",
        (
            (RESERVE, "test_missing_samples"),
            (SUPERVISOR, "test_a_crash_in_the_driver_costs_a_gap"),
            (SUPERVISOR, "test_the_screen_gets_sensors_that_the_file_does_not_repeat"),
        ),
    ),
    Report(
        25,
        "nvidia-container-toolkit#48 #1227",
        cannot="a lane's health is asked of its endpoint, never of NVML on the host",
    ),
    Report(
        26,
        "Fizgig#105, gpustack#1633, Device-SMI#40, pynvml#28",
        ((SAMPLER, "test_gpus_are_known_by_uuid_when_their_order_changes"),),
    ),
    Report(
        27,
        "tensorflow#32881",
        ((SAMPLER, "test_gpus_are_known_by_uuid_when_their_order_changes"), (INVENTORY, "test_refused")),
    ),
    Report(
        28,
        "vllm#51677 #41848 #46132",
        (
            (INVENTORY, "test_chosen"),
            (INVENTORY, "test_refused"),
            (INVENTORY, "test_a_prefix_of_two_gpus_is_refused_with_both"),
        ),
    ),
    Report(29, "unsloth#8917", ((INVENTORY, "test_chosen"),)),
    Report(
        30,
        "unsloth#6895 #9570, nvsmi#7, hf-mem#33",
        ((RESERVE, "test_bytes_are_compared_and_the_reserve_itself_passes"),),
    ),
    Report(
        31,
        "dwm-status#9, sichek#113",
        ((SAMPLER, "test_identity_and_figures"),),
    ),
    Report(
        32,
        "systeminformer#2073 #2389 #2971",
        (
            (HOST, "test_adapters_that_disagree_with_nvml_say_nothing"),
            (HOST, "test_absurd_figures_say_nothing"),
            (TYPEPERF, "test_figures"),
            (SUPERVISOR, "test_a_suspend_ends_the_child"),
        ),
    ),
    Report(
        33,
        "nvidia-docker#1483, nvtop#149, nvitop#152",
        cannot="no process is listed here, so none can be named wrongly",
    ),
    Report(
        34,
        "zml#766, MangoHud#2104",
        (
            (SAMPLER, "test_one_session_and_only_the_calls_that_are_needed"),
            (SAMPLER, "test_a_slow_driver_slows_the_sampler_down"),
        ),
    ),
    Report(35, "vllm#57936", cannot="no advice of an engine is repeated here"),
    Report(
        36,
        "vllm#27951 #10637 #21489",
        ((RESERVE, "test_one_short_dip_fails_with_its_time"),),
    ),
    Report(
        37,
        "nvitop#44, gpustat#153",
        ((SAMPLER, "test_another_package_in_the_place_of_the_binding"), (SAMPLER, "test_no_binding_at_all")),
    ),
    Report(
        38,
        "nvtop#511, ArcticTraining#345",
        (
            (SAMPLER, "test_figures_that_contradict_each_other_are_null_and_named"),
            (RESERVE, "test_one_reading_that_cannot_be_judged_is_unknown"),
        ),
    ),
)


def test_every_report_is_answered_once() -> None:
    assert [report.number for report in REPORTS] == list(range(1, 39))


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: f"{report.number:02}")
def test_the_tests_that_are_named_exist(report: Report) -> None:
    assert bool(report.tests) is not bool(report.cannot)
    for module, name in report.tests:
        assert callable(getattr(importlib.import_module(module), name)), f"{report.where}: {module}.{name}"


def test_no_cuda_no_processes_no_pcie_in_the_source() -> None:
    """A CUDA context spends the memory it would measure; process lists and PCIe counters stall the driver."""
    source = "".join(path.read_text() for path in Path(anvil_tui.gpus.__path__[0]).glob("*.py"))
    for call in ("import torch", "libcuda", "cudaMemGetInfo", "RunningProcesses(", "PcieThroughput(", "nvidia-smi"):
        assert call not in source
