"""Which command-line flags and environment variables of each engine say what a recipe field says."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

FLAGS: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "max_model_len": ("--max-model-len",),
        "max_num_seqs": ("--max-num-seqs",),
        "max_num_batched_tokens": ("--max-num-batched-tokens",),
        "gpu_memory_utilization": ("--gpu-memory-utilization",),
        "tensor_parallel_size": ("--tensor-parallel-size", "-tp"),
        "kv_cache_dtype": ("--kv-cache-dtype",),
        "cuda_graph_cap": ("--max-cudagraph-capture-size",),
        "host_kv_offload_gib": ("--kv-offloading-size",),
        "speculation.method": ("--spec-method",),
        "speculation.tokens": ("--spec-tokens", "--num-speculative-tokens"),
    },
    "sglang": {
        "max_model_len": ("--context-length",),
        "max_num_seqs": ("--max-running-requests",),
        "max_num_batched_tokens": ("--chunked-prefill-size",),
        "gpu_memory_utilization": ("--mem-fraction-static",),
        "tensor_parallel_size": ("--tensor-parallel-size", "--tp-size", "--tp"),
        "kv_cache_dtype": ("--kv-cache-dtype",),
        "cuda_graph_cap": ("--cuda-graph-max-bs",),
        "host_kv_offload_gib": ("--hicache-size",),
        "speculation.method": ("--speculative-algorithm", "--speculative-algo"),
        "speculation.tokens": ("--speculative-num-draft-tokens",),
    },
    "llamacpp": {
        "max_model_len": ("--ctx-size", "-c"),
        "max_num_seqs": ("--parallel", "-np"),
        "max_num_batched_tokens": ("--batch-size", "-b"),
        "kv_cache_dtype": ("--cache-type-k", "-ctk", "--cache-type-v", "-ctv"),
        "speculation.tokens": ("--draft-max", "--draft", "--draft-n"),
    },
    "trtllm": {
        "max_model_len": ("--max-seq-len",),
        "max_num_seqs": ("--max-batch-size",),
        "max_num_batched_tokens": ("--max-num-tokens",),
        "gpu_memory_utilization": ("--kv-cache-free-gpu-memory-fraction", "--free-gpu-memory-fraction"),
        "tensor_parallel_size": ("--tp-size", "--tensor-parallel-size"),
        "kv_cache_dtype": ("--kv-cache-dtype",),
    },
}
"""By engine and recipe field; written with dashes, read with dashes or underscores."""

VARIABLES: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "max_model_len": ("MAX_MODEL_LEN", "VLLM_MAX_MODEL_LEN"),
        "max_num_seqs": ("MAX_NUM_SEQS", "VLLM_MAX_NUM_SEQS"),
        "max_num_batched_tokens": ("MAX_NUM_BATCHED_TOKENS", "VLLM_MAX_NUM_BATCHED_TOKENS"),
        "gpu_memory_utilization": ("GPU_MEMORY_UTILIZATION", "VLLM_GPU_MEMORY_UTILIZATION"),
        "tensor_parallel_size": ("TENSOR_PARALLEL_SIZE", "TP_SIZE", "VLLM_TENSOR_PARALLEL_SIZE"),
        "kv_cache_dtype": ("KV_CACHE_DTYPE", "VLLM_KV_CACHE_DTYPE"),
        "speculation.tokens": ("NUM_SPECULATIVE_TOKENS",),
    },
    "sglang": {
        "max_model_len": ("CONTEXT_LENGTH",),
        "max_num_seqs": ("MAX_RUNNING_REQUESTS",),
        "max_num_batched_tokens": ("CHUNKED_PREFILL_SIZE",),
        "gpu_memory_utilization": ("MEM_FRACTION_STATIC",),
        "tensor_parallel_size": ("TENSOR_PARALLEL_SIZE", "TP_SIZE"),
        "kv_cache_dtype": ("KV_CACHE_DTYPE",),
    },
    "llamacpp": {
        "max_model_len": ("LLAMA_ARG_CTX_SIZE",),
        "max_num_seqs": ("LLAMA_ARG_N_PARALLEL",),
        "max_num_batched_tokens": ("LLAMA_ARG_BATCH",),
        "kv_cache_dtype": ("LLAMA_ARG_CACHE_TYPE_K", "LLAMA_ARG_CACHE_TYPE_V"),
        "speculation.tokens": ("LLAMA_ARG_DRAFT_MAX",),
    },
    "trtllm": {
        "max_model_len": ("MAX_SEQ_LEN",),
        "max_num_seqs": ("MAX_BATCH_SIZE",),
        "max_num_batched_tokens": ("MAX_NUM_TOKENS",),
        "tensor_parallel_size": ("TP_SIZE",),
    },
}
"""Names that an engine reads itself, or that its common images and compose files turn into its flags."""

CONFIGS: dict[str, dict[str, dict[str, str]]] = {
    "vllm": {
        "--speculative-config": {"method": "speculation.method", "num_speculative_tokens": "speculation.tokens"},
        "-sc": {"method": "speculation.method", "num_speculative_tokens": "speculation.tokens"},
        "--compilation-config": {"max_cudagraph_capture_size": "cuda_graph_cap", "max_capture_size": "cuda_graph_cap"},
        "-cc": {"max_cudagraph_capture_size": "cuda_graph_cap", "max_capture_size": "cuda_graph_cap"},
    },
}
"""Flags that take a JSON object, or `--flag.key value`: which of its keys say what a recipe field says."""

_HUMAN = re.compile(r"(\d+(?:\.\d+)?)([kmgtKMGT])")
_DECIMAL = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

Literal = tuple[str, str, str]
"""Recipe field, place (`argv[3]`, `env.MAX_MODEL_LEN`), value as text."""


def literals(engine: str, argv: Sequence[str], env: Mapping[str, str]) -> list[Literal]:
    """What a launch says about recipe fields, in order: flags first, then variables. An unknown engine says nothing.

    `--flag value`, `--flag=value`, dashes or underscores, short forms, JSON objects, and a whole command line inside
    one argument (`bash -c "…"`) are read. vLLM's `128k` and `128K` become whole numbers. A value that refers to the
    recipe (`{recipe.max_model_len}`) comes back as it stands.
    """
    found = list(_in_argv(engine, argv))
    for field, names in VARIABLES.get(engine, {}).items():
        found += [(field, f"env.{name}", env[name]) for name in names if name in env]
    if engine == "llamacpp" and any(field == "max_num_seqs" and value != "1" for field, _, value in found):
        # --ctx-size is shared by all parallel slots there, so it is no request's length.
        found = [one for one in found if one[0] != "max_model_len"]
    if engine == "vllm":
        return [(field, place, _whole(value)) for field, place, value in found]
    return found


def _in_argv(engine: str, argv: Sequence[str]) -> Iterator[Literal]:
    known = {flag: field for field, flags in FLAGS.get(engine, {}).items() for flag in flags}
    configs = CONFIGS.get(engine, {})
    for place, flag, value in _pairs(argv):
        name, _, key = flag.partition(".")
        if flag in known:
            yield known[flag], place, value
        elif key and key in configs.get(name, {}):
            yield configs[name][key], place, value
        elif flag in configs:
            stated = _object(value)
            yield from ((field, place, str(stated[one])) for one, field in configs[flag].items() if one in stated)


def _pairs(argv: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each flag that has a value: its place, its name with dashes, its value."""
    words = [(f"argv[{index}]", word) for index, text in enumerate(argv) for word in _words(text)]
    for index, (place, word) in enumerate(words):
        following = words[index + 1][1] if index + 1 < len(words) else "-"
        if not word.startswith("-"):
            continue
        flag, equals, value = word.partition("=")
        if not equals:
            if following.startswith("-") and not re.fullmatch(r"-[\d.]+", following):
                continue
            value = following
        stem, dot, key = flag.partition(".")
        yield place, stem.replace("_", "-") + dot + key, value


def _words(text: str) -> list[str]:
    """A shell's words where an argument is a command line of its own, else the argument itself."""
    if text.startswith(("-", "{")) or not re.search(r"\s--?\w", text):
        return [text]
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return [text]


def _object(value: str) -> dict[str, Any]:
    try:
        found = json.loads(value)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _whole(value: str) -> str:
    """vLLM's own short numbers as whole ones: `k` is 1000, `K` is 1024."""
    match = _HUMAN.fullmatch(value)
    return str(int(float(match[1]) * (_DECIMAL | _BINARY)[match[2]])) if match else value
