"""SGLang's start-up log. Every "GB" in it is 2**30 bytes."""

from __future__ import annotations

import re

from anvil_tui.engines.dialects.prefixes import Spoken, is_bar
from anvil_tui.engines.dialects.shapes import NOBODY, SOLE, Cause, Dialect, Echo, Record, Shape, Speaker
from anvil_tui.engines.dialects.torch_failures import CUDA_OOM, EXCEPTION, TORCH

ARGUMENTS = (
    r"['\"]?\bmodel_path['\"]?[=:] ?'{model:text}'",
    r"\btp_size['\"]?[=:] ?{tensor_parallel_size}",
    r"\bdp_size['\"]?[=:] ?{data_parallel_size}",
    r"\bkv_cache_dtype['\"]?[=:] ?'{kv_cache_dtype:word}'",
    r"\bquantization['\"]?[=:] ?'{quantization:word}'",
    r"\bmem_fraction_static['\"]?[=:] ?{mem_fraction_static}",
    r"(?<![\w])attention_backend['\"]?[=:] ?'{attention_backend:word}'",
    r"\bmoe_(?:runner_)?backend['\"]?[=:] ?'{moe_backend:word}'",
    # The number has a default even where nothing is drafted.
    r"\bspeculative_algorithm['\"]?[=:] ?'{speculation_method:word}'"
    r"(?:.*?\bspeculative_num_draft_tokens['\"]?[=:] ?{speculation_tokens})?",
    r"\bcuda_graph_max_bs['\"]?[=:] ?{cuda_graph_cap}",
)

SHAPES: tuple[Shape, ...] = (
    # --- beginning ---
    Shape("all", r"server_args=", phase="args", means="begin", inside=ARGUMENTS),
    Shape("all", r"SGLang version:? v?{engine_version:word}", phase="args"),
    Shape("all", r"Init torch distributed begin", phase="nccl"),
    Shape("all", r"Init torch distributed ends\.(?: elapsed={} s,)?(?: mem usage={} GB)?", phase="nccl"),
    Shape("all", r"sglang is using nccl=={nccl_version:word}", phase="nccl"),
    # --- weights: the target model first, then the draft ---
    Shape("all", r"Load weight begin\. avail mem={load_begin_avail_gib} GB", phase="load_weights", means="early"),
    Shape(
        "all",
        r"Load weight end\.(?: elapsed={weights_load_seconds} s,)? type={architecture:word},.*?"
        r" avail mem={load_end_avail_gib} GB(?:, mem usage={weights_gib} GB)?",
        phase="load_weights",
    ),
    Shape("all", r"Loading (?:safetensors|pt) checkpoint shards: ", phase="load_weights"),
    Shape("2026", r"Multi-thread loading shards: ", phase="load_weights"),
    # --- pools ---
    Shape("all", r"Using KV cache dtype: (?:torch\.)?{kv_cache_dtype:word}", phase="kv_report", strength=1),
    Shape(
        "2024 ..",
        r"(?:\[[^\]]*\] )?KV Cache is allocated\.(?: dtype: (?:torch\.)?{kv_cache_dtype:word},)?(?:"
        r" #tokens: {kv_tokens},)?"
        r" K size: {kv_pool_gib} GB, V size: {kv_pool_gib_2} GB",
        phase="kv_report",
        adds=True,
    ),
    Shape(
        "2025 .. MLA",
        r"(?:\[[^\]]*\] )?KV Cache is allocated\.(?: dtype: (?:torch\.)?{kv_cache_dtype:word},)?(?:"
        r" #tokens: {kv_tokens},)?"
        r" KV size: {kv_pool_gib} GB",
        phase="kv_report",
        adds=True,
    ),
    Shape(
        "some builds",
        r"(?:\[[^\]]*\] )?KV Cache is allocated\.(?: dtype: (?:torch\.)?{kv_cache_dtype:word},)?(?:"
        r" #tokens: {kv_tokens})?",
        phase="kv_report",
    ),
    # The sum of the two pools above it, which some excerpts leave out.
    Shape(
        "SWA",
        r"SWAKVPool mem usage: {kv_pool_gib} GB, swa size: {swa_tokens}, full size: {full_tokens}",
        phase="kv_report",
        strength=-1,
    ),
    Shape(
        "hybrid",
        r"Mamba Cache (?:is )?allocated[.:].*?conv_state size: {mamba_conv_gib} ?GB.*?ssm_state size:"
        r" {mamba_ssm_gib} ?GB",
        phase="kv_report",
    ),
    Shape("hybrid", r"Mamba Cache (?:is )?allocated", phase="kv_report"),
    Shape("DeepSeek V4", r"Initialize DeepSeekV4TokenToKVPool with max_num_reqs={}", phase="kv_report"),
    Shape("DeepSeek V4", r"DS[Vv]4 (?:memory calculation|pool sizes): ", phase="kv_report"),
    Shape("2026", r"Memory profiling: available_gpu_memory={} GB, total_gpu_memory={} GB", phase="profile"),
    Shape("2026", r"KV Cache VA upper bound", phase="kv_report"),
    Shape("2026", r"Post-capture KV sizing: .*?KV size: {kv_pool_gib} GB", phase="kv_report", strength=1),
    Shape("2025 ..", r"Allocating {host_kv_gib} GB host memory for hierarchical KV cache", phase="kv_report"),
    Shape(
        "2025 ..",
        r"Use [Ss]liding window memory pool\. full_layer_tokens={full_tokens}, swa_layer_tokens={swa_tokens}",
        phase="kv_report",
    ),
    Shape("all", r"Memory pool end\. avail mem={pool_end_avail_gib} GB", phase="kv_report"),
    # --- CUDA graphs ---
    Shape(
        "2024 ..",
        r"Capture (?:[\w ]+ )?(?:cuda|CUDA) graph begin\.",
        phase="graph_capture",
        inside=(r"avail mem={graph_begin_avail_gib} GB",),
    ),
    Shape(
        "2024 ..",
        r"Capture (?:[\w ]+ )?(?:cuda|CUDA) graph end\.",
        phase="graph_capture",
        adds=True,
        inside=(
            r"(?:Time elapsed: |elapsed=){graph_capture_seconds} s",
            r"mem usage={cuda_graph_gib} GB",
            r"avail mem={graph_end_avail_gib} GB",
        ),
    ),
    Shape("2024 ..", r"Capture cuda graph bs {cudagraph_capture_sizes:list}", phase="graph_capture"),
    Shape("2024 ..", r"Capturing batches \(", phase="graph_capture"),
    Shape("2025 ..", r"Attention backend not (?:explicitly )?specified\. Use {attention_backend:word} backend"),
    # --- the authoritative token count ---
    Shape(
        "all",
        r"max_total_num_tokens={kv_tokens}, ",
        phase="engine_ready",
        strength=1,
        inside=(
            r"chunked_prefill_size={chunked_prefill_size}",
            r"max_prefill_tokens={max_prefill_tokens}",
            r"max_running_requests={max_running_requests}",
            r"context_len={max_model_len}",
            r"available_gpu_mem={available_gpu_mem_gib} GB",
        ),
    ),
    Shape(
        "2026-08 ..",
        r"Engine startup timings \(s\): load_weight={load_weight_seconds},",
        inside=(r"scheduler_e2e={scheduler_e2e_seconds}", r"tokenizer_e2e={tokenizer_e2e_seconds}"),
    ),
    # --- the HTTP server: it listens before the engine answers ---
    Shape("all", r"(?:INFO: +)?Started server process", phase="api"),
    Shape("all", r"(?:INFO: +)?Uvicorn running on \S+", phase="api"),
    Shape("all", r"(?:INFO: +)?Application startup complete", phase="api"),
    Shape("all", r"The server is fired up and ready to roll!", phase="ready", means="ready"),
    Shape("2025 ..", r"SIGTERM received\.", means="stopping"),
    Shape("all", r"(?:INFO: +)?Application shutdown complete", means="ended"),
    # --- while it runs ---
    Shape("all", r"(?:Prefill|Decode) batch[ ,.\[]"),
    Shape("all", r"(?:Receive|Finish): obj="),
)

CAUSES = (
    Cause("all", r"Not enough memory\. Please try to increase --mem-fraction-static\.", kind="no_kv_memory"),
    Cause("2026", r"Loaded weights leave no GPU memory for the KV cache", kind="no_kv_memory"),
    *CUDA_OOM,
    Cause("all", r"\[Errno {errno}\] (?:Address already in use|error while attempting to bind)", kind="port_in_use"),
    *TORCH,
    Cause("all", r"^[\w./-]{1,200}: error: {message:text}$", kind="bad_arguments"),
)

ECHOES = (
    Echo("all", r"Scheduler hit an exception", kind="scheduler_died", announces=True),
    Echo("all", r"Subprocess .{0,80}?crashed with exit code {exit_code}", kind="scheduler_died", depth=2),
    Echo("all", r"Initialization failed\. ", kind="engine_failed", depth=0),
    Echo("all", r"Received sigquit from a child process", kind="engine_failed", depth=0),
    Echo("all", r"Rank {rank} scheduler is dead", kind="scheduler_died"),
)

_HEADER = re.compile(
    r"\[(?:(?P<at>(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,6})?(?P<ranks>(?: [A-Z_]{2,12}\d{1,5})*)"
    r"|(?P<only>[A-Z_]{2,12}\d{1,5}(?: [A-Z_]{2,12}\d{1,5})*))\] ?"
)
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): +")


def read(said: Spoken) -> list[Record]:
    """The records of one line; two where a progress bar without a newline stands in front."""
    text, stamped = said
    header = _HEADER.search(text)
    if header is None or (header.start() and not is_bar(text[: header.start()])):
        return [Record(text, _level(text), stamped)]
    label = (header["ranks"] or header["only"] or "").strip()
    speaker = Speaker(label, "worker") if label else NOBODY
    message = text[header.end() :]
    record = Record(message, _level(message), stamped or header["at"], speaker)
    before = text[: header.start()]
    return [Record(before, "", stamped), record] if before else [record]


def _level(message: str) -> str:
    match = _UVICORN.match(message)
    return match["level"] if match else ""


WORDS = (
    b"KV", b"xception", b"rror", b"GB", b"graph", b"mem", b"distributed", b"nccl", b"sglang", b"oading", b"batch",
    b"startup", b"server_args", b"version", b"Cache", b"DS", b"backend", b"max_total", b"Started", b"running",
    b"fired", b"shutdown", b"Errno", b"obj=", b"SIGTERM", b"Watchdog",
    b"EADDR", b"Subprocess", b"ailed", b"sigquit", b"dead",
)  # fmt: skip

DIALECT = Dialect(
    engine="sglang",
    read=read,
    words=WORDS,
    hallmark=re.compile(
        r"\bserver_args=|(?i:\bsglang\b)|Load weight (?:begin|end)\. |KV Cache is allocated\. |Memory pool"
        r" end\. avail mem="
        r"|\bmax_total_num_tokens=\d|The server is fired up and ready to roll|--mem-fraction-static|SWAKVPool mem usage"
        r"|Capture (?:[\w ]+ )?(?:cuda|CUDA) graph (?:begin|end)\. |Scheduler hit an exception: "
    ),
    shapes=SHAPES,
    causes=CAUSES,
    echoes=ECHOES,
    measures=re.compile(
        r"\d ?[KMGT]i?B\b|\bmem(?:ory)?(?: usage)?=\d|(?i:kv cache)[^.]{0,60}[ =:]\d|#tokens: \d|num_tokens=\d"
    ),
    exception=EXCEPTION,
    unnamed=SOLE,
    unnamed_among=SOLE,
    bare=True,
)
