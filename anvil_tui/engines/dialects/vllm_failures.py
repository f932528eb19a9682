"""How vLLM says that a start or a running engine failed: causes, and the echoes that name none."""

from __future__ import annotations

from anvil_tui.engines.dialects.shapes import Cause, Echo
from anvil_tui.engines.dialects.torch_failures import CUDA_OOM, TORCH

CAUSES = (
    Cause(
        "V1 2025-04 ..",
        r"To serve at least one request with the (?:models's|model's) max seq len \({max_seq_len}\),"
        r" \({needed_gib} Gi?B"
        r" KV cache is needed, which is larger than the available KV cache memory \({available_gib} Gi?B\)\."
        r" Based on the available memory, the estimated maximum model length is {estimated_max_len}\.",
        kind="kv_too_small",
        wrapped=True,
    ),
    Cause(
        "V1 2025-01 ..",
        r"To serve at least one request with the (?:models's|model's) max seq len \({max_seq_len}\),"
        r" \({needed_gib} Gi?B"
        r" KV cache is needed, which is larger than the available KV cache memory \({available_gib} Gi?B\)\. Try",
        kind="kv_too_small",
        wrapped=True,
    ),
    Cause(
        "V0",
        r"The model's max seq len \({max_seq_len}\) is larger than the maximum number of tokens that can"
        r" be stored in KV"
        r" cache \({kv_tokens}\)",
        kind="kv_too_small",
        wrapped=True,
    ),
    Cause("all", r"No available memory for the cache blocks", kind="no_kv_memory"),
    Cause("2025-12 ..", r"Cannot auto-fit max_model_len", kind="no_kv_memory"),
    Cause(
        "0.9 .. 0.32",
        r"Free memory on device .{0,20}?\({free_gib}/{total_gib} GiB\) on startup is less than desired GPU memory"
        r" utilization \({utilization}, {desired_gib} GiB\)",
        kind="gpu_busy",
        wrapped=True,
    ),
    Cause(
        "0.32",
        r"Free memory on device .{0,20}?\({free_gib}/{total_gib} GiB\) on startup is less than the"
        r" engine's budget after"
        r" excluding external process's weights \({utilization}, {desired_gib} GiB\)",
        kind="gpu_busy",
        wrapped=True,
    ),
    Cause(
        "0.7 .. 0.32",
        r"Error in memory profiling\. Initial free memory {initial_free_gib} GiB, current free memory"
        r" {current_free_gib} GiB",
        kind="gpu_busy",
        wrapped=True,
    ),
    Cause("V0", r"Error in memory profiling\.", kind="gpu_busy"),
    Cause(
        "0.32 CPU",
        r"Available memory on node {node} \({free_gib}/{total_gib} GiB\) on (?:startup|kv cache"
        r" allocation) is less than",
        kind="host_memory",
    ),
    *CUDA_OOM,
    Cause("all", r"\[Errno {errno}\] (?:Address already in use|error while attempting to bind)", kind="port_in_use"),
    Cause("all", r"OSError: \[Errno {errno}\] Bad address", kind="stale_shared_memory"),
    *TORCH,
    Cause("all", r"^(?:usage: )?[\w./-]{1,200}(?: \w{1,40})?: error: {message:text}$", kind="bad_arguments"),
    Cause("0.9 ..", r"Timed out waiting for engine(?:s| core processes) to ", kind="start_timeout"),
)

ECHOES = (
    Echo("V1", r"EngineCore failed to start", kind="engine_failed", depth=0, announces=True),
    Echo("V1", r"WorkerProc failed to start", kind="engine_failed", depth=0, announces=True),
    Echo("V1", r"WorkerProc initialization failed due to an exception", kind="engine_failed", depth=0),
    Echo("V1", r"Engine core initialization failed.*?: \{[^}]{0,200}?: {exit_code}", kind="engine_failed", depth=0),
    Echo("V1", r"Engine core initialization failed", kind="engine_failed", depth=0),
    Echo("V0", r"Engine process failed to start", kind="engine_failed", depth=0),
    Echo("V1", r"Worker proc \S+ died unexpectedly \(exit code: {exit_code}\)", kind="worker_died", depth=3),
    Echo("V1", r"Worker proc \S+ died unexpectedly", kind="worker_died", depth=3),
    Echo("Ray", r"RayWorkerProc rank={rank} died unexpectedly", kind="worker_died", depth=3),
    Echo("V1", r"EngineCore encountered a fatal error", kind="engine_dead", announces=True),
    Echo("V1", r"{message:sentence} See stack trace \(above\) for the root cause", kind="engine_dead", depth=2),
    Echo("V1", r"AsyncLLM output_handler failed", kind="engine_dead"),
    Echo("V1", r"EngineDeadError", kind="engine_dead"),
    Echo("V0", r"MQLLMEngine is already dead", kind="engine_dead"),
    Echo("V0", r"Engine process \(pid {}\) died", kind="engine_dead"),
    Echo("V1", r"(?:Engine core process|Process) \S+ .{0,20}?died ", kind="engine_dead"),
)
