"""anvil-serving's artifacts: capacity runs, context ladders, preflights, acceptance and memory snapshots.

Its clock starts before it connects, with a new connection each request; its metrics are otherwise ours. Capacity rows
keep no cached tokens, only the run's mean, and none of its capacity protocols has a warm-up. Early files hold no rows:
their metrics are then as they state them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from anvil_tui.errors import BadInput, Fault
from anvil_tui.records.arm import DraftCounters, GateOutcome, GpuMemory, MeasuredRun, MemoryWindow
from anvil_tui.records.artifact import Check
from anvil_tui.records.request import Outcome, RequestError, RequestRecord
from anvil_tui.records.validation import convert
from anvil_tui.text import sanitise

BENCHMARK = "anvil-serving.benchmark/v1"
LADDER = "anvil-serving.fast-tier-bakeoff/v1"
PREFLIGHT = "preflight/v2"
DRAFTS = "anvil-serving.speculative-decoding-snapshot/v1"
HARDWARE = "anvil-serving.context-hardware-sampling/v1"
_SCHEMAS = frozenset({BENCHMARK, LADDER, PREFLIGHT, DRAFTS, HARDWARE})

_NO_CONTENT = "stream completed without visible content"


def recognises(data: Any) -> bool:
    """Whether `data` is one of anvil-serving's files that tell something about an arm."""
    return isinstance(data, dict) and _schema(data) in _SCHEMAS


def read(data: dict[str, Any], path: str) -> tuple[MeasuredRun | GateOutcome | MemoryWindow | DraftCounters, ...]:
    """Turn a file into records; `path` is its name among the inputs. Raises BadInput with every fault."""
    match _schema(data):
        case "anvil-serving.fast-tier-bakeoff/v1":
            return tuple(_ladder(convert(_Bakeoff, data, path), path))
        case "preflight/v2":
            return (_gate(convert(_Preflight, data, path), path),)
        case "anvil-serving.speculative-decoding-snapshot/v1":
            return (_drafts(convert(_Snapshot, data, path), path),)
        case "anvil-serving.context-hardware-sampling/v1":
            return tuple(_memory(convert(_Hardware, data, path), path))
    return (_capacity(convert(_Benchmark, data, path), path),)


class _Row(Struct, frozen=True, kw_only=True):
    request_index: int | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    output_token_source: str | None = None
    time_to_first_output_ms: float | None = None
    ttft_ms: float | None = None
    e2e_ms: float | None = None
    reasoning_chunks: int | None = None
    content_chunks: int | None = None


class _Failure(Struct, frozen=True, kw_only=True):
    request_index: int | None = None
    error_type: str | None = None
    error_message: str | None = None


class _Flags(Struct, frozen=True, kw_only=True):
    reasoning_effort: str | None = None
    shared_prefix_burst: bool | None = None


class _Benchmark(Struct, frozen=True, kw_only=True):
    requests: int
    completed: int
    model: str | None = None
    base_url: str | None = None
    engine: str | None = None
    gpu: str | None = None
    failed: int | None = None
    failures: tuple[_Failure, ...] = ()
    concurrency: int | None = None
    context_tokens: int | None = None
    max_context_tokens: int | None = None
    max_tokens: int | None = None
    started_at: str | None = None
    finished_at: str | None = None
    wall_clock_ms: float | None = None
    run_id: str | None = None
    serve_flags: _Flags = _Flags()
    request_timings: tuple[_Row, ...] = ()
    metrics: dict[str, Any] = {}


def _capacity(file: _Benchmark, path: str) -> MeasuredRun:
    told = max(file.requests - file.completed, 0) if file.failed is None else file.failed
    lost = file.requests - file.completed - told
    if lost < 0:
        counted = f"{file.completed} completed and {told} failed of {file.requests}"
        raise BadInput(path, Fault("requests", counted, "completed and failed together no more than all"))
    effort = file.serve_flags.reasoning_effort
    requests: tuple[RequestRecord, ...] = ()
    if file.request_timings and file.max_tokens is not None:
        rows = [_record(row, file.model or "", file.max_tokens, effort) for row in file.request_timings]
        requests = tuple(
            sorted(
                [*rows, *(_failed(one, file.model or "", file.max_tokens, effort) for one in file.failures)],
                key=lambda record: record.request_index,
            )
        )
    return MeasuredRun(
        path=path,
        format=BENCHMARK,
        run=path.rsplit("/", 1)[-1].removesuffix(".json"),
        what="capacity",
        passed=told == lost == 0 and file.completed > 0,
        requests=requests,
        completed=file.completed,
        failed=told + lost if told >= 0 else told,
        failures=(
            *(sanitise(one.error_message or one.error_type or "no message") for one in file.failures),
            *([f"{lost} requests of which the file says nothing"] if lost else []),
        ),
        served_name=file.model,
        engine=file.engine,
        hardware=file.gpu,
        base_url=file.base_url,
        started_at=file.started_at or _started(file.run_id),
        finished_at=file.finished_at,
        label_tokens=file.context_tokens,
        concurrency=file.concurrency,
        max_tokens=file.max_tokens,
        reasoning_effort=effort,
        max_model_len=file.max_context_tokens,
        warm_up=False,
        clock="connect",
        wall_ms=file.wall_clock_ms,
        reported={name: value for name, value in file.metrics.items() if _is_number(value)},
    )


def _record(row: _Row, model: str, max_tokens: int, effort: str | None) -> RequestRecord:
    """A row as a request whose connection took no time of its own: the file's clock holds it."""
    counted = row.output_token_source in (None, "usage")
    return RequestRecord(
        request_index=row.request_index or 0,
        outcome="ok",
        model=model,
        max_tokens=max_tokens,
        reasoning_effort=effort,
        connect_ms=0.0,
        time_to_first_output_ms=row.time_to_first_output_ms,
        ttft_ms=row.ttft_ms,
        e2e_ms=row.e2e_ms,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens if counted else None,
        reasoning_chunks=row.reasoning_chunks or 0,
        content_chunks=row.content_chunks or 0,
    )


def _failed(failure: _Failure, model: str, max_tokens: int, effort: str | None) -> RequestRecord:
    message = sanitise(failure.error_message or "")
    return RequestRecord(
        request_index=failure.request_index or 0,
        outcome=_outcome(failure.error_type or "", message),
        error=RequestError(message=message, type=failure.error_type),
        model=model,
        max_tokens=max_tokens,
        reasoning_effort=effort,
    )


def _outcome(kind: str, message: str) -> Outcome:
    """The file's one text for a stream without content covers several causes; which one it was cannot be told."""
    if message.startswith(_NO_CONTENT):
        return "no_visible_content"
    if "HTTP" in kind:
        return "http_error"
    return "timeout" if "timeout" in (kind + message).lower() or "timed out" in message else "disconnected"


class _LadderRow(_Row, frozen=True, kw_only=True):
    target_tokens: int
    status: str
    error: str | None = None
    usage: dict[str, Any] = {}


class _Context(Struct, frozen=True, kw_only=True):
    targets: tuple[_LadderRow, ...] = ()
    max_model_len: int | None = None
    cap_tokens: int | None = None


class _Identity(Struct, frozen=True, kw_only=True):
    model: str | None = None
    base_url: str | None = None
    engine: str | None = None
    gpu: str | None = None
    started_at: str | None = None


class _Thinking(Struct, frozen=True, kw_only=True):
    reasoning_effort: str | None = None


class _Budget(Struct, frozen=True, kw_only=True):
    visible_answer_tokens: int | None = None
    reasoning_headroom_tokens: int | None = None


class _Bakeoff(Struct, frozen=True, kw_only=True):
    context: _Context
    identity: _Identity = _Identity()
    thinking: _Thinking = _Thinking()
    evaluation_protocol: _Budget = _Budget()


def _ladder(file: _Bakeoff, path: str) -> Iterator[MeasuredRun]:
    budget = file.evaluation_protocol
    visible, reasoning = budget.visible_answer_tokens, budget.reasoning_headroom_tokens
    max_tokens = visible + reasoning if visible is not None and reasoning is not None else None
    effort = file.thinking.reasoning_effort
    for row in file.context.targets:
        passed = row.status == "passed"
        requests: tuple[RequestRecord, ...] = ()
        if max_tokens is not None and passed:
            requests = (_ladder_record(row, file.identity.model or "", max_tokens, effort),)
        yield MeasuredRun(
            path=path,
            format=LADDER,
            run=f"{path.rsplit('/', 1)[-1].removesuffix('.json')}:{row.target_tokens}",
            what="rung",
            passed=passed,
            requests=requests,
            completed=int(passed),
            failed=int(not passed),
            failures=() if passed else (sanitise(row.error or row.status),),
            served_name=file.identity.model,
            engine=file.identity.engine,
            hardware=file.identity.gpu,
            base_url=file.identity.base_url,
            started_at=file.identity.started_at,
            label_tokens=row.target_tokens,
            concurrency=1,
            max_tokens=max_tokens,
            margin_tokens=_margin(file.context, max_tokens),
            reasoning_effort=effort,
            max_model_len=file.context.max_model_len,
            warm_up=False,
            clock="connect",
        )


def _ladder_record(row: _LadderRow, model: str, max_tokens: int, effort: str | None) -> RequestRecord:
    details = row.usage.get("prompt_tokens_details") or {}
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    return replace(_record(row, model, max_tokens, effort), cached_tokens=cached if isinstance(cached, int) else None)


def _margin(context: _Context, max_tokens: int | None) -> int | None:
    if context.max_model_len is None or context.cap_tokens is None or max_tokens is None:
        return None
    return context.max_model_len - context.cap_tokens - max_tokens


class _Result(Struct, frozen=True, kw_only=True):
    name: str
    passed: bool
    detail: str = ""


class _Policy(Struct, frozen=True, kw_only=True):
    reasoning: str | None = None


class _Preflight(Struct, frozen=True, kw_only=True):
    results: tuple[_Result, ...]
    passed: bool | None = None
    thinking: _Thinking = _Thinking()
    observations: tuple[dict[str, Any], ...] = ()
    evidence_policy: _Policy = _Policy()


def _gate(file: _Preflight, path: str) -> GateOutcome:
    tools = [bool(one.get("passed")) for one in file.observations if one.get("test") == "tools"]
    seen = any(one.get("reasoning_chars") or one.get("reasoning_tokens") for one in file.observations)
    return GateOutcome(
        path=path,
        passed=file.passed if file.passed is not None else all(one.passed for one in file.results),
        checks=tuple(
            Check(name=sanitise(one.name), passed=one.passed, words=sanitise(one.detail)) for one in file.results
        ),
        tool_batch=(sum(tools), len(tools)) if tools else None,
        reasoning_effort=file.thinking.reasoning_effort,
        reasoning_evidence=file.evidence_policy.reasoning,
        reasoning_seen=seen if file.observations else None,
    )


class _Counters(Struct, frozen=True, kw_only=True):
    draft_tokens: float
    accepted_tokens: float
    drafts: float | None = None
    accepted_tokens_per_position: tuple[float, ...] = ()


class _Scope(Struct, frozen=True, kw_only=True):
    kind: str = "unknown"


class _Snapshot(Struct, frozen=True, kw_only=True):
    counters: _Counters
    scope: _Scope = _Scope()


def _drafts(file: _Snapshot, path: str) -> DraftCounters:
    return DraftCounters(
        path=path,
        scope=file.scope.kind,
        drafts=file.counters.drafts,
        draft_tokens=file.counters.draft_tokens,
        accepted_tokens=file.counters.accepted_tokens,
        accepted_per_position=tuple(file.counters.accepted_tokens_per_position),
    )


class _SegmentGpu(Struct, frozen=True, kw_only=True):
    role: str
    min_free_mib: float


class _Segment(Struct, frozen=True, kw_only=True):
    gpus: tuple[_SegmentGpu, ...]
    actual_prompt_tokens: int | None = None


class _Hardware(Struct, frozen=True, kw_only=True):
    segments: tuple[_Segment, ...]
    reserve_policy_mib_per_gpu: int | None = None


def _memory(file: _Hardware, path: str) -> Iterator[MemoryWindow]:
    for segment in file.segments:
        size = f" of {segment.actual_prompt_tokens:,} prompt tokens" if segment.actual_prompt_tokens else ""
        yield MemoryWindow(
            path=path,
            phase=f"in request{size}",
            in_request=True,
            gpus=tuple(GpuMemory(gpu=sanitise(one.role), free_mib=one.min_free_mib) for one in segment.gpus),
            reserve_mib=file.reserve_policy_mib_per_gpu,
        )


def _schema(data: dict[str, Any]) -> str | None:
    found = data.get("schema") or data.get("schema_version")
    return found if isinstance(found, str) else None


def _started(run_id: str | None) -> str | None:
    """`benchmark-20260712T072457Z` holds the start of a run whose file says nothing else of it."""
    found = re.search(r"(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z$", run_id or "")
    return "{}-{}-{}T{}:{}:{}Z".format(*found.groups()) if found else None


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
