"""aiperf's `profile_export.jsonl`: one line a request, warm-up requests marked.

Its time to first token is our time to first output, its "TTFO" our TTFT. Its latency ends at the last content
response, not at the end of the stream, so E2E, generation and decode are labelled.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from anvil_tui.evidence.statistics import nearest_rank
from anvil_tui.records.arm import MeasuredRun
from anvil_tui.records.validation import convert
from anvil_tui.text import sanitise

FORMAT = "aiperf profile_export.jsonl"
_LAST = "to the last content response, the end of the stream left out"


def recognises(data: Any) -> bool:
    """Whether `data` is a list of lines with aiperf's two parts."""
    return (
        isinstance(data, list)
        and bool(data)
        and all(isinstance(one, dict) and {"metadata", "metrics"} <= set(one) for one in data)
    )


class _Metadata(Struct, frozen=True, kw_only=True):
    request_start_ns: int
    request_end_ns: int | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _Line(Struct, frozen=True, kw_only=True):
    metadata: _Metadata
    metrics: dict[str, Any]
    error: Any = None

    def value(self, *names: str) -> float | None:
        """The value under the first name that occurs."""
        for name in names:
            found = self.metrics.get(name)
            value = found.get("value") if isinstance(found, dict) else found
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
        return None


def read(data: list[Any], path: str) -> tuple[MeasuredRun, ...]:
    """Turn an export into one run; `path` is its name among the inputs. Raises BadInput with every fault."""
    lines = convert(tuple[_Line, ...], data, path)
    scored = [one for one in lines if one.metadata.benchmark_phase != "warmup"]
    good = [one for one in scored if not one.error and not one.metadata.was_cancelled]
    bad = [one for one in scored if one not in good]
    first = [one.value("time_to_first_token") for one in good]
    e2e = [one.value("request_latency") for one in good]
    output = [one.value("usage_completion_tokens", "output_sequence_length") for one in good]
    prompt = [one.value("usage_prompt_tokens", "input_sequence_length") for one in good]
    spans = [
        (count, last - start)
        for count, last, start in zip(output, e2e, first, strict=True)
        if count is not None and last is not None and start is not None
    ]
    ends = [one.metadata.request_end_ns for one in scored if one.metadata.request_end_ns is not None]
    wall = (max(ends) - min(one.metadata.request_start_ns for one in scored)) / 1e6 if ends else None
    total = sum(count for count in output if count is not None) if None not in output and output else None
    return (
        MeasuredRun(
            path=path,
            format=FORMAT,
            run=path.rsplit("/", 1)[-1],
            what="capacity",
            passed=bool(good) and not bad,
            completed=len(good),
            failed=len(bad),
            failures=tuple(sanitise(str(one.error or "cancelled")) for one in bad),
            warm_up=len(scored) < len(lines),
            wall_ms=wall,
            output_lengths=tuple(int(count) for count in output if count is not None),
            prompt_lengths=tuple(int(count) for count in prompt if count is not None),
            reported={
                "throughput_tok_s": total / (wall / 1000.0) if total is not None and wall else None,
                "time_to_first_output_p50_ms": nearest_rank([one for one in first if one is not None], 50),
                "ttft_p50_ms": nearest_rank(
                    [v for one in good if (v := one.value("time_to_first_output_token")) is not None], 50
                ),
                "e2e_p50_ms": nearest_rank([one for one in e2e if one is not None], 50),
                "generation_p50_ms": nearest_rank([span for _, span in spans], 50),
                "decode_tok_s_p50": nearest_rank(
                    [(count - 1) / (span / 1000.0) for count, span in spans if count > 1 and span > 0], 50
                ),
                "effective_prefill_tok_s_p50": nearest_rank(
                    [n / (t / 1000.0) for n, t in zip(prompt, first, strict=True) if n is not None and t], 50
                ),
            },
            definitions={"e2e_p50_ms": _LAST, "generation_p50_ms": _LAST, "decode_tok_s_p50": _LAST},
        ),
    )
