"""Each way in which a vLLM version writes a figure, from the facts: one line a shape."""

from typing import Any

import pytest

from tests.unit.engines.logs import figures, report

HEAD = "(EngineCore pid=7) INFO 12-01 03:40:43 [x.py:1] "
USAGE = (
    "Free memory on device (93.87/95.59 GiB) on startup. Desired GPU memory utilization is (0.88, 84.12 GiB). Actual"
    " usage is {usage}. Replace gpu_memory_utilization config with `--kv-cache-memory=17645235405` (16.43 GiB) to fit"
    " into requested memory, or `--kv-cache-memory=28116131840` (26.19 GiB) to fully utilize gpu memory. Current kv"
    " cache memory in use is 16.57 GiB."
)
WEIGHT = (
    "66.17 GiB for weight, 1.17 GiB for peak activation, 0.15 GiB for non-torch memory,"
    " and 0.05 GiB for CUDAGraph memory"
)
CONSUMED = (
    "39.07 GiB for consumed memory (weights + non-torch), 1.5 GiB for peak activation,"
    " and 0.17 GiB for CUDAGraph memory"
)
E = "EngineCore"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        # available KV
        ("Available KV cache memory: 6.51 GiB", {"kv_available_gib": {E: 6.51}}),
        ("Available KV cache memory: 49.5 GiB", {"kv_available_gib": {E: 49.5}}),
        ("Available KV cache memory: -2.77 GiB", {"kv_available_gib": {E: -2.77}}),
        (
            "Initial free memory 93.7 GiB, reserved 20.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes"
            " config and skipped memory profiling. This does not respect the gpu_memory_utilization config.",
            {"extra": {"kv_reserved_gib": {E: 20.0}}},
        ),
        (
            "model weights take 21.21GiB; non_torch_memory takes 0.20GiB; PyTorch activation peak memory"
            " takes 0.37GiB; the"
            " rest of the memory reserved for KV Cache is 1.57GiB.",
            {"weights_gib": {E: 21.21}, "non_torch_gib": {E: 0.2}, "peak_activation_gib": {E: 0.37},
             "kv_available_gib": {E: 1.57}},
        ),
        ("Explicitly set (1.0/9.46) GiB for KV cache on node 0.", {"extra": {"cpu_kv_gib": {E: 1.0}}}),
        (
            "Auto set (4.2/9.46) GiB for KV cache on node 0, with 8.51 GiB requested memory for the"
            " worker. 4.31 GiB memory"
            " was consumed by non-kv usages.",
            {"extra": {"cpu_kv_gib": {E: 4.2}}},
        ),
        # KV tokens and concurrency
        ("GPU KV cache size: 42,656 tokens", {"kv_tokens": 42656}),
        (
            "GPU KV cache size: 894,492 tokens, Maximum concurrency for 131,072 tokens per request: 6.82x",
            {"kv_tokens": 894492, "max_model_len": 131072, "max_concurrency": 6.82},
        ),
        (
            "XPU KV cache size: 1,024 tokens, Maximum concurrency for 512 tokens per request: 2.00x",
            {"kv_tokens": 1024, "max_model_len": 512, "max_concurrency": 2.0},
        ),
        (
            "GPU + host KV cache size: 2,048 tokens, Maximum concurrency for 512 tokens per request: 4.00x",
            {"kv_tokens": 2048, "max_model_len": 512, "max_concurrency": 4.0},
        ),
        ("# GPU blocks: 1478, # CPU blocks: 2048", {"extra": {"num_gpu_blocks": 1478, "num_cpu_blocks": 2048}}),
        ("# CUDA blocks: 5000, # CPU blocks: 10", {"extra": {"num_gpu_blocks": 5000, "num_cpu_blocks": 10}}),
        ("# GPU blocks: 1381", {"extra": {"num_gpu_blocks": 1381}}),
        (
            "Maximum concurrency for 29000 tokens per request: 0.82x",
            {"max_model_len": 29000, "max_concurrency": 0.82},
        ),
        # weights and their time
        ("Loading model weights took 14.9888 GB", {"weights_gib": {E: 14.9888}}),
        (
            "Model loading took 3.5 GiB and 12.345678 seconds",
            {"weights_gib": {E: 3.5}, "model_load_seconds": {E: 12.345678}},
        ),
        (
            "Model loading took 66.1712 GiB memory and 135.604912 seconds",
            {"weights_gib": {E: 66.1712}, "model_load_seconds": {E: 135.604912}},
        ),
        (
            "Model loading took 14.2717 GB and 5.250000 seconds",
            {"weights_gib": {E: 14.2717}, "model_load_seconds": {E: 5.25}},
        ),
        ("Loading weights took 52.63 seconds", {"weights_load_seconds": {E: 52.63}}),
        # profiling
        (
            "the current vLLM instance can use total_gpu_memory (23.58GiB) x gpu_memory_utilization (0.99) = 23.35GiB",
            {"extra": {"gpu_memory_utilization": 0.99}},
        ),
        (
            "Memory profiling results: total_gpu_memory=23.58GiB initial_memory_usage=15.34GiB"
            " peak_torch_memory=17.98GiB"
            " memory_usage_post_profile=15.35GiB non_torch_memory=0.35GiB kv_cache_size=2.89GiB"
            " gpu_memory_utilization=0.90",
            {"kv_available_gib": {E: 2.89}, "non_torch_gib": {E: 0.35},
             "extra": {"gpu_memory_utilization": 0.9, "peak_torch_gib": {E: 17.98}}},
        ),
        (
            USAGE.format(usage=WEIGHT),
            {"weights_gib": {E: 66.17}, "peak_activation_gib": {E: 1.17}, "non_torch_gib": {E: 0.15},
             "cuda_graph_gib": {E: 0.05}, "kv_in_use_gib": {E: 16.57}, "extra": {"gpu_memory_utilization": 0.88}},
        ),
        (
            USAGE.format(usage=CONSUMED).replace("--kv-cache-memory=", "--kv-cache-memory-bytes="),
            {"consumed_gib": {E: 39.07}, "peak_activation_gib": {E: 1.5}, "cuda_graph_gib": {E: 0.17},
             "kv_in_use_gib": {E: 16.57}, "extra": {"gpu_memory_utilization": 0.88}},
        ),
        (
            USAGE.format(usage=CONSUMED).replace("on device (", "on device cuda:0 ("),
            {"consumed_gib": {E: 39.07}, "peak_activation_gib": {E: 1.5}, "cuda_graph_gib": {E: 0.17},
             "kv_in_use_gib": {E: 16.57}, "extra": {"gpu_memory_utilization": 0.88}},
        ),
        (
            USAGE.format(usage=WEIGHT).replace("16.57 GiB.", "17179869184 bytes."),
            {"weights_gib": {E: 66.17}, "peak_activation_gib": {E: 1.17}, "non_torch_gib": {E: 0.15},
             "cuda_graph_gib": {E: 0.05}, "kv_in_use_gib": {E: 16.0}, "extra": {"gpu_memory_utilization": 0.88}},
        ),
        # CUDA graphs
        (
            "Graph capturing finished in 9 secs, took 0.61 GiB",
            {"cuda_graph_gib": {E: 0.61}, "extra": {"graph_capture_seconds": 9}},
        ),
        ("Graph capturing finished in 23 secs.", {"extra": {"graph_capture_seconds": 23}}),
        ("Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)", {}),
        ("Estimated CUDA graph memory: 0.26 GiB total", {"cuda_graph_estimated_gib": {E: 0.26}}),
        (
            "Estimated MRV2 CUDA graph memory: 0.31 GiB total (0.12 GiB retained in the reusable pool)",
            {"cuda_graph_estimated_gib": {E: 0.31}},
        ),
        (
            "CUDA graph pool memory: 0.17 GiB (actual), 0.62 GiB (estimated), difference: 0.44 GiB (253.9%).",
            {"cuda_graph_gib": {E: 0.17}, "cuda_graph_estimated_gib": {E: 0.62}},
        ),
        (
            "CUDA graph memory profiling is enabled (default since v0.21.0). The current"
            " --gpu-memory-utilization=0.9000 is"
            " equivalent to --gpu-memory-utilization=0.8974 without CUDA graph memory profiling.",
            {},
        ),
        (
            "CUDA graph memory profiling is disabled (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0). Without"
            " it, CUDA graph"
            " memory is not accounted for",
            {},
        ),
        # compilation
        ("torch.compile takes 54.73 s in total", {"compile_seconds": 54.73}),
        ("torch.compile took 11.43 s in total", {"compile_seconds": 11.43}),
        ("[eagle_head] torch.compile took 1.50 s in total", {"compile_seconds": 1.5}),
        ("Dynamo bytecode transform time: 12.88 s", {"extra": {"dynamo_seconds": 12.88}}),
        ("Compiling a graph for general shape takes 41.86 s", {"extra": {"graph_compile_seconds": 41.86}}),
        ("Compiling a graph for shape 1 takes 1.86 s", {"extra": {"graph_compile_seconds": 1.86}}),
        ("Compiling a graph for compile range (1, 8192) takes 7.01 s", {"extra": {"graph_compile_seconds": 7.01}}),
        ("Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 0.35 s", {}),
        ("Initial profiling/warmup run took 3.25 s", {"extra": {"profile_seconds": 3.25}}),
        # engine start
        (
            "init engine (profile, create kv cache, warmup model) took 40.10 seconds",
            {"engine_init_seconds": 40.1},
        ),
        (
            "init engine (profile, create kv cache, warmup model) took 53.84 s (compilation: 23.77 s)",
            {"engine_init_seconds": 53.84, "compile_seconds": 23.77},
        ),
        (
            "init engine (profile, create kv cache, warmup model) took 60.00 s (compilation: 30.00 s — language_model:"
            " 20.00 s, encoder: 10.00 s)",
            {"engine_init_seconds": 60.0, "compile_seconds": 30.0},
        ),
        ("init engine (profile, create kv cache, warmup model) took 1.08 s", {"engine_init_seconds": 1.08}),
        # lengths and hybrids
        (
            "Auto-fit max_model_len: reduced from 262144 to 98304 to fit in available KV cache memory (15.2 GiB GPU)",
            {"max_model_len": 98304},
        ),
        (
            "Auto-fit max_model_len: full model context length 32768 fits in available KV cache memory (15.2 GiB)",
            {"max_model_len": 32768},
        ),
        ("Using max model len 4096", {"max_model_len": 4096}),
        ("Multiplying the GPU KV cache size by the dcp_world_size 8.", {"extra": {"dcp_world_size": 8}}),
        (
            "Multiplying the GPU KV cache size by the cp_world_size 16 (pcp_world_size 2 * dcp_world_size 8).",
            {"extra": {"dcp_world_size": 16}},
        ),
        (
            "Add 3 padding layers, may waste at most 5.26% KV cache memory",
            {"extra": {"kv_padding_waste_pct": 5.26}},
        ),
        (
            "Setting attention block size to 544 tokens to ensure that attention page size is >= mamba page size.",
            {"extra": {"attention_block_size": 544}},
        ),
        (
            "Overriding num_gpu_blocks=1000 with num_gpu_blocks_override=512",
            {"extra": {"num_gpu_blocks_override": 512}},
        ),
        # running
        (
            "Engine 000: Avg prompt throughput: 9.8 tokens/s, Avg generation throughput: 10.5 tokens/s,"
            " Running: 0 reqs,"
            " Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%",
            {},
        ),
    ],
)  # fmt: skip
def test_shape(message: str, expected: dict[str, Any]) -> None:
    found = report(HEAD + message)
    assert found.unread == ()
    assert {
        name: value for name, value in figures(HEAD + message).items() if name not in ("state", "ranks")
    } == expected


@pytest.mark.parametrize(
    ("line", "facts"),
    [
        ("(APIServer pid=1) INFO 12-01 03:40:29 [a.py:1]  ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.32.0", {}),
        ("INFO 05-05 10:00:00 api_server.py:712] vLLM API server version 0.6.4.post1", {}),
        (
            "(EngineCore pid=2) INFO 12-01 03:40:36 [core.py:133] Initializing a V1 LLM engine (v0.32.0) with config:"
            " model='/models/m', speculative_config=SpeculativeConfig(method='mtp', model='/d', num_spec_tokens=3),"
            " tokenizer='/m', dtype=torch.bfloat16, max_seq_len=4096, tensor_parallel_size=2, quantization=fp8,"
            " enforce_eager=False, kv_cache_dtype=fp8_e4m3, compilation_config={'cudagraph_mode':"
            " <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>, 'cudagraph_capture_sizes': [1, 2, 4, 48],"
            " 'max_cudagraph_capture_size': 48}, kernel_config=KernelConfig(moe_backend='auto')",
            {"kv_cache_dtype": "fp8_e4m3", "speculation_method": "mtp", "cudagraph_capture_sizes": "[1, 2, 4, 48]",
             "cudagraph_mode": "FULL_AND_PIECEWISE", "quantization": "fp8", "dtype": "bfloat16", "model": "/models/m",
             "enforce_eager": "False", "moe_backend_asked": "auto"},
        ),
        (
            "INFO 05-05 10:00:00 llm_engine.py:237] Initializing an LLM engine (v0.6.3) with config: model='m',"
            " max_seq_len=2048, kv_cache_dtype=auto",
            {"kv_cache_dtype": "auto", "model": "m"},
        ),
        (HEAD + "Using fp8_e5m2 data type to store kv cache. It reduces", {"kv_cache_dtype": "fp8_e5m2"}),
        (
            HEAD + "Using FLASHINFER attention backend out of potential backends: ['FLASHINFER', 'TRITON_ATTN'].",
            {"attention_backend": "FLASHINFER"},
        ),
        (HEAD + "Using Flash Attention backend on V1 engine.", {"attention_backend": "Flash Attention"}),
        (HEAD + "Using AttentionBackendEnum.FLASH_ATTN backend.", {"attention_backend": "FLASH_ATTN"}),
        (HEAD + "Using Transformers modeling backend.", {}),
        (HEAD + "Using FLASH_ATTN MLA prefill backend.", {"mla_prefill_backend": "FLASH_ATTN"}),
        (HEAD + "Using 'FLASHINFER_CUTLASS' NvFp4 MoE backend out of potential", {"moe_backend": "FLASHINFER_CUTLASS"}),
        (HEAD + "Using DEEPGEMM Fp8 MoE backend out of potential backends", {"moe_backend": "DEEPGEMM"}),
        (HEAD + "Using 'MARLIN' Mxfp4 MoE backend.", {"moe_backend": "MARLIN"}),
        (HEAD + "vLLM is using nccl==2.28.9", {"nccl_version": "2.28.9"}),
        (HEAD + "Resolved architecture: LlamaForCausalLM", {"architecture": "LlamaForCausalLM"}),
        (
            HEAD + "Profiling CUDA graph memory: PIECEWISE=51 (largest=512), FULL=35 (largest=256)",
            {"graphs_profiled": "PIECEWISE=51 (largest=512), FULL=35 (largest=256)"},
        ),
    ],
)  # fmt: skip
def test_facts(line: str, facts: dict[str, str]) -> None:
    assert {name: word.value for name, word in report(line).facts.items()} == facts


def test_version_figures_and_cap_of_the_configuration() -> None:
    found = report(
        "(EngineCore pid=2) INFO 12-01 03:40:36 [core.py:133] Initializing a V1 LLM engine (v0.26.1rc0) with config:"
        " model='/m', speculative_config=SpeculativeConfig(method='dspark', num_spec_tokens=5), max_seq_len=131072,"
        ' tensor_parallel_size=4, compilation_config={"max_capture_size": 48}'
    )
    assert found.engine_version and found.engine_version.value == "0.26.1rc0"
    assert {name: figure.value for name, figure in found.figures.items()} == {
        "tensor_parallel_size": 4,
        "speculation_tokens": 5,
        "cuda_graph_cap": 48,
    }
    assert found.max_model_len and found.max_model_len.value == 131072


def test_batched_tokens_are_read() -> None:
    found = report(
        "(APIServer pid=1) INFO 08-10 21:04:01 [s.py:2] Chunked prefill is enabled with max_num_batched_tokens=8192."
    )
    assert found.figures["max_num_batched_tokens"].value == 8192


def test_kv_usage_is_not_kv_size() -> None:
    assert "kv_tokens" not in figures(
        HEAD + "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput:"
        " 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: 7.0%"
    )


def test_a_draft_model_does_not_replace_the_target() -> None:
    lines = [HEAD + "Loading weights took 52.63 seconds", HEAD + "Loading weights took 1.10 seconds"]
    found = report("\n".join(lines))
    assert found.weights_load_seconds["EngineCore"].value == 52.63
    assert found.groups["second_weights_load_seconds"]["EngineCore"].value == 1.1


def test_compiled_parts_of_a_rank_add_up_and_the_slowest_rank_counts() -> None:
    lines = [
        "(Worker_TP0 pid=1) INFO 12-01 03:40:43 [m.py:1] torch.compile took 10.00 s in total",
        "(Worker_TP0 pid=1) INFO 12-01 03:40:44 [m.py:1] [eagle_head] torch.compile took 2.00 s in total",
        "(Worker_TP1 pid=2) INFO 12-01 03:40:45 [m.py:1] torch.compile took 11.00 s in total",
    ]
    found = report("\n".join(lines)).compile_seconds
    assert found and found.value == 12.0 and [source.line for source in (found.source, *found.also)] == [1, 2]


def test_acceptance_of_the_last_window() -> None:
    text = (
        "SpecDecoding metrics: Mean acceptance length: 4.57, Accepted throughput: 1.59 tokens/s, Drafted"
        " throughput: 2.23"
        " tokens/s, Accepted: 82 tokens, Drafted: 115 tokens, Per-position acceptance rate: 1.000, 0.870,"
        " 0.652, Avg Draft"
        " acceptance rate: 71.3%"
    )
    spec = report(HEAD + text).groups["spec"]
    assert {name: figure.value for name, figure in spec.items()} == {
        "mean_acceptance_length": 4.57,
        "accepted": 82,
        "drafted": 115,
        "avg_draft_acceptance_pct": 71.3,
    }


def test_a_weaker_row_never_replaces_a_stronger_one() -> None:
    lines = [
        HEAD + "CUDA graph pool memory: 0.17 GiB (actual), 0.62 GiB (estimated), difference: 0.44 GiB (253.9%).",
        HEAD + "Graph capturing finished in 9 secs, took 0.99 GiB",
    ]
    assert figures("\n".join(lines))["cuda_graph_gib"] == {"EngineCore": 0.17}


def test_new_wording_is_counted_as_unread() -> None:
    found = report("\n".join(HEAD + f"The KV cache got {number}.5 GiB this time" for number in range(80)))
    assert found.unread_count == 80 and len(found.unread) == 50
    assert found.unread[0].source.line == 1
