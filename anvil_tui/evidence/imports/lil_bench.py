"""lil-bench's result: its decode matrix, one run a cell, and its prefill contexts.

Its decode rates are sustained rates in a fixed window in which every request decodes, and its figures are means:
all are labelled. Prompts are warm by design: a first request fills the prefix cache. A cell without a rate failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from anvil_tui.records.arm import MeasuredRun
from anvil_tui.records.validation import convert

FORMAT = "lil-bench-result/1"
_WINDOW = "sustained in a fixed window in which every request decodes"
_DECODE = {"decode_tok_s_p50": f"mean over requests, {_WINDOW}", "throughput_tok_s": f"tokens a second, {_WINDOW}"}
_PREFILL = {
    "time_to_first_output_p50_ms": "mean over the repetitions of a fixed time",
    "effective_prefill_tok_s_p50": "mean over the repetitions of a fixed time",
}


def recognises(data: Any) -> bool:
    """Whether `data` names this schema."""
    return isinstance(data, dict) and data.get("schema") == FORMAT


class _Cell(Struct, frozen=True, kw_only=True):
    concurrency: int
    context_tokens: int
    aggregate_tps: float | None = None
    per_request_avg_tps: float | None = None


class _Prefill(Struct, frozen=True, kw_only=True):
    tok_per_sec: float | None = None
    ttft_seconds: float | None = None


class _Bench(Struct, frozen=True, kw_only=True):
    results: tuple[_Cell, ...] = ()
    prefill: dict[str, _Prefill] = {}


class _Results(Struct, frozen=True, kw_only=True):
    bench: _Bench = _Bench()


class _Api(Struct, frozen=True, kw_only=True):
    model_id: str | None = None
    max_model_len: int | None = None


class _Server(Struct, frozen=True, kw_only=True):
    api: _Api = _Api()


class _File(Struct, frozen=True, kw_only=True):
    started: str | None = None
    finished: str | None = None
    server: _Server = _Server()
    results: _Results = _Results()


def read(data: dict[str, Any], path: str) -> tuple[MeasuredRun, ...]:
    """Turn a result into one run a cell; `path` is its name among the inputs. Raises BadInput with every fault."""
    return tuple(_runs(convert(_File, data, path), path))


def _runs(file: _File, path: str) -> Iterator[MeasuredRun]:
    for context, prefill in sorted(file.results.bench.prefill.items()):
        seconds, rate = _rate(prefill.ttft_seconds), _rate(prefill.tok_per_sec)
        first = seconds * 1000.0 if seconds is not None else None
        reported = {"time_to_first_output_p50_ms": first, "effective_prefill_tok_s_p50": rate}
        tokens = int(context) if context.isdecimal() else None
        yield _run(file, path, f"prefill-{context}", tokens, 1, reported, _PREFILL)
    for cell in file.results.bench.results:
        name = f"decode-c{cell.concurrency}-{cell.context_tokens}"
        reported = {"throughput_tok_s": _rate(cell.aggregate_tps), "decode_tok_s_p50": _rate(cell.per_request_avg_tps)}
        yield _run(file, path, name, cell.context_tokens, cell.concurrency, reported, _DECODE)


def _run(
    file: _File,
    path: str,
    name: str,
    label: int | None,
    concurrency: int,
    reported: dict[str, float | None],
    definitions: dict[str, str],
) -> MeasuredRun:
    valid = any(value is not None for value in reported.values())
    return MeasuredRun(
        path=path,
        format=FORMAT,
        run=f"{path.rsplit('/', 1)[-1]}:{name}",
        what="capacity",
        passed=valid,
        completed=concurrency if valid else 0,
        failed=0 if valid else concurrency,
        failures=() if valid else ("no valid measurement",),
        served_name=file.server.api.model_id,
        max_model_len=file.server.api.max_model_len,
        started_at=file.started,
        finished_at=file.finished,
        label_tokens=label or None,
        concurrency=concurrency,
        warm_up=True,
        reported=reported,
        definitions=definitions,
    )


def _rate(value: float | None) -> float | None:
    """A negative figure marks a cell without a valid measurement."""
    return value if value is not None and value >= 0 else None
