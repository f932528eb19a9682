"""Reads the Prometheus text of an engine's `/metrics`: pure, tolerant of names that changed over versions."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from anvil_tui.clock import mono_us, utc_now
from anvil_tui.records.artifact import Counters

# Our name, then what engines call it, newest first. A counter may stand with or without `_total`.
COUNTERS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": ("vllm:prompt_tokens", "sglang:prompt_tokens", "llamacpp:prompt_tokens"),
    "generation_tokens": ("vllm:generation_tokens", "sglang:generation_tokens", "llamacpp:tokens_predicted"),
    "prompt_tokens_cached": ("vllm:prompt_tokens_cached", "sglang:cached_tokens"),
    "prefix_cache_queries": ("vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"),
    "prefix_cache_hits": ("vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"),
    "preemptions": ("vllm:num_preemptions", "sglang:num_retractions"),
    "spec_drafts": ("vllm:spec_decode_num_drafts",),
    "spec_draft_tokens": ("vllm:spec_decode_num_draft_tokens",),
    "spec_accepted_tokens": ("vllm:spec_decode_num_accepted_tokens",),
    "requests": ("vllm:request_success", "sglang:num_requests"),
    "prefill_seconds": ("vllm:request_prefill_time_seconds_sum",),
    "prefill_count": ("vllm:request_prefill_time_seconds_count",),
    "decode_seconds": ("vllm:request_decode_time_seconds_sum",),
    "queue_seconds": ("vllm:request_queue_time_seconds_sum",),
    "per_token_seconds": (
        "vllm:request_time_per_output_token_seconds_sum",
        "vllm:time_per_output_token_seconds_sum",
    ),
    "per_token_count": (
        "vllm:request_time_per_output_token_seconds_count",
        "vllm:time_per_output_token_seconds_count",
    ),
}
GAUGES: Mapping[str, tuple[str, ...]] = {
    "requests_running": ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing"),
    "requests_waiting": ("vllm:num_requests_waiting", "sglang:num_queue_reqs", "llamacpp:requests_deferred"),
    "kv_usage": (
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
        "sglang:token_usage",
        "llamacpp:kv_cache_usage_ratio",
    ),
}
_POSITIONS = ("vllm:spec_decode_num_accepted_tokens_per_pos",)
_CACHE_INFO = ("vllm:cache_config_info", "sglang:cache_config_info")

_SAMPLE = re.compile(r"([A-Za-z_:][A-Za-z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)(?:[ \t]+\S+)?[ \t]*")
_LABEL = re.compile(r'\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*,?')
_ESCAPE = re.compile(r"\\(.)")


class Sample(Struct, frozen=True):
    """One line: name, labels, value."""

    name: str
    labels: dict[str, str]
    value: float


class EngineGauges(Struct, frozen=True, kw_only=True):
    """The engine's state at one moment; null is not said. `kv_usage` is 0 to 1, the highest of all engines."""

    running: float | None
    waiting: float | None
    kv_usage: float | None


def samples(text: str) -> Iterator[Sample]:
    """Every sample of the Prometheus text format; comments and lines that cannot be read are passed over."""
    for line in text.split("\n"):
        if not line or line[0] == "#":
            continue
        match = _SAMPLE.fullmatch(line.strip())
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = {name: _unescaped(raw) for name, raw in _LABEL.findall(match[2] or "")}
        yield Sample(match[1], labels, value)


def counters(text: str, *, at: str | None = None, now_us: int | None = None) -> Counters:
    """The known counters and gauges of a `/metrics` text, summed over engines; a name that does not occur is left out.

    `_created` series are never values: they carry when a counter began. `process_start` is the process's own start
    where it is said, else the earliest of those, in seconds since 1970: another value later means that all began anew.
    """
    found = list(samples(text))
    values: dict[str, float] = {}
    for table in (COUNTERS, GAUGES):
        for ours, names in table.items():
            value = _first(found, names, most=ours == "kv_usage")
            if value is not None:
                values[ours] = value
    started = [one.value for one in found if one.name == "process_start_time_seconds"]
    started = started or [one.value for one in found if one.name.endswith("_created") and ":" in one.name]
    return Counters(
        mono_us=mono_us() if now_us is None else now_us,
        at=utc_now() if at is None else at,
        values=values,
        accepted_per_position=_per_position(found),
        process_start=min(started, default=None),
    )


def gauges(text: str) -> EngineGauges:
    """What the engine does now: requests running and waiting, and how full the KV cache is."""
    found = list(samples(text))
    return EngineGauges(
        running=_first(found, GAUGES["requests_running"]),
        waiting=_first(found, GAUGES["requests_waiting"]),
        kv_usage=_first(found, GAUGES["kv_usage"], most=True),
    )


def cache_config(text: str) -> dict[str, str]:
    """The labels of `cache_config_info` (block_size, num_gpu_blocks, kv_cache_size_tokens …) of the first engine."""
    infos = [one.labels for one in samples(text) if one.name in _CACHE_INFO]
    return min(infos, key=lambda labels: labels.get("engine", ""), default={})


def kv_pool_tokens(text: str) -> int | None:
    """`kv_cache_size_tokens` of `cache_config_info`; None where the engine does not say it."""
    raw = cache_config(text).get("kv_cache_size_tokens", "")
    return int(raw) if raw.isdecimal() else None


def difference(before: Counters, after: Counters) -> dict[str, float] | None:
    """What each counter gained between two readings; None where the engine restarted or a counter fell.

    Gauges are left out. A counter that is absent before counts from 0 only if the process is the same.
    """
    if before.process_start != after.process_start:
        return None
    gained: dict[str, float] = {}
    for name in COUNTERS.keys() & after.values.keys():
        if name in before.values:
            gained[name] = after.values[name] - before.values[name]
        elif before.process_start is not None:
            gained[name] = after.values[name]
    return None if any(value < 0 for value in gained.values()) else gained


def _first(found: list[Sample], names: tuple[str, ...], *, most: bool = False) -> float | None:
    """Value under the first name that occurs, with or without `_total`; over engines the sum, or the most."""
    for name in names:
        values = [one.value for one in found if one.name in (name, f"{name}_total") and math.isfinite(one.value)]
        if values:
            return max(values) if most else math.fsum(values)
    return None


def _per_position(found: list[Sample]) -> tuple[float, ...]:
    """Accepted draft tokens by position 0, 1 …, summed over engines."""
    names = {f"{name}{suffix}" for name in _POSITIONS for suffix in ("", "_total")}
    sums: dict[int, float] = {}
    for one in found:
        position = one.labels.get("position", "")
        if one.name in names and position.isdecimal():
            sums[int(position)] = sums.get(int(position), 0.0) + one.value
    return tuple(sums.get(position, 0.0) for position in range(max(sums) + 1)) if sums else ()


def _unescaped(raw: str) -> str:
    return _ESCAPE.sub(lambda match: "\n" if match[1] == "n" else match[1], raw) if "\\" in raw else raw
