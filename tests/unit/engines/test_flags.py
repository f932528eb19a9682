"""What a launch says about recipe fields, read from flags and variables."""

import pytest

from anvil_tui.engines.flags import FLAGS, VARIABLES, literals
from anvil_tui.records.lane import Recipe


@pytest.mark.parametrize(
    ("engine", "argv", "expected"),
    [
        ("vllm", ["--max-model-len", "131072"], [("max_model_len", "argv[0]", "131072")]),
        ("vllm", ["vllm", "serve", "m", "--max_model_len=131072"], [("max_model_len", "argv[3]", "131072")]),
        ("vllm", ["--max-model-len", "128K"], [("max_model_len", "argv[0]", "131072")]),
        ("vllm", ["--max-model-len=25.6k"], [("max_model_len", "argv[0]", "25600")]),
        ("vllm", ["--max-model-len", "-1"], [("max_model_len", "argv[0]", "-1")]),
        ("vllm", ["--max-model-len", "--enforce-eager"], []),
        ("vllm", ["--max-model-len"], []),
        ("vllm", ["-tp", "2", "--gpu-memory-utilization", "0.975"],
         [("tensor_parallel_size", "argv[0]", "2"), ("gpu_memory_utilization", "argv[2]", "0.975")]),
        ("vllm", ["--speculative-config", '{"method": "mtp", "num_speculative_tokens": 5}'],
         [("speculation.method", "argv[0]", "mtp"), ("speculation.tokens", "argv[0]", "5")]),
        ("vllm", ["-sc.num_speculative_tokens", "7"], [("speculation.tokens", "argv[0]", "7")]),
        ("vllm", ["--speculative_config.method=eagle"], [("speculation.method", "argv[0]", "eagle")]),
        ("vllm", ["--speculative-config", "not json"], []),
        ("vllm", ["-cc.max_cudagraph_capture_size=48"], [("cuda_graph_cap", "argv[0]", "48")]),
        ("vllm", ["--compilation-config", '{"max_cudagraph_capture_size": 32}'],
         [("cuda_graph_cap", "argv[0]", "32")]),
        ("vllm", ["bash", "-c", "exec vllm serve /m --max-num-seqs 8 --kv-cache-dtype 'fp8'"],
         [("max_num_seqs", "argv[2]", "8"), ("kv_cache_dtype", "argv[2]", "fp8")]),
        ("vllm", ["--max-model-len", "{recipe.max_model_len}"],
         [("max_model_len", "argv[0]", "{recipe.max_model_len}")]),
        ("sglang", ["--context-length", "32768", "--tp", "4", "--mem-fraction-static=0.85"],
         [("max_model_len", "argv[0]", "32768"), ("tensor_parallel_size", "argv[2]", "4"),
          ("gpu_memory_utilization", "argv[4]", "0.85")]),
        ("llamacpp", ["-c", "32768", "-ctk", "q8_0"],
         [("max_model_len", "argv[0]", "32768"), ("kv_cache_dtype", "argv[2]", "q8_0")]),
        ("llamacpp", ["-c", "32768", "-np", "4"], [("max_num_seqs", "argv[2]", "4")]),
        ("trtllm", ["--max_seq_len", "4096", "--tp_size", "2"],
         [("max_model_len", "argv[0]", "4096"), ("tensor_parallel_size", "argv[2]", "2")]),
        ("other", ["--max-model-len", "1"], []),
    ],
)  # fmt: skip
def test_flags(engine: str, argv: list[str], expected: list[tuple[str, str, str]]) -> None:
    assert literals(engine, argv, {}) == expected


def test_variables_follow_flags() -> None:
    env = {"MAX_NUM_BATCHED_TOKENS": "4096", "PATH": "/bin", "MAX_MODEL_LEN": "131072"}
    assert literals("vllm", ["--max-num-seqs", "1"], env) == [
        ("max_num_seqs", "argv[0]", "1"),
        ("max_model_len", "env.MAX_MODEL_LEN", "131072"),
        ("max_num_batched_tokens", "env.MAX_NUM_BATCHED_TOKENS", "4096"),
    ]
    assert literals("llamacpp", [], {"LLAMA_ARG_CTX_SIZE": "8192"}) == [
        ("max_model_len", "env.LLAMA_ARG_CTX_SIZE", "8192")
    ]


def test_every_field_is_one_of_the_recipe() -> None:
    fields = {*Recipe.__struct_fields__, "speculation.method", "speculation.tokens"}
    for table in (FLAGS, VARIABLES):
        assert all(field in fields for engine in table.values() for field in engine)
