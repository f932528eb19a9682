"""llama-benchy's JSON report: one run a cell of prompt size, response size, context depth and concurrency.

Its `e2e_ttft` is our time to first output. Its prefill rate divides by the time to the first chunk of any kind, less
a measured latency, and its decode rate counts tokens that the client saw: both are labelled. Context-loading phases
are not measurements of a request and are left out. Single requests, failures and totals are not told.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from anvil_tui.evidence.statistics import nearest_rank
from anvil_tui.records.arm import MeasuredRun
from anvil_tui.records.validation import convert

FORMAT = "llama-benchy"
_DEFINITIONS = {
    "effective_prefill_tok_s_p50": "prompt tokens / (time to the first chunk of any kind − measured latency)",
    "decode_tok_s_p50": "tokens seen after the first one / time after it, per request",
    "throughput_tok_s": "tokens seen while generating / generation time, prefill left out",
}


def recognises(data: Any) -> bool:
    """Whether `data` has the keys that its schema requires."""
    return isinstance(data, dict) and {"latency_mode", "benchmarks", "prefix_caching_enabled"} <= set(data)


class _Metric(Struct, frozen=True, kw_only=True):
    values: tuple[float, ...]


class _Cell(Struct, frozen=True, kw_only=True):
    concurrency: int
    context_size: int
    prompt_size: int
    response_size: int
    is_context_prefill_phase: bool
    pp_req_throughput: _Metric | None = None
    tg_req_throughput: _Metric | None = None
    tg_throughput: _Metric | None = None
    e2e_ttft: _Metric | None = None


class _Report(Struct, frozen=True, kw_only=True):
    model: str
    timestamp: str
    benchmarks: tuple[_Cell, ...]


def read(data: dict[str, Any], path: str) -> tuple[MeasuredRun, ...]:
    """Turn a report into one run a cell; `path` is its name among the inputs. Raises BadInput with every fault."""
    file = convert(_Report, data, path)
    return tuple(_run(cell, file, path) for cell in file.benchmarks if not cell.is_context_prefill_phase)


def _run(cell: _Cell, file: _Report, path: str) -> MeasuredRun:
    counted = max((len(one.values) for one in (cell.e2e_ttft, cell.tg_throughput) if one is not None), default=0)
    return MeasuredRun(
        path=path,
        format=FORMAT,
        run=f"{path.rsplit('/', 1)[-1]}:pp{cell.prompt_size}-d{cell.context_size}-c{cell.concurrency}",
        what="capacity",
        passed=counted > 0,
        completed=counted,
        failed=0,
        served_name=file.model,
        started_at=file.timestamp,
        label_tokens=cell.context_size + cell.prompt_size,
        concurrency=cell.concurrency,
        warm_up=True,
        reported={
            "time_to_first_output_p50_ms": _p50(cell.e2e_ttft),
            "effective_prefill_tok_s_p50": _p50(cell.pp_req_throughput),
            "decode_tok_s_p50": _p50(cell.tg_req_throughput),
            "throughput_tok_s": _p50(cell.tg_throughput),
        },
        definitions=_DEFINITIONS,
    )


def _p50(metric: _Metric | None) -> float | None:
    return nearest_rank(metric.values, 50) if metric is not None else None
