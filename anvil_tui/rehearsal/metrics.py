"""The engine's counters and their Prometheus text, in the names of vLLM 0.32."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil

from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.rehearsal.figures import BLOCK_TOKENS, kv_concurrency, kv_tokens, utilization

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


@dataclass
class Counters:
    """Totals since the process started, in tokens unless the name says otherwise."""

    drafted_positions: int = 0
    """Draft tokens a step; 0 without speculation."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generation_tokens: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    preemptions: int = 0
    requests: Counter[str] = field(default_factory=Counter)
    """Ended requests by finish reason."""
    drafts: int = 0
    accepted: list[int] = field(default_factory=list)
    """Accepted draft tokens by position."""
    created: float = field(default_factory=time.time)

    def draft(self, accepted: int) -> None:
        """Count one draft of which the first `accepted` tokens were taken."""
        self.drafts += 1
        for position in range(accepted):
            self.accepted[position] += 1


@dataclass(frozen=True)
class Gauges:
    """The state of one moment."""

    running: int
    waiting: int
    kv_usage: float
    """Share of the KV cache in use, 0 to 1."""


def throughput(before: Counters, now: Counters, gauges: Gauges, seconds: float) -> Iterator[tuple[str, str]]:
    """The engine's own log lines over `seconds`, each with the source file that vLLM names beside it."""
    prompt = (now.prompt_tokens - before.prompt_tokens) / seconds
    generated = (now.generation_tokens - before.generation_tokens) / seconds
    hits = now.prefix_hits / now.prefix_queries if now.prefix_queries else 0.0
    yield (
        "loggers.py:314",
        f"Engine 000: Avg prompt throughput: {prompt:.1f} tokens/s, "
        f"Avg generation throughput: {generated:.1f} tokens/s, "
        f"Running: {gauges.running} reqs, Waiting: {gauges.waiting} reqs, GPU KV cache usage: {gauges.kv_usage:.1%}, "
        f"Prefix cache hit rate: {hits:.1%}",
    )
    drafts = now.drafts - before.drafts
    if drafts:
        drafted = drafts * now.drafted_positions
        taken = [after - earlier for after, earlier in zip(now.accepted, before.accepted, strict=True)]
        shares = ", ".join(f"{count / drafts:.3f}" for count in taken)
        yield (
            "metrics.py:125",
            f"SpecDecoding metrics: Mean acceptance length: {1 + sum(taken) / drafts:.2f}, "
            f"Accepted throughput: {sum(taken) / seconds:.2f} tokens/s, "
            f"Drafted throughput: {drafted / seconds:.2f} tokens/s, "
            f"Accepted: {sum(taken)} tokens, Drafted: {drafted} tokens, Per-position acceptance rate: {shares}, "
            f"Avg Draft acceptance rate: {sum(taken) / drafted:.1%}",
        )


def exposition(config: EngineConfig, counters: Counters, gauges: Gauges) -> str:
    """The text of `/metrics`."""
    label = f'engine="0",model_name="{config.served_name}"'
    lines: list[str] = []

    def series(name: str, kind: str, words: str, *samples: tuple[str, float | int]) -> None:
        family = f"vllm:{name}"
        suffix = "_total" if kind == "counter" else ""
        lines.extend((f"# HELP {family}{suffix} {words}", f"# TYPE {family}{suffix} {kind}"))
        lines.extend(f"{family}{suffix}{{{label}{extra}}} {float(value)!r}" for extra, value in samples)
        if kind == "counter":
            lines.extend((f"# HELP {family}_created {words}", f"# TYPE {family}_created gauge"))
            lines.extend(f"{family}_created{{{label}{extra}}} {counters.created!r}" for extra, _ in samples)

    def counter(name: str, words: str, value: int) -> None:
        series(name, "counter", words, ("", value))

    series("num_requests_running", "gauge", "Number of requests in model execution batches.", ("", gauges.running))
    series("num_requests_waiting", "gauge", "Number of requests waiting to be processed.", ("", gauges.waiting))
    series("kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", ("", gauges.kv_usage))
    counter(
        "prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", counters.prefix_queries
    )
    counter("prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", counters.prefix_hits)
    counter("num_preemptions", "Cumulative number of preemption from the engine.", counters.preemptions)
    counter("prompt_tokens", "Number of prefill tokens processed.", counters.prompt_tokens)
    counter("prompt_tokens_cached", "Number of cached prompt tokens.", counters.cached_tokens)
    counter("generation_tokens", "Number of generation tokens processed.", counters.generation_tokens)
    finished = ((f',finished_reason="{reason}"', counters.requests[reason]) for reason in FINISH_REASONS)
    series("request_success", "counter", "Count of successfully processed requests.", *finished)
    if counters.drafted_positions:
        counter("spec_decode_num_drafts", "Number of spec decoding drafts.", counters.drafts)
        drafted = counters.drafts * counters.drafted_positions
        counter("spec_decode_num_draft_tokens", "Number of draft tokens.", drafted)
        counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.", sum(counters.accepted))
        positions = ((f',position="{place}"', count) for place, count in enumerate(counters.accepted))
        series("spec_decode_num_accepted_tokens_per_pos", "counter", "Accepted tokens per draft position.", *positions)
    lines += _cache_config(config)
    lines += [
        "# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.",
        "# TYPE process_start_time_seconds gauge",
        f"process_start_time_seconds {psutil.Process().create_time()!r}",
    ]
    return "\n".join(lines) + "\n"


def _cache_config(config: EngineConfig) -> list[str]:
    engine, recipe = config.engine, config.recipe
    labels = {
        "block_size": BLOCK_TOKENS,
        "cache_dtype": recipe.kv_cache_dtype or "auto",
        "enable_prefix_caching": True,
        "engine": 0,
        "gpu_memory_utilization": utilization(config),
        "kv_cache_max_concurrency": kv_concurrency(config),
        "kv_cache_size_tokens": kv_tokens(config),
        "num_gpu_blocks": engine.kv_blocks,
    }
    return [
        "# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig",
        "# TYPE vllm:cache_config_info gauge",
        "vllm:cache_config_info{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "} 1.0",
    ]
