"""Root causes, not their echoes; every kind of failure of every version."""

from typing import Any

import pytest

from anvil_tui.engines.startup_figures import flat
from anvil_tui.engines.startup_log import StartupLog
from anvil_tui.records.startup_report import StartupReport
from tests.unit.engines.logs import report

ERROR = "(EngineCore pid=5) ERROR 10-05 10:04:21 [core.py:1510] "
INFO = "(APIServer pid=1) INFO 10-05 10:04:20 [api.py:1] "
READY = INFO + "Starting vLLM server on http://127.0.0.1:8000\nINFO:     Application startup complete.\n"
ECHO = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
TOO_SMALL = (
    "ValueError: To serve at least one request with the {model} max seq len (32768), (0.06 {unit} KV cache"
    " is needed, which"
    " is larger than the available KV cache memory (0.01 {unit}). {estimate}Try increasing `gpu_memory_utilization`"
)
ESTIMATE = "Based on the available memory, the estimated maximum model length is 3712. "
OOM = (
    "{kind}: CUDA out of memory. Tried to allocate 508.00 MiB. GPU 1 has a total capacity of 15.77 GiB of"
    " which 137.12 MiB"
    " is free. Process 6513 has 15.63 GiB memory in use."
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            TOO_SMALL.format(model="models's", unit="GB", estimate=""),
            {"kind": "kv_too_small", "max_seq_len": 32768, "needed_gib": 0.06, "available_gib": 0.01},
        ),
        (
            TOO_SMALL.format(model="models's", unit="GiB", estimate=ESTIMATE),
            {"kind": "kv_too_small", "max_seq_len": 32768, "needed_gib": 0.06, "available_gib": 0.01,
             "estimated_max_len": 3712},
        ),
        (
            TOO_SMALL.format(model="model's", unit="GiB", estimate=ESTIMATE),
            {"kind": "kv_too_small", "max_seq_len": 32768, "needed_gib": 0.06, "available_gib": 0.01,
             "estimated_max_len": 3712},
        ),
        (
            "ValueError: The model's max seq len (29000) is larger than the maximum number of tokens that"
            " can be stored in"
            " KV cache (23648). Try increasing",
            {"kind": "kv_too_small", "max_seq_len": 29000, "kv_tokens": 23648},
        ),
        ("ValueError: No available memory for the cache blocks. Try increasing", {"kind": "no_kv_memory"}),
        ("ValueError: Cannot auto-fit max_model_len: not enough GPU memory available", {"kind": "no_kv_memory"}),
        (
            "ValueError: Free memory on device (31.44/47.38 GiB) on startup is less than desired GPU memory utilization"
            " (0.95, 45.01 GiB). Decrease GPU memory utilization",
            {"kind": "gpu_busy", "free_gib": 31.44, "total_gib": 47.38, "utilization": 0.95, "desired_gib": 45.01},
        ),
        (
            "ValueError: Free memory on device cuda:0 (36.75/121.63 GiB) on startup is less than desired GPU memory"
            " utilization (0.9, 109.47 GiB). Decrease GPU memory utilization",
            {"kind": "gpu_busy", "free_gib": 36.75, "total_gib": 121.63, "utilization": 0.9, "desired_gib": 109.47},
        ),
        (
            "AssertionError: Error in memory profiling. Initial free memory 20.1 GiB, current free memory"
            " 21.5 GiB. This"
            " happens when other processes sharing the same container release GPU memory",
            {"kind": "gpu_busy", "initial_free_gib": 20.1, "current_free_gib": 21.5},
        ),
        (
            OOM.format(kind="torch.OutOfMemoryError"),
            {"kind": "cuda_oom", "gpu": 1, "tried": "508.00 MiB", "total": "15.77 GiB", "free": "137.12 MiB"},
        ),
        (
            OOM.format(kind="torch.cuda.OutOfMemoryError").replace("capacity", "capacty"),  # torch 2.1 spells it so
            {"kind": "cuda_oom", "gpu": 1, "tried": "508.00 MiB", "total": "15.77 GiB", "free": "137.12 MiB"},
        ),
        ("OSError: [Errno 98] Address already in use", {"kind": "port_in_use", "errno": 98}),
        (
            "OSError: [Errno 14] Bad address",
            {"kind": "stale_shared_memory", "errno": 14},
        ),
        (
            "RuntimeError: NCCL error in: /pytorch/torch/csrc/NCCLUtils.cpp:94, unhandled cuda error, NCCL"
            " version 2.28",
            {"kind": "nccl", "error": "unhandled cuda error"},
        ),
        ("ncclUnhandledCudaError: Call to CUDA function failed.", {"kind": "nccl"}),
        (
            "[rank1]:[E505 10:04:21.1 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout:"
            " WorkNCCL(SeqNum=3)",
            {"kind": "nccl_timeout"},
        ),
        (
            "RuntimeError: CUDA error: an illegal memory access was encountered",
            {"kind": "cuda_error", "error": "an illegal memory access was encountered"},
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any local"
            " network address. port:"
            " 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
            {"kind": "port_in_use"},
        ),
        (
            "api_server.py: error: unrecognized arguments: --no-such-flag",
            {"kind": "bad_arguments", "message": "unrecognized arguments: --no-such-flag"},
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("where", [ERROR, ""], ids=["with header", "bare"])
def test_cause(text: str, expected: dict[str, Any], where: str) -> None:
    found = report(f"{INFO}vLLM is using nccl==2.28\n{where}{text}\n{ECHO}")
    assert found.state == "failed"
    assert flat(found)["failure"] == expected
    assert found.failure and found.failure.source.line == 2 and found.unread == ()


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_cause_that_a_terminal_wrapped(width: int) -> None:
    text = TOO_SMALL.format(model="model's", unit="GiB", estimate=ESTIMATE)
    wrapped = "\n".join(text[at : at + width] for at in range(0, len(text), width))
    found = report(f"{INFO}vLLM is using nccl==2.28\n{wrapped}\n{ECHO}", "vllm")
    assert flat(found)["failure"] == {
        "kind": "kv_too_small",
        "max_seq_len": 32768,
        "needed_gib": 0.06,
        "available_gib": 0.01,
        "estimated_max_len": 3712,
    }


def test_a_cause_whose_rest_is_lost_keeps_its_kind() -> None:
    found = report(f"{ERROR}torch.OutOfMemoryError: CUDA out of memory. Tried to\n{ECHO}")
    assert found.failure and (found.failure.kind, found.failure.figures) == ("cuda_oom", {})


def test_the_info_report_that_starts_like_the_error_is_no_failure() -> None:
    text = "Free memory on device (93.87/95.59 GiB) on startup. Desired GPU memory utilization is (0.88, 84.12 GiB)."
    found = report(INFO + text)
    assert found.failure is None and found.unread_count == 1


@pytest.mark.parametrize(
    "noise",
    [
        "[rank0]:[W503 00:18:16.7 ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was"
        " not called before"
        " program exit, which can leak resources.",
        "nanobind: leaked 3 functions!",
        "resource_tracker: There appear to be 1 leaked shared_memory objects to clean up at shutdown",
        "(APIServer pid=1) WARNING 12-01 03:40:29 [s.py:2] Found ulimit of 20000 and failed to"
        " automatically increase. This"
        " can cause fd limit errors like `OSError: [Errno 24] Too many open files`.",
        "(APIServer pid=1) INFO 12-01 03:42:13 [s.py:2] Received request x: prompt:"
        " 'torch.OutOfMemoryError: CUDA out of"
        " memory. Tried to allocate 508.00 MiB.'",
        "(APIServer pid=1) ERROR 12-01 03:42:13 [serving.py:274] Error with model"
        " error=ErrorInfo(message='x', code=404)",
        "(APIServer pid=1) ERROR 12-01 03:42:13 [validation.py:151] json.decoder.JSONDecodeError:"
        " Expecting value: line 1",
        "ValueError: a request's own error",
    ],
)
def test_noise_is_no_failure(noise: str) -> None:
    found = report(READY + noise + "\n")
    assert (found.state, found.failure, found.unread) == ("ready", None, ())


def test_the_workers_exception_beats_its_parents() -> None:
    log = (
        "(Worker_TP0 pid=3) ERROR 10-05 10:00:00 [m.py:1] WorkerProc failed to start.\n"
        "(Worker_TP0 pid=3) ERROR 10-05 10:00:00 [m.py:1] Traceback (most recent call last):\n"
        "(Worker_TP0 pid=3) ERROR 10-05 10:00:00 [m.py:1] KeyError: 'model.layers.0.weight'\n"
        "(EngineCore pid=2) ERROR 10-05 10:00:01 [core.py:1] EngineCore failed to start.\n"
        "(EngineCore pid=2) ERROR 10-05 10:00:01 [core.py:1] Exception: WorkerProc initialization failed"
        " due to an exception"
        " in a background process. See stack trace for root cause.\n" + ECHO
    )
    failure = report(log).failure
    assert failure and (failure.kind, failure.message) == ("exception", "KeyError: 'model.layers.0.weight'")


def test_the_rank_that_ran_out_of_memory_beats_the_ranks_that_lost_it() -> None:
    log = (
        "(Worker_TP1 pid=4) ERROR 10-05 10:00:00 [m.py:1] RuntimeError: NCCL error in: /x.cpp:94, remote"
        " process exited\n"
        f"(Worker_TP0 pid=3) ERROR 10-05 10:00:00 [m.py:1] {OOM.format(kind='torch.OutOfMemoryError')}\n" + ECHO
    )
    failure = report(log).failure
    assert failure and failure.kind == "cuda_oom"


@pytest.mark.parametrize(
    ("lines", "kind", "figures"),
    [
        (
            "(EngineCore pid=2) ERROR 10-05 10:00:01 [m.py:1] Worker proc VllmWorker-1 died unexpectedly"
            " (exit code: -9),"
            " shutting down executor.\n",
            "worker_died",
            {"exit_code": -9},
        ),
        (
            "ERROR 10-05 10:00:01 client.py:1] MQLLMEngine is already dead, terminating server process\n",
            "engine_dead",
            {},
        ),
        (
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s):"
            " {'EngineCore_DP0':"
            " -9}\n",
            "engine_failed",
            {"exit_code": -9},
        ),
        ("ERROR 10-05 10:00:01 client.py:1] Engine process (pid 77) died.\n", "engine_dead", {}),
        (
            "(EngineCore pid=2) ERROR 10-05 10:00:01 [core.py:1] EngineCore encountered a fatal error.\n"
            "(EngineCore pid=2) ERROR 10-05 10:00:01 [core.py:1] Traceback (most recent call last):\n"
            "(EngineCore pid=2) ERROR 10-05 10:00:01 [core.py:1] IndexError: list index out of range\n"
            "(APIServer pid=1) ERROR 10-05 10:00:01 [a.py:1] AsyncLLM output_handler failed.\n"
            "(APIServer pid=1) ERROR 10-05 10:00:01 [a.py:1] vllm.v1.engine.exceptions.EngineDeadError: EngineCore"
            " encountered an issue. See stack trace (above) for the root cause.\n",
            "exception",
            {},
        ),
    ],
)
def test_death_after_ready(lines: str, kind: str, figures: dict[str, Any]) -> None:
    found = report(READY + lines)
    assert found.state == "died_after_ready"
    assert found.failure and (found.failure.kind, found.failure.figures) == (kind, figures)


def test_a_taken_port_after_startup_complete_was_never_ready() -> None:
    log = READY + (
        "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): address already in use\n"
    )
    found = report(log)
    assert found.state == "failed" and found.failure and found.failure.figures == {"errno": 98}


def ended(log: str, code: int | None, *, asked: bool = False) -> StartupReport:
    reader = StartupLog("vllm")
    reader.feed(log.encode())
    reader.exited(code, asked=asked)
    return reader.report()


def test_an_exit_that_nobody_asked_for_is_a_failure_whatever_its_code() -> None:
    found = ended(READY, 0)
    assert found.state == "died_after_ready" and found.failure and found.failure.figures == {"exit_code": 0}
    assert ended(READY, 0, asked=True).state == "ready"
    assert ended(READY, None).state == "died_after_ready"


def test_a_log_without_an_end_says_where_it_ended() -> None:
    found = ended(INFO + "Profiling CUDA graph memory: PIECEWISE=51 (largest=512)\n", -9)
    assert found.state == "failed" and found.failure
    assert found.failure.message == "ended during graph_profile: signal 9"


def test_an_uncaught_exception_counts_once_the_log_is_whole() -> None:
    reader = StartupLog("vllm")
    reader.feed(
        f"{INFO}vLLM is using nccl==2.28\nTraceback (most recent call last):\nImportError: no kernel\n".encode()
    )
    assert reader.report().state == "loading"
    reader.finish()
    assert reader.report().state == "failed"


def test_repeated_waits_are_counted_and_the_phase_stands() -> None:
    wait = "No available shared memory broadcast block found in 60 seconds. This typically happens when"
    found = report(f"{INFO}torch.compile took 12.17 s in total\n" + f"{INFO}{wait}\n" * 3)
    assert found.facts["shm_broadcast_waits"].value == "3"
    assert found.last_phase == "compile" and found.state == "loading" and found.failure is None


def test_cuda_error_999_while_peers_map_memory_is_nccls() -> None:
    log = "".join(
        f"(Worker_TP{rank} pid={rank + 3}) ERROR 10-05 10:00:00 [m.py:1] RuntimeError:"
        f" ncclCuMemMapAndSetAccess failed: CUDA"
        " error 999 'unknown error'\n"
        for rank in range(2)
    )
    failure = report(log + ECHO).failure
    assert failure and failure.kind == "nccl" and failure.source.line == 1


def test_a_refused_host_pin_is_not_out_of_memory() -> None:
    log = (
        "(Worker_TP0 pid=3) ERROR 10-05 10:00:00 [m.py:1] RuntimeError: cudaHostRegister failed for 64.00"
        " GiB of pinned host"
        " memory: out of memory\n" + ECHO
    )
    failure = report(log).failure
    assert failure and failure.kind == "pinned_memory"


def test_an_exception_that_was_caught_explains_nothing() -> None:
    caught = "Traceback (most recent call last):\nImportError: no such kernel\n"
    progress = INFO + "vLLM is using nccl==2.28\n"
    one, other = ended(caught + progress, -9).failure, ended(caught + progress + READY, 0).failure
    assert one and one.message == "ended during nccl: signal 9"
    assert other and other.message == "ended after it was ready: exit code 0"
    died = (
        "(EngineCore pid=2) ERROR 10-05 10:00:01 [m.py:1] Worker proc w-1 died unexpectedly (exit code: -9), shutting\n"
    )
    echoed = report(caught + progress + died).failure
    assert echoed and echoed.kind == "worker_died"


def test_a_ranks_exception_explains_the_end_though_another_rank_went_on() -> None:
    log = (
        "(Worker_TP1 pid=4) ERROR 10-05 10:00:00 [m.py:1] KeyError: 'lost'\n"
        "(Worker_TP0 pid=3) INFO 10-05 10:00:01 [m.py:1] Available KV cache memory: 1.5 GiB\n" + ECHO
    )
    failure = report(log).failure
    assert failure and failure.message == "KeyError: 'lost'"
