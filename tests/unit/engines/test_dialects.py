"""SGLang, llama.cpp and TensorRT-LLM: each way in which they write a figure; and what holds for every table."""

from typing import Any

import pytest

from anvil_tui.engines.dialects.shapes import Row, literals
from anvil_tui.engines.dialects.vllm_asides import ASIDES
from anvil_tui.engines.startup_log import DIALECTS
from tests.unit.engines.logs import figures, report

TP0 = "[2026-10-05 16:37:06 TP0] "
T = "[12/20/2025-04:21:10] [TRT-LLM] [I] "
CPP = "[TensorRT-LLM][INFO] "


def read(log: str, engine: str) -> dict[str, Any]:
    assert report(log, engine).unread == ()
    return {name: value for name, value in figures(log, engine).items() if name not in ("state", "ranks")}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            TP0 + "Load weight end. type=LlamaForCausalLM, dtype=torch.bfloat16, avail mem=63.48 GB,"
            " mem usage=15.11 GB.",
            {"weights_gib": {"TP0": 15.11}, "extra": {"load_end_avail_gib": {"TP0": 63.48}}},
        ),
        (
            "[2026-10-05 16:37:06 DP2 TP2 EP2] Load weight end. elapsed=269.29 s, type=X, quant=fp8, fmt=e4m3, avail"
            " mem=29.67 GB, mem usage=80.31 GB.",
            {"weights_gib": {"DP2 TP2 EP2": 80.31}, "weights_load_seconds": {"DP2 TP2 EP2": 269.29},
             "extra": {"load_end_avail_gib": {"DP2 TP2 EP2": 29.67}}},
        ),
        (
            "[2026-10-05 16:37:06] Load weight begin. avail mem=30.06 GB",
            {"extra": {"load_begin_avail_gib": {"?": 30.06}}},
        ),
        (
            TP0 + "KV Cache is allocated. #tokens: 442750, K size: 27.02 GB, V size: 27.02 GB",
            {"kv_tokens": 442750, "kv_pool_gb": {"TP0": 54.04}},
        ),
        (
            TP0 + "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 387968, K size: 5.92 GB, V size: 5.92 GB",
            {"kv_tokens": 387968, "kv_pool_gb": {"TP0": 11.84}},
        ),
        (
            TP0 + "KV Cache is allocated. #tokens: 3262823, KV size: 186.77 GB",
            {"kv_tokens": 3262823, "kv_pool_gb": {"TP0": 186.77}},
        ),
        (
            TP0 + "KV Cache is allocated. K size: 1.50 GB, V size: 1.50 GB",
            {"kv_pool_gb": {"TP0": 3.0}},
        ),
        (
            TP0 + "KV Cache is allocated. dtype: torch.bfloat16, #tokens: 600000",
            {"kv_tokens": 600000},
        ),
        (
            TP0 + "SWAKVPool mem usage: 36.69 GB, swa size: 171008, full size: 213761",
            {"kv_pool_gb": {"TP0": 36.69}, "extra": {"swa_tokens": 171008, "full_tokens": 213761}},
        ),
        (
            TP0 + "Mamba Cache is allocated. max_mamba_cache_size: 117, conv_state size: 0.28GB,"
            " ssm_state size: 8.07GB ",
            {"extra": {"mamba_conv_gib": {"TP0": 0.28}, "mamba_ssm_gib": {"TP0": 8.07}}},
        ),
        (TP0 + "Initialize DeepSeekV4TokenToKVPool with max_num_reqs=8 swa_size=1 c4_size=2 c128_size=3", {}),
        (
            TP0 + "DSv4 memory calculation: bytes_per_full_token=15955.85, available_bytes=19.58 GB,"
            " full_token=1317632",
            {},
        ),
        (TP0 + "Memory pool end. avail mem=8.38 GB", {"extra": {"pool_end_avail_gib": {"TP0": 8.38}}}),
        (
            TP0 + "Allocating 30.00 GB host memory for hierarchical KV cache.",
            {"extra": {"host_kv_gib": {"TP0": 30.0}}},
        ),
        (TP0 + "Init torch distributed ends. mem usage=0.13 GB", {}),
        (
            TP0 + "Capture cuda graph begin. This can take up to several minutes. avail mem=8.38 GB",
            {"extra": {"graph_begin_avail_gib": {"TP0": 8.38}}},
        ),
        (
            TP0 + "Capture cuda graph end. Time elapsed: 7.23 s. avail mem=7.45 GB. mem usage=0.93 GB.",
            {"cuda_graph_gib": {"TP0": 0.93},
             "extra": {"graph_capture_seconds": 7.23, "graph_end_avail_gib": {"TP0": 7.45}}},
        ),
        (
            TP0 + "Capture cuda graph end. Time elapsed: 54.61 s. mem usage=1.93 GB. avail mem=8.16 GB.",
            {"cuda_graph_gib": {"TP0": 1.93},
             "extra": {"graph_capture_seconds": 54.61, "graph_end_avail_gib": {"TP0": 8.16}}},
        ),
        (
            TP0 + "Capture target decode CUDA graph end. elapsed=10.10 s, mem usage=0.79 GB, avail mem=10.39 GB.",
            {"cuda_graph_gib": {"TP0": 0.79},
             "extra": {"graph_capture_seconds": 10.1, "graph_end_avail_gib": {"TP0": 10.39}}},
        ),
        (
            TP0 + "max_total_num_tokens=3080960, chunked_prefill_size=8192, max_prefill_tokens=16384,"
            " max_running_requests=256, context_len=1048576, available_gpu_mem=8.16 GB",
            {"kv_tokens": 3080960, "max_model_len": 1048576,
             "extra": {"chunked_prefill_size": 8192, "max_prefill_tokens": 16384, "max_running_requests": 256,
                       "available_gpu_mem_gib": {"TP0": 8.16}}},
        ),
        (
            "[2026-08-27 03:46:30] Engine startup timings (s): load_weight=12.02, kv_cache_allocation=0.02,"
            " scheduler_e2e=52.09, cuda_graph={prefill=22.96, decode=12.26}, tokenizer_e2e=65.82",
            {"extra": {"load_weight_seconds": 12.02, "scheduler_e2e_seconds": 52.09, "tokenizer_e2e_seconds": 65.82}},
        ),
        (
            "  0%|          | 0/13 [00:00<?, ?it/s][2025-03-08 12:29:21 TP1] Memory pool end. avail mem=2.09 GB",
            {"extra": {"pool_end_avail_gib": {"TP1": 2.09}}},
        ),
        ("Capturing batches (bs=1 avail_mem=0.86 GB): 100%|##########| 4/4 [00:18<00:00,  4.51s/it]", {}),
        (
            TP0 + "Decode batch. #running-req: 1, #token: 10, token usage: 0.00, cuda graph: True, gen throughput"
            " (token/s):"
            " 85.3, #queue-req: 0",
            {},
        ),
    ],
)  # fmt: skip
def test_sglang(line: str, expected: dict[str, Any]) -> None:
    assert read(line, "sglang") == expected


def test_sglang_is_ready_only_when_it_says_so() -> None:
    log = "[2025-10-05 16:37:15] INFO:     Uvicorn running on http://0.0.0.0:30000 (Press CTRL+C to quit)\n"
    assert report(log, "sglang").state == "loading"
    assert report(log + "[2025-10-05 16:37:20] The server is fired up and ready to roll!\n", "sglang").state == "ready"


def test_sglang_adds_pools_and_captures_and_keeps_levels() -> None:
    log = "\n".join(
        (
            TP0 + "KV Cache is allocated. #tokens: 1000, K size: 1.00 GB, V size: 1.00 GB",
            TP0 + "KV Cache is allocated. #tokens: 5000, K size: 2.00 GB, V size: 2.00 GB",
            TP0 + "SWAKVPool mem usage: 6.00 GB, swa size: 1000, full size: 5000",
            TP0 + "Capture target decode CUDA graph end. elapsed=10.00 s, mem usage=0.50 GB, avail mem=10.00 GB.",
            TP0 + "Capture draft decode CUDA graph end. elapsed=2.00 s, mem usage=0.25 GB, avail mem=9.75 GB.",
            TP0 + "max_total_num_tokens=5000, chunked_prefill_size=-1, context_len=4096",
        )
    )
    found = report(log, "sglang")
    pool = found.kv_pool_gib["TP0"]
    assert (pool.value, [source.line for source in (pool.source, *pool.also)]) == (6.0, [1, 2])
    assert found.cuda_graph_gib["TP0"].value == 0.75
    assert found.groups["graph_end_avail_gib"]["TP0"].value == 9.75
    assert found.kv_tokens and found.kv_tokens.value == 5000


def test_sglang_draft_does_not_replace_the_target() -> None:
    end = TP0 + "Load weight end. elapsed={} s, type=X, avail mem={} GB, mem usage={} GB."
    found = report("\n".join((end.format(60.0, 20.0, 75.0), end.format(2.0, 18.0, 2.0))), "sglang")
    assert found.weights_gib["TP0"].value == 75.0 and found.groups["second_weights_gib"]["TP0"].value == 2.0


def test_sglang_drafts_nothing_without_an_algorithm() -> None:
    found = report(
        "[2026-10-05 16:37:00] server_args=ServerArgs(speculative_algorithm=None, speculative_num_draft_tokens=8)"
    )
    assert found.engine == "sglang" and found.figures == {} and found.facts == {}


def test_sglang_arguments_are_facts() -> None:
    log = (
        "[2026-10-05 16:37:00] server_args=ServerArgs(model_path='/m', kv_cache_dtype='fp8_e4m3', tp_size=4,"
        " mem_fraction_static=0.85, attention_backend='flashinfer', speculative_algorithm='EAGLE',"
        " speculative_num_draft_tokens=4, cuda_graph_max_bs=80)"
    )
    found = report(log)
    assert {name: word.value for name, word in found.facts.items()} == {
        "model": "/m", "kv_cache_dtype": "fp8_e4m3", "attention_backend": "flashinfer", "speculation_method": "EAGLE",
    }  # fmt: skip
    assert {name: figure.value for name, figure in found.figures.items()} == {
        "tensor_parallel_size": 4, "mem_fraction_static": 0.85, "speculation_tokens": 4, "cuda_graph_cap": 80,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("lines", "kind", "figures"),
    [
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "no_kv_memory", {}),
        (
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static. Current value:"
            " mem_fraction_static=0.8",
            "no_kv_memory",
            {},
        ),
        (
            TP0 + "Scheduler hit an exception: Traceback (most recent call last):\n  File x\nKeyError: 'weights'",
            "exception",
            {},
        ),
        (TP0 + "Scheduler hit an exception: Traceback (most recent call last):", "scheduler_died", {}),
        (
            "[12-16 14:27:08] Rank 0 scheduler is dead. Please check if there are relevant logs.",
            "scheduler_died",
            {"rank": 0},
        ),
        (
            "[2026-10-05 16:37:06] Subprocess scheduler_0 (pid=77) crashed with exit code -8",
            "scheduler_died",
            {"exit_code": -8},
        ),
    ],
)
@pytest.mark.parametrize("ready", [False, True])
def test_sglang_failures(lines: str, kind: str, figures: dict[str, Any], ready: bool) -> None:
    begin = "[2026-10-05 16:37:00] The server is fired up and ready to roll!\n" if ready else ""
    found = report(begin + lines + "\n", "sglang")
    assert found.failure and (found.failure.kind, found.failure.figures) == (kind, figures)
    assert found.state == ("died_after_ready" if ready else "failed")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        # b4xxx to b5400
        (
            "llama_new_context_with_model: n_ctx      = 32768\n"
            "llama_kv_cache_init:      CUDA0 KV buffer size =  4096.00 MiB\n"
            "llama_new_context_with_model: KV self size  = 4096.00 MiB, K (f16): 2048.00 MiB, V (f16): 2048.00 MiB\n",
            {"n_ctx": 32768, "kv_pool_gb": {"CUDA0": 4.0},
             "extra": {"kv_buffer_mib": {"CUDA0": 4096.0}, "kv_mib": 4096.0, "k_mib": 2048.0, "v_mib": 2048.0}},
        ),
        (
            "llama_new_context_with_model: KV self size  =  549.00 MiB, c^KV (f16):  549.00 MiB, kv^T: not used\n",
            {"extra": {"kv_mib": 549.0}},
        ),
        # b5600: with cells; b5950 and later: N/N seqs
        (
            "llama_kv_cache_unified: size =  160.00 MiB (  4096 cells,  20 layers,  1 seqs), K (q8_0):  "
            " 85.00 MiB, V (q8_0):"
            "   75.00 MiB\n",
            {"extra": {"kv_mib": 160.0, "k_mib": 85.0, "v_mib": 75.0}},
        ),
        # sliding window or MLA: several caches, one of them an empty decoy; two devices
        (
            "llama_kv_cache: size =    0.00 MiB ( 64000 cells,   0 layers,  1/1 seqs), K (bf16):    0.00 MiB, V (bf16):"
            "    0.00 MiB\n"
            "llama_kv_cache:      CUDA0 KV buffer size =   182.75 MiB\n"
            "llama_kv_cache:      CUDA1 KV buffer size =   100.00 MiB\n"
            "llama_kv_cache: size =  282.75 MiB (  4352 cells,  43 layers,  1/1 seqs), K (bf16):  141.25 MiB, V (bf16):"
            "  141.50 MiB\n"
            "llama_kv_cache:      CUDA0 KV buffer size =    17.25 MiB\n",
            {"kv_pool_gb": {"CUDA0": 0.1953125, "CUDA1": 0.09765625},
             "extra": {"kv_buffer_mib": {"CUDA0": 200.0, "CUDA1": 100.0}, "kv_mib": 282.75, "k_mib": 141.25,
                       "v_mib": 141.5}},
        ),
        # 2026: prefixes, sched_reserve, recurrent state, n_ctx_seq
        (
            "0.01.446.339 I llama_context: n_ctx         = 32768\n"
            "0.01.446.340 I llama_context: n_ctx_seq (32768) < n_ctx_train (262144) -- the full capacity"
            " of the model will"
            " not be utilized\n"
            "0.01.447.702 I llama_memory_recurrent:      CUDA0 RS buffer size =   598.50 MiB\n"
            "0.01.447.703 I llama_memory_recurrent: size =  598.50 MiB (     1 cells,  64 layers,  1 seqs  3 rs_seq), R"
            " (f32):   22.50 MiB, S (f32):  576.00 MiB\n"
            "0.01.458.872 I sched_reserve:      CUDA0 compute buffer size =   154.02 MiB\n"
            "0.01.458.873 I load_tensors: offloaded 66/66 layers to GPU\n"
            "0.01.458.874 I load_tensors:        CUDA0 model buffer size = 15339.44 MiB\n",
            {"n_ctx": 32768,
             "extra": {"n_ctx_seq": 32768, "n_ctx_train": 262144, "rs_buffer_mib": {"CUDA0": 598.5},
                       "compute_mib": {"CUDA0": 154.02}, "layers_on_gpu": 66, "layers": 66,
                       "model_mib": {"CUDA0": 15339.44}}},
        ),
        # the dry run of the auto-fit writes the same lines first
        (
            "llama_kv_cache:    CUDA0 KV buffer size =   544.00 MiB\n"
            "llama_context: n_ctx         = 131072\n"
            "common_params_fit_impl: projected to use 3635 MiB of device memory vs. 5150 MiB of free device memory\n"
            "common_params_fit_impl: will leave 1515 >= 1024 MiB of free device memory, no changes needed\n"
            "llama_context: n_ctx         = 65536\n"
            "llama_kv_cache:    CUDA0 KV buffer size =   272.00 MiB\n",
            {"n_ctx": 65536, "kv_pool_gb": {"CUDA0": 0.265625},
             "extra": {"projected_mib": 3635, "free_mib": 5150, "kv_buffer_mib": {"CUDA0": 272.0}}},
        ),
        # other sizes that are no figures of a report
        (
            "print_info: file size   = 63.84 MiB (16.12 BPW) \n"
            "load: token to piece cache size = 0.2032 MB\n"
            "llama_model_load_from_file_impl: using device CUDA0 (Tesla V100-PCIE-16GB) - 15841 MiB free\n"
            "srv    load_model: prompt cache is enabled, size limit: 8192 MiB\n"
            "srv        update:  - cache state: 1 prompts, 63.8 MiB (limits: 8192.000 MiB, 32768 tokens, 39 est)\n"
            "slot create_check: id  3 | created context checkpoint 1 of 8 (pos_min = 0, size = 18.000 MiB)\n"
            "alloc_compute_meta:      CUDA0 compute buffer size =   248.10 MiB\n"
            "ggml_cuda_init: found 1 CUDA devices (Total VRAM: 24159 MiB):\n"
            "common_memory_breakdown_print: |   - CUDA0 (RTX 3090)   | 24159 = 23257 + (21388 = 15345 +   "
            " 5206 +     836) |\n",
            {"extra": {"device_free_mib": 15841}},
        ),
    ],
)  # fmt: skip
def test_llamacpp(log: str, expected: dict[str, Any]) -> None:
    assert read(log, "llamacpp") == expected


@pytest.mark.parametrize(
    "line",
    [
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop",
        "srv  update_slots: all slots are idle",
        '{"timestamp":1706462747,"level":"INFO","function":"main","line":2998,"message":"model loaded"}',
        "30.33.515.834 I srv  llama_server: listening on http://127.0.0.1:8091",
    ],
)
def test_llamacpp_is_ready(line: str) -> None:
    assert report(line, "llamacpp").state == "ready"


def test_llamacpp_version() -> None:
    found = report(
        "0.00.000.320 I build: 4507 (4dd34ff83) with cc (Ubuntu 11.4.0) 11.4.0 for x86_64-linux-gnu", "llamacpp"
    )
    assert found.engine_version and found.engine_version.value == "4507 (4dd34ff83)"


@pytest.mark.parametrize(
    ("line", "kind", "figures"),
    [
        (
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14656.12 MiB on device 0: cudaMalloc failed: out of"
            " memory",
            "cuda_oom",
            {"tried": "14656.12 MiB", "gpu": 0},
        ),
        ("E error: invalid argument: --no-such-flag", "bad_arguments", {"message": "invalid argument: --no-such-flag"}),
        ("error: invalid argument: --x", "bad_arguments", {"message": "invalid argument: --x"}),
        ("main: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080", "port_in_use", {}),
    ],
)
def test_llamacpp_failures(line: str, kind: str, figures: dict[str, Any]) -> None:
    failure = report(line, "llamacpp").failure
    assert failure and (failure.kind, failure.figures) == (kind, figures)


def test_llamacpp_takes_a_failure_back_when_it_retried() -> None:
    log = "ggml_cuda: allocating 146.12 MiB on device 0: cudaMalloc failed: out of memory\nsrv  x: all slots are idle\n"
    assert report(log, "llamacpp").state == "ready"
    assert (
        report("W common_fit_params: failed to fit params to free device memory: abort\n", "llamacpp").failure is None
    )


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            f"{CPP}Number of blocks in KV cache primary pool: 4607\n"
            f"{CPP}Number of blocks in KV cache secondary pool: 0, onboard blocks to primary memory before"
            f" reuse: true\n"
            f"{CPP}Number of tokens per block: 64.\n"
            f"{CPP}[MemUsageChange] Allocated 62.99 GiB for max tokens in paged KV cache (294848).\n",
            {"kv_tokens": 294848, "kv_pool_gb": {"?": 62.99},
             "extra": {"num_gpu_blocks": 4607, "num_cpu_blocks": 0, "tokens_per_block": 64}},
        ),
        # a trial allocation comes first: the last one counts, and the last length too
        (
            "[12/20/2025-04:21:10] [TRT-LLM] [W] Adjusted max_seq_len to 8224\n"
            f"{CPP}[MemUsageChange] Allocated 0.56 GiB for max tokens in paged KV cache (8224).\n"
            f"{T}max_seq_len=8224, max_num_requests=64, max_num_tokens=8192, max_batch_size=64\n"
            "[12/20/2025-04:21:51] [TRT-LLM] [W] Adjusted max_seq_len to 86720\n"
            f"{CPP}[MemUsageChange] Allocated 5.95 GiB for max tokens in paged KV cache (86720).\n"
            f"{T}max_seq_len=86720, max_num_requests=64, max_num_tokens=8192, max_batch_size=64\n",
            {"kv_tokens": 86720, "max_model_len": 86720, "kv_pool_gb": {"?": 5.95},
             "extra": {"max_num_requests": 64, "max_num_tokens": 8192, "max_batch_size": 64}},
        ),
        (
            f"{CPP}Allocate 69524783104 bytes for k/v cache. \n{CPP}Using 132608 tokens in paged KV cache.\n",
            {"kv_tokens": 132608, "extra": {"kv_bytes": 69524783104}},
        ),
        (
            "[12/20/2025-04:21:50] [TRT-LLM AUTO-DEPLOY] [RANK 1] [I] Memory used after loading model weights (inside"
            " torch) in memory"
            " usage profiling: 63.52 GiB\n",
            {"weights_gib": {"rank1": 63.52}},
        ),
        (
            f"{T}Peak memory during memory usage profiling (torch + non-torch): 113.65 GiB, available KV"
            f" cache memory when"
            " calculating max tokens: 5.95 GiB, fraction is set 0.9, kv size is 73728. device total memory"
            " 119.70 GiB\n",
            {"kv_available_gib": {"?": 5.95}, "extra": {"profiled_peak_gib": {"?": 113.65}}},
        ),
        (
            f"{T}Use 63.32 GB for model weights.\n"
            f"{CPP}[MemUsageChange] Allocated 1.14 GB GPU memory for runtime buffers.\n"
            "[TensorRT-LLM][WARNING] Attention workspace size is not enough, increase the size from 0"
            " bytes to 9 bytes\n"
            f"{T}Setting PyTorch memory fraction to 0.5983721838660735 (71.62367630004883 GiB)\n",
            {"extra": {"checkpoint_gib": {"?": 63.32}}},
        ),
    ],
)  # fmt: skip
def test_trtllm(log: str, expected: dict[str, Any]) -> None:
    assert read(log, "trtllm") == expected


def test_trtllm_failure_wrapper_is_no_cause() -> None:
    log = (
        "[12/20/2025-04:21:10] [TRT-LLM] [W] CUDA out of memory. Tried to allocate 20.00 MiB (handled, retrying)\n"
        "ValueError: Unknown architecture for AutoModelForCausalLM\nRuntimeError: Executor worker returned error\n"
    )
    failure = report(log, "trtllm").failure
    assert failure and failure.message == "ValueError: Unknown architecture for AutoModelForCausalLM"


@pytest.mark.parametrize("engine", DIALECTS)
def test_every_row_holds_a_word_that_its_dialect_looks_for(engine: str) -> None:
    dialect = DIALECTS[engine]
    alternatives = {"cache state", "[Errno ", "cudaHost", "clip_"}
    rows: tuple[Row, ...] = (*dialect.shapes, *dialect.causes, *dialect.echoes)
    for row in rows:
        if row not in ASIDES and not any(one in row.template for one in alternatives):
            runs = [run.encode() for run in literals(row.template)]
            assert any(word in run for word in dialect.words for run in runs), row.template


@pytest.mark.parametrize("engine", DIALECTS)
def test_every_row_has_its_versions_and_a_literal(engine: str) -> None:
    dialect = DIALECTS[engine]
    rows: tuple[Row, ...] = (*dialect.shapes, *dialect.causes, *dialect.echoes)
    for row in rows:
        assert row.versions and row.pattern
        assert row.literal or row.template.startswith((".*?(?:", "(?:"))


@pytest.mark.parametrize(
    ("template", "runs"),
    [
        (r"a \(b\) {x} c", ["a (b) ", " c"]),
        (r"a (?:b|c)? d", ["a ", " d"]),
        (r"a.{1,80}?b[xy]{2,3}c\d+e", ["a", "b", "c", "e"]),
        (r"(?:(?:a)b)?c", ["", "c"]),
        (r"models? loaded\.$", ["model", " loaded.", ""]),
    ],
)
def test_literals(template: str, runs: list[str]) -> None:
    assert literals(template) == runs
