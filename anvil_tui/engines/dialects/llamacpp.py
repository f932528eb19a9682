"""llama.cpp server's start-up log. Its unit is MiB; its lines carry no time unless asked to."""

from __future__ import annotations

import re

from anvil_tui.engines.dialects.prefixes import Spoken
from anvil_tui.engines.dialects.shapes import NOBODY, Cause, Dialect, Echo, Record, Shape

SHAPES: tuple[Shape, ...] = (
    # --- beginning ---
    Shape(
        "all", r"(?:main: )?build(?:_info)?(?:: | = ){engine_version:text}(?: with .*)?$", phase="args", means="begin"
    ),
    Shape("all", r".*?loading model(?:$| ')", phase="load_weights"),
    Shape("2026", r"ggml_\w+_init: found {} \w+ devices", phase="devices"),
    Shape("all", r"llama_model_loader: loaded meta data", phase="load_weights"),
    Shape("all", r"load_tensors: loading model tensors", phase="load_weights"),
    Shape("all", r"\w+: using device {device_name:word} .*? - {device_free_mib} MiB free", phase="load_weights"),
    Shape("all", r"(?:llm_)?load_tensors: offloaded {layers_on_gpu}/{layers} layers to GPU", phase="load_weights"),
    Shape("all", r"\w+: {device:word} model buffer size = {model_mib} MiB", phase="load_weights", adds=True),
    Shape("2024", r"llm_load_tensors: {device:word} buffer size = {model_mib} MiB", phase="load_weights", adds=True),
    Shape("all", r"\w+: (?:file|model) size = .*B\b", phase="load_weights"),
    Shape("all", r"\w+: token to piece cache size = ", phase="load_weights"),
    # --- auto-fit (default since 2025-12): what stands before its lines was a trial without memory ---
    Shape(
        "2025-12 ..",
        r"(?:common|llama)_params_fit_impl: projected to use {projected_mib} MiB of device memory vs\. {free_mib}"
        r" MiB of free device",
        phase="fit",
        trial=True,
    ),
    Shape("2025-12 ..", r"(?:common|llama)_params_fit_impl: ", phase="fit", trial=True),
    Shape("2025-12", r"llama_params_fit: ", phase="fit", trial=True),
    Shape("2026 ..", r"common_fit_params: ", phase="fit", trial=True),
    Shape("2025-12 ..", r"\w*memory_breakdown_print: ", phase="fit"),
    Shape("2026 ..", r".*?estimated memory usage of .*? is {} MiB"),
    # --- context ---
    Shape("all", r"llama_\w+: n_ctx = {n_ctx}$", phase="context"),
    Shape("all", r"llama_\w+: n_ctx_(?:per_)?seq = {n_ctx_seq}$", phase="context"),
    Shape(
        "2025 ..", r"llama_\w+: n_ctx_(?:per_)?seq \({n_ctx_seq}\) [<>] n_ctx_train \({n_ctx_train}\)", phase="context"
    ),
    Shape("all", r"llama_\w+: n_seq_max = {n_seq_max}$", phase="context"),
    Shape("all", r"llama_\w+: n_batch = {n_batch}$", phase="context"),
    Shape("all", r"llama_\w+: flash_attn = {flash_attn:word}$", phase="context"),
    # --- KV: several caches a start with sliding windows or MLA, one of them may be an empty decoy ---
    Shape("all", r"\w+: {device:word} KV buffer size = {kv_buffer_mib} MiB", phase="kv_report", adds=True),
    Shape("2025 ..", r"\w+: {device:word} RS buffer size = {rs_buffer_mib} MiB", phase="kv_report", adds=True),
    Shape(
        ".. b5400",
        r"\w+: KV self size = {kv_mib} MiB, K \({kv_cache_dtype:word}\): {k_mib} MiB, V \([^)]{1,20}\): {v_mib} MiB",
        phase="kv_report",
        adds=True,
    ),
    Shape(".. b5400 MLA", r"\w+: KV self size = {kv_mib} MiB, c\^KV", phase="kv_report", adds=True),
    Shape(
        "b5600 ..",
        r"llama_kv_cache\w*: size = {kv_mib} MiB \( *{} cells, *{} layers, *{}(?:/ *{})? seqs\),"
        r" K \({kv_cache_dtype:word}\): {k_mib} MiB, V \([^)]{1,20}\): {v_mib} MiB",
        phase="kv_report",
        adds=True,
    ),
    Shape("b5600 ..", r"llama_\w+: size = {} MiB \( *{} cells", phase="kv_report"),
    Shape("b5600 ..", r"llama_kv_cache\w*: kv_size = {}, ", phase="kv_report"),
    Shape("2025 ..", r"llama_kv_cache\w*: creating .*KV cache, size = {} cells", phase="kv_report"),
    Shape("all", r"\w+: {device:word} output buffer size = {output_mib} MiB", phase="context"),
    Shape(
        "all",
        r"(?:llama_\w+|sched_reserve|reserve): {device:word} compute buffer size = {compute_mib} MiB",
        phase="graph_reserve",
    ),
    Shape("all", r"(?:clip_\w+|load_hparams|alloc_compute_meta): "),
    Shape("all", r".*?prompt cache is enabled, size limit: {} MiB"),
    Shape(
        "all",
        r".*?(?:cache state|prompt cache|saving prompt|cached prompt|- prompt 0x|context checkpoint|state size).*",
    ),
    Shape("all", r"\w+: warming up the model", phase="warmup"),
    # --- the server ---
    Shape("all", r"(?:main|srv +llama_server): server is listening on \S+", phase="ready", means="ready"),
    Shape("2026", r".*?\blistening on https?://\S+", phase="ready", means="ready"),
    Shape("all", r".*?all slots are idle", phase="ready", means="ready"),
    Shape("all", r".*?model loaded$", phase="ready", means="ready"),
    Shape("all", r".*?cleaning up before exit", means="ended"),
)

CAUSES = (
    Cause(
        "all",
        r"allocating {tried:amount} on device {gpu}: cudaMalloc failed: out of memory",
        kind="cuda_oom",
    ),
    Cause("all", r"cudaMalloc failed: out of memory", kind="cuda_oom"),
    Cause("Vulkan", r"ErrorOutOfDeviceMemory", kind="device_oom"),
    Cause("all", r"CUDA error: {error:text}$", kind="cuda_error"),
    Cause("all", r"insufficient memory \(attempted to allocate {tried:amount}\)", kind="host_memory"),
    Cause("all", r"error: {message:text}$", kind="bad_arguments", depth=0),
    Cause("all", r"couldn't bind (?:HTTP )?server socket", kind="port_in_use"),
)

ECHOES = (
    Echo("all", r"failed to initialize the context", kind="engine_failed", depth=0),
    Echo("all", r"error loading model: {message:text}$", kind="engine_failed"),
    Echo("all", r"failed to load model", kind="engine_failed", depth=0),
    Echo("all", r"exiting due to model loading error", kind="engine_failed", depth=0),
)

# The router's child, `--log-timestamps`, `--log-prefix`.
_HEADER = re.compile(r"(?:\[\d{1,6}\] )?(?P<at>\d{1,4}\.\d\d\.\d{3}\.\d{3} )?(?:(?P<level>[DIWE]) )?")
_LEVELS = {"D": "DEBUG", "I": "INFO", "W": "WARNING", "E": "ERROR"}
_ALIGNED = re.compile(" {2,}")


def read(said: Spoken) -> list[Record]:
    """The record of one line: plain, or with time and level."""
    text = _ALIGNED.sub(" ", said.text)
    header = _HEADER.match(text)
    at, level, end = (header["at"], header["level"], header.end()) if header else (None, None, 0)
    return [Record(text[end:].rstrip(), _LEVELS.get(level or "", ""), said.at or (at or "").strip() or None)]


WORDS = (
    b"KV", b"rror", b"iB", b"llama", b"model", b"memory", b"size", b"fit", b"listening", b"build", b"load_tensors",
    b"idle", b"cleaning", b"bind", b"failed", b"terminate", b"_init", b"prompt", b"cache state",
)  # fmt: skip

DIALECT = Dialect(
    engine="llamacpp",
    read=read,
    words=WORDS,
    hallmark=re.compile(
        r"\b(?:llama_(?:model_loader|new_context_with_model|init_from_model|context|kv_cache\w*|model_load\w*)"
        r"|llm_load_\w+|load_tensors|common_(?:params_fit_impl|fit_params|init_from_params|memory_breakdown_print)"
        r"|ggml_(?:cuda|backend|vulkan|metal)\w*): |\bmain: server is listening on |\bllama(?:-|_)server\b"
    ),
    shapes=SHAPES,
    causes=CAUSES,
    echoes=ECHOES,
    measures=re.compile(r"\d ?[KMGT]iB\b|\bKV\b.{0,60}= *\d"),
    exception=re.compile(r"terminate called after throwing an instance of "),
    unnamed=NOBODY,
    unnamed_among=NOBODY,
    survives=True,
    bare=True,
)
