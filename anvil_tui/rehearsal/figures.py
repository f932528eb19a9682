"""Figures that follow from an engine's configuration: ranks, memory sums and the KV report. Sizes in GiB."""

from __future__ import annotations

import math

from anvil_tui.errors import BadInput, Fault
from anvil_tui.records.lane import SimulatedGpu
from anvil_tui.records.rehearsal import EngineConfig

MIB_PER_GIB = 1024
BLOCK_TOKENS = 256
"""Tokens of one block of the prefix cache."""


def check(config: EngineConfig, source: str) -> None:
    """Raise BadInput that names `source` where the figures cannot be those of one engine."""
    faults = []
    ranks, gpus = config.recipe.tensor_parallel_size or 1, len(config.gpus)
    if gpus and gpus != ranks:
        faults.append(Fault("gpus", f"{gpus} of them", f"one a rank: recipe.tensor_parallel_size is {ranks}"))
    if config.recipe.max_model_len is None:
        faults.append(Fault("recipe.max_model_len", "missing", "a whole number above 0"))
    elif config.engine.kv_blocks < config.engine.kv_blocks_per_request:
        faults.append(Fault("engine.kv_blocks", str(config.engine.kv_blocks), "at least engine.kv_blocks_per_request"))
    accepted = config.engine.acceptance
    if list(accepted) != sorted(accepted, reverse=True) or any(not 0 <= share <= 1 for share in accepted):
        faults.append(Fault("engine.acceptance", str(list(accepted)), "shares from 0 to 1 that never rise"))
    if (drafted := config.recipe.speculation) and drafted.tokens != len(accepted):
        faults.append(Fault("engine.acceptance", f"{len(accepted)} figures", f"one a draft token: {drafted.tokens}"))
    if not faults and graph_estimate(config) < 0:
        words = f"{_needed(config):.2f} GiB of weights, activation, non-torch and KV in {desired(config):.2f} GiB"
        faults.append(Fault("engine", words, "parts that fit gpu_memory_utilization"))
    if faults:
        raise BadInput(source, *faults)


def max_model_len(config: EngineConfig) -> int:
    """The longest sequence, in tokens; `check` made sure that it is stated."""
    assert config.recipe.max_model_len is not None, "checked at start"
    return config.recipe.max_model_len


def batch_tokens(config: EngineConfig) -> int:
    """Tokens of one scheduler step."""
    return config.recipe.max_num_batched_tokens or 8192


def max_num_seqs(config: EngineConfig) -> int:
    """Requests that run at once."""
    return config.recipe.max_num_seqs or 256


def kv_concurrency(config: EngineConfig) -> float:
    """Full-length requests that fit, as vLLM reckons since 0.21: blocks over the blocks that one of them reserves."""
    return config.engine.kv_blocks / config.engine.kv_blocks_per_request


def kv_tokens(config: EngineConfig) -> int:
    """The reported "GPU KV cache size": int(concurrency × max_model_len), no pool size."""
    return int(kv_concurrency(config) * max_model_len(config))


def devices(config: EngineConfig) -> tuple[SimulatedGpu, ...]:
    """The GPU of each rank; without simulated GPUs the log speaks of plain ones."""
    return config.gpus or (SimulatedGpu(uuid="none"),) * (config.recipe.tensor_parallel_size or 1)


def device_total(config: EngineConfig) -> float:
    """CUDA's total of one device; on WSL2 the driver's reserve is not deducted from it."""
    return devices(config)[0].total_mib / MIB_PER_GIB


def utilization(config: EngineConfig) -> float:
    """`gpu_memory_utilization`; where the recipe leaves it open, the least that the figures need."""
    stated = config.recipe.gpu_memory_utilization
    return stated if stated is not None else math.ceil(_needed(config) / device_total(config) * 1000) / 1000


def desired(config: EngineConfig) -> float:
    """The engine's whole budget on one device."""
    return utilization(config) * device_total(config)


def non_torch(config: EngineConfig, rank: int) -> float:
    """Memory outside torch on `rank`; ranks past the last figure are like it."""
    figures = config.engine.non_torch_gib or (0.0,)
    return figures[min(rank, len(figures) - 1)]


def kv_available(config: EngineConfig, rank: int) -> float:
    """KV cache memory of `rank`: `kv_gib` on the rank with most outside torch, more on the others."""
    return config.engine.kv_gib + _non_torch_most(config) - non_torch(config, rank)


def graph_estimate(config: EngineConfig) -> float:
    """What profiling set aside for CUDA graphs: the rest of the budget, so that its parts sum up."""
    return desired(config) - _needed(config)


def _needed(config: EngineConfig) -> float:
    engine = config.engine
    return engine.weights_gib + engine.peak_activation_gib + _non_torch_most(config) + engine.kv_gib


def _non_torch_most(config: EngineConfig) -> float:
    return max(non_torch(config, rank) for rank in range(len(devices(config))))
