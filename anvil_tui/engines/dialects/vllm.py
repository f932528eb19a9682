"""vLLM's start-up log: V0, V1 0.7 to 0.32 and the forks. "GB" and "GiB" are both 2**30 bytes here."""

from __future__ import annotations

import re

from anvil_tui.engines.dialects.shapes import UNKNOWN, Dialect, Shape, Speaker
from anvil_tui.engines.dialects.torch_failures import EXCEPTION
from anvil_tui.engines.dialects.vllm_asides import ASIDES
from anvil_tui.engines.dialects.vllm_failures import CAUSES, ECHOES
from anvil_tui.engines.dialects.vllm_prefixes import HEADER, read

CONFIG = (
    r"\bmodel='{model:text}'",
    r"\bmax_seq_len={max_model_len}",
    r"(?<![\w.])dtype=(?:torch\.)?{dtype:word}",
    r"\bquantization={quantization:word}",
    r"\btensor_parallel_size={tensor_parallel_size}",
    r"\bpipeline_parallel_size={pipeline_parallel_size}",
    r"\bdata_parallel_size={data_parallel_size}",
    r"\bdecode_context_parallel_size={decode_context_parallel_size}",
    r"\benforce_eager={enforce_eager:word}",
    r"\bkv_cache_dtype={kv_cache_dtype:word}",
    r"\benable_prefix_caching={enable_prefix_caching:word}",
    r"\bspeculative_config={speculation_asked:word}(?<==None)",
    r"\bspeculative_config=SpeculativeConfig\(method='{speculation_method:word}'",
    r"\bnum_spec_tokens={speculation_tokens}",
    r"'cudagraph_mode': <CUDAGraphMode\.{cudagraph_mode:word}:",
    r"[\"']cudagraph_capture_sizes[\"']: {cudagraph_capture_sizes:list}",
    r"[\"']max_(?:cudagraph_)?capture_size[\"']: {cuda_graph_cap}",
    r"\bmoe_backend='{moe_backend_asked:word}'",
)
"""Pieces of the configuration that an engine prints when it is built."""

ARGUMENTS = (
    r"'max_num_batched_tokens': {max_num_batched_tokens}",
    r"'max_num_seqs': {max_num_seqs}",
    r"'gpu_memory_utilization': {gpu_memory_utilization}",
    r"'block_size': {block_size}",
    r"'kv_cache_dtype': '{kv_cache_dtype:word}'",
    r"'async_scheduling': {async_scheduling:word}[,}]",
)

# Rows are tried from the top; the first that matches reads the line.
SHAPES: tuple[Shape, ...] = (
    # --- beginning: versions, arguments, configuration ---
    Shape("0.2 .. 0.32", r"vLLM (?:API )?server version {engine_version:word}(?:,.*)?$", phase="args", means="begin"),
    Shape("0.14 .. 0.32", r"[ ▀▄█]+ version {engine_version:word}\s*$", phase="args", means="begin"),
    Shape("0.14 .. 0.32", r"[ ▀▄█]+ model {model:text}\s*$", phase="args"),
    Shape("0.9 .. 0.32", r"non-default args: \{", phase="args", inside=ARGUMENTS),
    Shape("0.2 .. 0.8", r"args: Namespace\(", phase="args"),
    Shape("0.5 .. 0.32", r"Resolved architecture: {architecture:word}", phase="arch_resolved"),
    Shape("0.9 .. 0.32", r"Using max model len {max_model_len}$", phase="arch_resolved", means="early"),
    Shape(
        "0.4 .. 0.32",
        r"Chunked prefill is enabled with max_num_batched_tokens={max_num_batched_tokens}",
        means="early",
    ),
    Shape("0.4 .. 0.32", r"Using {kv_cache_dtype:word} data type to store kv cache"),
    Shape("0.4 .. 0.8", r"Using fp8 data type to store kv cache"),
    Shape(
        "0.2 .. 0.32",
        r"Initializing an? (?:V\d )?LLM engine \(v?{engine_version:word}\) with config: ",
        phase="engine_init",
        means="early",
        inside=CONFIG,
    ),
    # --- processes, communication ---
    Shape("0.6 .. 0.32", r"world_size={world_size} rank={} local_rank={}", phase="engine_init"),
    Shape("0.8 .. 0.32", r"rank {} in world size {world_size} is assigned as", phase="engine_init"),
    Shape("0.2 .. 0.32", r"vLLM is using nccl=={nccl_version:word}", phase="nccl"),
    # --- weights ---
    Shape("0.7 .. 0.32", r"Starting to load model ", phase="load_weights"),
    Shape("0.2 .. 0.32", r"Loading (?:safetensors|pt)\b.{0,60}?(?:checkpoint shards|loader): ", phase="load_weights"),
    Shape("0.8 .. 0.32", r"Loading weights took {weights_load_seconds} seconds", phase="load_weights"),
    Shape("0.2 .. 0.7.3", r"Loading model weights took {weights_gib} Gi?B", phase="load_weights"),
    Shape(
        "0.8 .. 0.32",
        r"Model loading took {weights_gib} Gi?B(?: memory)? and {model_load_seconds} seconds",
        phase="load_weights",
    ),
    # --- compilation ---
    Shape("0.7 .. 0.32", r"(?:\[[^\]]*\] )?Starting torch\.compile", phase="compile"),
    Shape("0.7 .. 0.32", r"(?:\[[^\]]*\] )?Dynamo bytecode transform time: {dynamo_seconds} s", phase="compile"),
    Shape(
        "0.7 .. 0.32",
        r"(?:\[[^\]]*\] )?Compiling a graph for .{1,80}? takes {graph_compile_seconds} s",
        phase="compile",
    ),
    Shape(
        "0.7 .. 0.32",
        r"(?:\[[^\]]*\] )?Directly load the compiled graph\(s\) for .{1,80}? from the cache, took {} s",
        phase="compile",
    ),
    Shape(
        "0.7 .. 0.32",
        r"(?:\[[^\]]*\] )?torch\.compile (?:takes|took) {compile_seconds} s in total",
        phase="compile",
        adds=True,
    ),
    Shape("0.20 .. 0.32", r"(?:\[[^\]]*\] )?Initial profiling/warmup run took {profile_seconds} s", phase="profile"),
    # --- memory ---
    Shape("V0 0.6.6 .. 0.9", r"Memory profiling takes {profile_seconds} seconds", phase="profile"),
    Shape(
        "V0 0.6.6 .. 0.9",
        r"the current vLLM instance can use total_gpu_memory \({device_total_gib}GiB\)"
        r" x gpu_memory_utilization \({gpu_memory_utilization}\) = {desired_gib}GiB",
        phase="profile",
    ),
    Shape(
        "V0 0.6.6 .. 0.9",
        r"model weights take {weights_gib}GiB; non_torch_memory takes {non_torch_gib}GiB; PyTorch"
        r" activation peak memory"
        r" takes {peak_activation_gib}GiB; the rest of the memory reserved for KV Cache is {kv_available_gib}GiB",
        phase="profile",
    ),
    Shape(
        "V0 0.6.3 .. 0.6.4",
        r"Memory profiling results: total_gpu_memory={device_total_gib}GiB initial_memory_usage={}GiB"
        r" peak_torch_memory={peak_torch_gib}GiB memory_usage_post_profile={}GiB non_torch_memory={non_torch_gib}GiB"
        r" kv_cache_size={kv_available_gib}GiB gpu_memory_utilization={gpu_memory_utilization}",
        phase="profile",
    ),
    Shape("0.9.1 .. 0.32", r"Available KV cache memory: {kv_available_gib} GiB", phase="profile"),
    Shape(
        "0.10.2 .. 0.32",
        r"Initial free memory {} GiB, reserved {kv_reserved_gib} GiB memory for KV Cache as specified by",
        phase="profile",
    ),
    Shape("0.32 CPU", r"(?:Explicitly|Auto) set \({cpu_kv_gib}/{}\) GiB for KV cache on node {}", phase="profile"),
    Shape(
        "0.10.2 .. 0.23",
        r"Free memory on device .{0,20}?\({}/{device_total_gib} GiB\) on startup\. Desired GPU memory utilization is"
        r" \({gpu_memory_utilization}, {desired_gib} GiB\)\. Actual usage is {weights_gib} GiB for weight,"
        r" {peak_activation_gib} GiB for peak activation, {non_torch_gib} GiB for non-torch memory, and"
        r" {cuda_graph_gib}"
        r" GiB for CUDAGraph memory\..*? Current kv cache memory in use is"
        r" (?:{kv_in_use_gib} GiB|{kv_in_use_bytes} bytes)",
        phase="warmup",
        strength=1,
        wrapped=True,
    ),
    Shape(
        "0.23 .. 0.32",
        r"Free memory on device .{0,20}?\({}/{device_total_gib} GiB\) on startup\. Desired GPU memory utilization is"
        r" \({gpu_memory_utilization}, {desired_gib} GiB\)\. Actual usage is {consumed_gib} GiB for consumed memory"
        r" \(weights \+ non-torch\), {peak_activation_gib} GiB for peak activation, and {cuda_graph_gib}"
        r" GiB for CUDAGraph memory\..*? Current kv cache memory in use is {kv_in_use_gib} GiB",
        phase="warmup",
        strength=1,
        wrapped=True,
    ),
    # --- KV cache ---
    Shape(
        "0.26 .. 0.32",
        r"[\w +]{1,20} KV cache size: {kv_tokens} tokens, Maximum concurrency for {max_model_len} tokens per request:"
        r" {max_concurrency}x",
        phase="kv_report",
        strength=2,
    ),
    Shape("0.7.3 .. 0.25", r"[\w +]{1,20} KV cache size: {kv_tokens} tokens$", phase="kv_report", strength=2),
    Shape(
        "0.6.3 .. 0.25",
        r"Maximum concurrency for {max_model_len} tokens per request: {max_concurrency}x",
        phase="kv_report",
        strength=2,
    ),
    Shape(
        "V0 .. 0.7.2",
        r"# (?:GPU|CUDA|\w+) blocks: {num_gpu_blocks}(?:, # CPU blocks: {num_cpu_blocks})?$",
        phase="kv_report",
    ),
    Shape(
        "0.13 .. 0.32",
        r"Auto-fit max_model_len: reduced from {} to {max_model_len} to fit in available KV cache memory \({} GiB.*\)",
        phase="kv_report",
        strength=2,
    ),
    Shape(
        "0.13 .. 0.32",
        r"Auto-fit max_model_len: full model context length {max_model_len} fits in available KV cache"
        r" memory \({} GiB.*\)",
        phase="kv_report",
        strength=2,
    ),
    Shape("0.13 .. 0.32", r"Auto-fit max_model_len: attention-free model, using derived max_model_len={max_model_len}"),
    Shape("0.10.2 .. 0.20", r"Multiplying the GPU KV cache size by the (?:dcp|pcp|cp)_world_size {dcp_world_size}\b"),
    Shape("0.8 .. 0.32", r"Add {} padding layers, may waste at most {kv_padding_waste_pct}% KV cache memory"),
    Shape("0.9 .. 0.32", r"Setting attention block size to {attention_block_size} tokens to ensure that"),
    Shape("0.6 .. 0.32", r"Overriding num_gpu_blocks={} with num_gpu_blocks_override={num_gpu_blocks_override}"),
    # --- CUDA graphs ---
    Shape("0.20 .. 0.32", r"Profiling CUDA graph memory: {graphs_profiled:text}$", phase="graph_profile"),
    Shape(
        "0.20 .. 0.32",
        r"Estimated (?:MRV2 )?CUDA graph memory: {cuda_graph_estimated_gib} GiB total",
        phase="graph_profile",
    ),
    Shape("0.20 .. 0.32", r"Profiling CUDA graph memory \(.{1,40}?\): ", phase="graph_profile"),
    Shape(
        "0.20 .. 0.32",
        r"CUDA graph pool memory: {cuda_graph_gib} GiB \(actual\), {cuda_graph_estimated_gib} GiB \(estimated\),"
        r" difference: {} GiB",
        phase="graph_capture",
        strength=2,
    ),
    Shape(
        "0.7 .. 0.32",
        r"Graph capturing finished in {graph_capture_seconds} secs(?:, took {cuda_graph_gib} GiB)?",
        phase="graph_capture",
    ),
    Shape("0.6 .. 0.32", r"Capturing (?:\w+ )?(?:CUDA|cuda) ?graphs?\b", phase="graph_capture"),
    Shape(
        "0.21 .. 0.32",
        r"CUDA graph memory profiling is {graph_memory_profiling:word} \((?:default since|VLLM_MEMORY_PROFILER)",
        phase="graph_profile",
    ),
    # --- backends ---
    Shape("0.10 .. 0.32", r"Using '?{moe_backend:word}'? (?:\w+ )?M[Oo][Ee] (?:LoRA )?backend"),
    Shape("0.15 .. 0.32", r"Using {mla_prefill_backend:word} MLA prefill backend"),
    Shape("0.12 .. 0.32", r"Using {attention_backend:word} attention backend out of potential backends"),
    Shape(
        "0.6 .. 0.32",
        r"Using (?!.*\b(?:modeling|Mamba|ReplaySSM|KDA|custom|default|Ray|ViT)\b)"
        r"(?:AttentionBackendEnum\.)?{attention_backend:text} (?:attention )?backend(?: on V1 engine)?\.$",
    ),
    # --- end of the start ---
    Shape(
        "0.7 .. 0.32",
        r"init engine \(profile, create kv cache, warmup model\) took {engine_init_seconds} s(?:econds)?"
        r"(?: \(compilation: {compile_seconds} s.*\))?",
        phase="init_engine",
        strength=1,
    ),
    Shape("0.7.3 .. 0.32", r"Starting vLLM (?:API )?server (?:\d+ )?on \S+", phase="api"),
    Shape("all", r"(?:INFO: +)?Started server process", phase="api"),
    Shape("all", r"(?:INFO: +)?Application startup complete", phase="ready", means="ready"),
    Shape("all", r"(?:INFO: +)?Uvicorn running on \S+", phase="ready", means="ready"),
    Shape("0.32", r"\[shutdown\] API server: shutdown triggered", means="stopping"),
    Shape("all", r"(?:INFO: +)?Application shutdown complete", means="ended"),
    Shape("all", r"(?:INFO: +)?Finished server process", means="ended"),
    # --- while it runs ---
    Shape(
        "all",
        r"No available shared memory broadcast block found in {} (?:seconds|second)",
        counts="shm_broadcast_waits",
    ),
    Shape("0.9 .. 0.32", r"Waiting for {} local, {} remote core engine proc", counts="engine_start_waits"),
    Shape(
        "0.7 .. 0.32",
        r"(?:Engine \d+: )?Avg prompt throughput: {} tokens/s, Avg generation throughput: {} tokens/s,"
        r" Running: {} reqs",
    ),
    Shape(
        "0.9 .. 0.32",
        r"SpecDecoding metrics: Mean acceptance length: {spec__mean_acceptance_length},.*?"
        r"Accepted: {spec__accepted} tokens, Drafted: {spec__drafted} tokens,.*?"
        r"Avg Draft acceptance rate: {spec__avg_draft_acceptance_pct}%",
    ),
)

WORDS = (
    b"rror", b"xception", b"GB", b"MB", b"KV", b"kv ", b"iB", b"memory", b"model", b"rocess", b"failed",
    b"died", b"took",
    b"backend", b"version", b"args:", b"data type", b"world", b"nccl", b"Starting", b"takes", b"blocks",
    b"Resolved", b"Chunked", b"Initializing", b"oading", b"Dynamo", b"compile", b"oncurrency", b"attention",
    b"Graph", b"graph", b"startup", b"Uvicorn", b"shutdown", b"core", b"throughput", b"SpecDecoding", b"Errno",
    b"Watchdog", b"Timed", b"EADDR", b"trace", b"dead",
)  # fmt: skip

DIALECT = Dialect(
    engine="vllm",
    read=read,
    words=WORDS,
    hallmark=re.compile(
        # SGLang's log also holds such a line of the vLLM library.
        HEADER.pattern.removesuffix(" ?")
        + r"(?! ?(?:Automatically detected platform|No platform detected))"
        + r"|\((?:APIServer|EngineCore|Worker|VllmWorker|RayWorker(?:Wrapper|Vllm|Proc))\w*(?: [\w=]+)? pid=\d"
        r'|"vllm_process_name"|\bvLLM\b|/vllm/|\bvllm[.:]|max seq len \(\d+\)'
    ),
    shapes=(*SHAPES, *ASIDES),
    causes=CAUSES,
    echoes=ECHOES,
    measures=re.compile(
        r"\d ?(?:[KMGT]iB|[MG]B)\b"
        r"|(?i:kv[ _]cache|gpu blocks|cache blocks|memory|cuda ?graph).{0,200}?\d ?(?:%|(?:tokens|blocks)\b)"
        r"|\d[\d,.]* (?:tokens|blocks)\b.{0,60}(?i:kv cache)"
        r"|(?i:kv cache)[^.]{0,60}[ =:]\d"
    ),
    exception=EXCEPTION,
    # V0's driver, and V1's before 0.9, writes without a prefix; later every process has one, unless it got lost.
    unnamed=Speaker("driver"),
    unnamed_among=UNKNOWN,
)
