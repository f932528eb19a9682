"""Run metrics from request records alone: the one formula that campaigns, comparison and verify share.

Definitions are the seeds': first output = first reasoning or content delta, TTFT = first visible content,
decode = (completion tokens − 1) / (E2E − first output), effective prefill = prompt tokens / time to first output,
nearest-rank percentiles over successful requests, throughput = their output tokens / wall time of the whole run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anvil_tui.evidence.statistics import nearest_rank
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.run_metrics import Clock, RequestTiming, RunMetrics

COMPLETED = frozenset({"ok", "truncated"})
"""Outcomes that count: visible content arrived. An answer cut at max_tokens counts, as in the seeds."""


def request_timing(record: RequestRecord, clock: Clock = "sent") -> RequestTiming:
    """Timings and rates of one request, in ms and tokens/s.

    With `clock="connect"` the time to connect is added, as the seeds' clock has it; it is then null where unknown.
    A rate of a request whose tokens came in a burst (`smooth` is False) is null.
    """
    shift = record.connect_ms if clock == "connect" else 0.0
    first = _plus(record.time_to_first_output_ms, shift)
    visible = _plus(record.ttft_ms, shift)
    e2e = _plus(record.e2e_ms, shift)
    generation = _minus(e2e, first)
    steps = record.output_tokens - 1 if record.output_tokens is not None and record.output_tokens > 1 else None
    paced = steps is not None and generation is not None and generation > 0 and record.smooth is not False
    return RequestTiming(
        time_to_first_output_ms=first,
        ttft_ms=visible,
        e2e_ms=e2e,
        generation_ms=generation,
        visible_generation_ms=_minus(e2e, visible),
        effective_prefill_tok_s=(
            record.prompt_tokens / (first / 1000.0) if record.prompt_tokens is not None and first else None
        ),
        decode_tok_s=steps / (generation / 1000.0) if paced and steps and generation else None,
        mean_inter_token_latency_ms=generation / steps if paced and steps and generation else None,
    )


def run_metrics(
    requests: Sequence[RequestRecord], *, wall_ms: float | None = None, clock: Clock = "sent"
) -> RunMetrics:
    """Metrics of one run. Without `wall_ms` the wall time is first byte sent to last stream ended."""
    good = [record for record in requests if record.outcome in COMPLETED]
    timings = [request_timing(record, clock) for record in good]
    wall = wall_ms if wall_ms is not None else wall_time_ms(requests)
    output = _total(record.output_tokens for record in good)
    prompts = [float(record.prompt_tokens) for record in good if record.prompt_tokens is not None]
    cached = [
        record.cached_tokens / record.prompt_tokens
        for record in good
        if record.cached_tokens is not None and record.prompt_tokens
    ]

    def rank(name: str, percent: int) -> float | None:
        return nearest_rank([value for one in timings if (value := getattr(one, name)) is not None], percent)

    return RunMetrics(
        requests=len(requests),
        completed=len(good),
        failed=len(requests) - len(good),
        wall_ms=wall,
        output_tokens=output,
        prompt_tokens=int(sum(prompts)) if prompts else None,
        prompt_tokens_p50=nearest_rank(prompts, 50),
        prompt_tokens_p95=nearest_rank(prompts, 95),
        reasoning_chunks=sum(record.reasoning_chunks for record in good),
        content_chunks=sum(record.content_chunks for record in good),
        throughput_tok_s=output / (wall / 1000.0) if output is not None and wall else None,
        prefix_cache_hit_avg=sum(cached) / len(cached) if cached else None,
        time_to_first_output_p50_ms=rank("time_to_first_output_ms", 50),
        time_to_first_output_p95_ms=rank("time_to_first_output_ms", 95),
        ttft_p50_ms=rank("ttft_ms", 50),
        ttft_p95_ms=rank("ttft_ms", 95),
        e2e_p50_ms=rank("e2e_ms", 50),
        e2e_p95_ms=rank("e2e_ms", 95),
        generation_p50_ms=rank("generation_ms", 50),
        generation_p95_ms=rank("generation_ms", 95),
        effective_prefill_tok_s_p50=rank("effective_prefill_tok_s", 50),
        effective_prefill_tok_s_p95=rank("effective_prefill_tok_s", 95),
        decode_tok_s_p50=rank("decode_tok_s", 50),
        decode_tok_s_p95=rank("decode_tok_s", 95),
        mean_inter_token_latency_ms_p50=rank("mean_inter_token_latency_ms", 50),
        mean_inter_token_latency_ms_p95=rank("mean_inter_token_latency_ms", 95),
    )


def wall_time_ms(requests: Iterable[RequestRecord]) -> float | None:
    """First byte sent to last stream ended, failed requests included; None where a sent request lacks an end."""
    sent = [record for record in requests if record.sent_us is not None]
    ends = [record.ended_us for record in sent if record.ended_us is not None]
    if not sent or len(ends) != len(sent):
        return None
    return (max(ends) - min(record.sent_us for record in sent if record.sent_us is not None)) / 1000.0


def observed_concurrency(requests: Iterable[RequestRecord]) -> int | None:
    """How many requests were in flight at once at most; None where a sent request lacks its times."""
    edges: list[tuple[int, int]] = []
    for record in requests:
        if record.sent_us is None:
            continue
        if record.ended_us is None:
            return None
        edges += [(record.sent_us, 1), (record.ended_us, -1)]
    most = now = 0
    for _, step in sorted(edges):
        now += step
        most = max(most, now)
    return most or None


def _plus(value: float | None, shift: float | None) -> float | None:
    return None if value is None or shift is None else value + shift


def _minus(end: float | None, start: float | None) -> float | None:
    return None if end is None or start is None else end - start


def _total(tokens: Iterable[int | None]) -> int | None:
    """Their sum; None where one of them is unknown or there is none."""
    known = list(tokens)
    return None if not known or any(one is None for one in known) else sum(one for one in known if one is not None)
