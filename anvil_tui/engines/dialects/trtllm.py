"""TensorRT-LLM's start-up log: its Python lines and its C++ lines."""

from __future__ import annotations

import re

from anvil_tui.engines.dialects.prefixes import Spoken
from anvil_tui.engines.dialects.shapes import NOBODY, SOLE, Cause, Dialect, Echo, Record, Shape, Speaker
from anvil_tui.engines.dialects.torch_failures import CUDA_OOM, EXCEPTION, TORCH

CONFIG = (
    r"\bkv_cache_dtype='{kv_cache_dtype:word}'",
    r"\battn_backend='{attention_backend:word}'",
    r"\bmoe_backend='{moe_backend:word}'",
    r"\bcuda_graph_max_batch_size={cuda_graph_cap}",
    r"\bcuda_graph_batch_sizes={cudagraph_capture_sizes:list}",
)

SHAPES: tuple[Shape, ...] = (
    # --- beginning ---
    Shape("all", r"(?:\[TensorRT-LLM\] )?TensorRT-LLM version: {engine_version:word}", phase="args", means="begin"),
    Shape("1.0 ..", r"PyTorchConfig\(", phase="engine_init", inside=CONFIG),
    Shape("1.0 ..", r"KV cache quantization set to \"{kv_cache_dtype:word}\"", phase="engine_init"),
    # --- weights ---
    Shape("1.0 ..", r"Use {checkpoint_gib} GB for model weights", phase="load_weights"),
    Shape("1.0 ..", r"Loading (?:safetensors )?weights", phase="load_weights"),
    Shape("1.0 ..", r"Model init total -- {model_init_seconds}s", phase="load_weights"),
    # --- lengths: a shrink is silent but for these ---
    Shape("all", r"max_seq_len is not specified, using inferred value {max_model_len}"),
    Shape("all", r"Adjusted max_seq_len to {max_model_len}", phase="kv_report"),
    Shape(
        "all",
        r"max_seq_len={max_model_len}, max_num_requests={max_num_requests}, max_num_tokens={max_num_tokens}"
        r"(?:, max_batch_size={max_batch_size})?",
        phase="kv_report",
    ),
    # --- KV: a trial allocation comes first, the last of several counts ---
    Shape("all", r"Number of blocks in KV cache primary pool: {num_gpu_blocks}", phase="kv_report"),
    Shape("all", r"Number of blocks in KV cache secondary pool: {num_cpu_blocks}", phase="kv_report"),
    Shape("all", r"Number of tokens per block: {tokens_per_block}\.", phase="kv_report"),
    Shape("all", r"Max KV cache pages per sequence: {}", phase="kv_report"),
    Shape("all", r"Max KV cache blocks per sequence: {}", phase="kv_report"),
    Shape(
        "0.9 ..",
        r"\[MemUsageChange\] Allocated {kv_pool_gib} GiB for max tokens in paged KV cache \({kv_tokens}\)",
        phase="kv_report",
    ),
    Shape(".. 0.8", r"Allocate {kv_bytes} bytes for k/v cache", phase="kv_report"),
    Shape(".. 0.8", r"Using {kv_tokens} tokens in paged KV cache", phase="kv_report"),
    Shape("all", r"\[MemUsageChange\] "),
    Shape("all", r"\[MemUsageSnapshot\] "),
    Shape(
        "0.9 ..",
        r"Memory usage when calculating max tokens in paged kv cache: total: {device_total_gib} GiB, available: {} GiB",
        phase="profile",
    ),
    # --- memory profiling of the PyTorch backend ---
    Shape(
        "1.0 ..",
        r"Memory used after loading model weights \(inside torch\) in memory usage profiling: {weights_gib} GiB",
        phase="profile",
    ),
    Shape("1.0 ..", r"Memory used after loading model weights \(outside torch\) in memory usage profiling: {} GiB"),
    Shape(
        "1.0 ..",
        r"Memory dynamically allocated during inference \(inside torch\) in memory usage profiling:"
        r" {peak_activation_gib} GiB",
        phase="profile",
    ),
    Shape(
        "1.0 ..",
        r"Memory used outside torch \(e\.g\., NCCL and CUDA graphs\) in memory usage profiling: {non_torch_gib} GiB",
        phase="profile",
    ),
    Shape(
        "1.0 ..",
        r"Peak memory during memory usage profiling \(torch \+ non-torch\): {profiled_peak_gib} GiB, available KV cache"
        r" memory when calculating max tokens: {kv_available_gib} GiB",
        phase="profile",
    ),
    Shape("1.0 ..", r"Peak memory during memory usage profiling", phase="profile"),
    Shape("1.0 ..", r"Estimated max memory in KV cache ?: {} GiB", phase="profile"),
    Shape("1.0 ..", r"Setting PyTorch memory fraction to {} \({} GiB\)"),
    Shape("1.0 ..", r"Both free_gpu_memory_fraction and max_tokens are set"),
    Shape("all", r"Attention workspace size is not enough"),
    # --- CUDA graphs ---
    Shape("1.0 ..", r"Creating CUDA graph instances for {} batch sizes", phase="graph_capture"),
    Shape("1.0 ..", r"Run generation only CUDA graph warmup", phase="graph_capture"),
    Shape("1.0 ..", r"\[Autotuner\] ", phase="warmup"),
    # --- the server ---
    Shape("all", r"(?:INFO: +)?Started server process", phase="api"),
    Shape("all", r"Engine loaded and ready to serve", phase="ready", means="ready"),
    Shape("all", r"(?:INFO: +)?Application startup complete", phase="ready", means="ready"),
    Shape("all", r"(?:INFO: +)?Uvicorn running on \S+", phase="ready", means="ready"),
    Shape("all", r"(?:INFO: +)?Application shutdown complete", means="ended"),
)

CAUSES = (
    *CUDA_OOM,
    Cause("C++", r"CUDA runtime error in .{1,200}?: out of memory", kind="cuda_oom"),
    Cause("C++", r"CUDA runtime error in .{1,200}?: {error:text}(?: \(|$)", kind="cuda_error"),
    Cause("all", r"(?:No enough|Insufficient|insufficient) GPU memory for .{0,60}?KV ?cache", kind="no_kv_memory"),
    Cause("all", r"\[Errno {errno}\] (?:Address already in use|error while attempting to bind)", kind="port_in_use"),
    *TORCH,
)

ECHOES = (
    Echo("all", r"Executor worker returned error", kind="engine_failed", depth=0),
    Echo("all", r"Executor worker died", kind="worker_died"),
)

_HEADER = re.compile(
    r"\[(?P<at>\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\] \[TRT-LLM(?: [A-Z-]{1,30})?\]"
    r"(?: ?\[(?:(?P<level>[A-Z])|RANK (?P<rank>\d{1,5}))\](?: ?\[(?:(?P<level2>[A-Z])|RANK (?P<rank2>\d{1,5}))\])?)? ?"
    r"|\[TensorRT-LLM\](?:\[(?P<native>[A-Z]{4,9})\] ?)(?:\[RANK (?P<native_rank>\d{1,5})\] ?)?"
)
_LEVELS = {"V": "DEBUG", "D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR", "F": "CRITICAL"}


def read(said: Spoken) -> list[Record]:
    """The record of one line."""
    text, stamped = said
    header = _HEADER.match(text)
    if header is None:
        return [Record(text, "", stamped)]
    rank = header["rank"] or header["rank2"] or header["native_rank"]
    speaker = Speaker(f"rank{rank}", "worker") if rank else NOBODY
    level = header["native"] or _LEVELS.get(header["level"] or header["level2"] or "I", "INFO")
    return [Record(text[header.end() :], level, stamped or header["at"], speaker)]


WORDS = (
    b"rror", b"xception", b"GB", b"KV", b"iB", b"memory", b"max_seq", b"Mem", b"graph", b"version", b"Config",
    b"weights", b"init", b"tokens", b"bytes", b"workspace", b"Autotuner", b"Started", b"Engine", b"startup",
    b"Uvicorn", b"shutdown", b"Errno", b"Watchdog", b"EADDR", b"Executor", b"TensorRT", b"TRT-LLM",
)  # fmt: skip

DIALECT = Dialect(
    engine="trtllm",
    read=read,
    words=WORDS,
    hallmark=re.compile(r"\[TensorRT-LLM\]|\[TRT-LLM(?: [A-Z-]{1,30})?\]|\btensorrt_llm\b|\btrtllm-serve\b"),
    shapes=SHAPES,
    causes=CAUSES,
    echoes=ECHOES,
    measures=re.compile(r"\d ?(?:[KMGT]i?B|bytes)\b|(?i:kv ?cache)[^.]{0,60}[ =:(]\d|\d tokens\b"),
    exception=EXCEPTION,
    unnamed=SOLE,
    unnamed_among=SOLE,
)
