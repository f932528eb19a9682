"""Results of `vllm bench serve --save-result`, with or without `--save-detailed`.

Its TTFT ends at the first chunk with choices, so a role-only chunk counts, and its latency at the last chunk with a
token: neither is ours, and each figure that rests on one is labelled. It does not tell visible content apart.
Throughput and token counts mean the same.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from anvil_tui.evidence.statistics import nearest_rank
from anvil_tui.records.arm import MeasuredRun
from anvil_tui.records.validation import convert
from anvil_tui.text import sanitise

FORMAT = "vllm bench serve"
_FIRST = "first chunk with choices, a role-only chunk included"
_LAST = "to the last chunk with a token, the end of the stream left out"
_MEDIAN = "interpolated median, not nearest rank"


def recognises(data: Any) -> bool:
    """Whether `data` has the keys that every version writes."""
    return isinstance(data, dict) and {"duration", "completed", "output_throughput", "total_output_tokens"} <= set(data)


class _Result(Struct, frozen=True, kw_only=True):
    duration: float
    completed: int
    total_output_tokens: int
    output_throughput: float
    num_prompts: int | None = None
    failed: int | None = None
    model_id: str | None = None
    date: str | None = None
    max_concurrency: int | None = None
    median_ttft_ms: float | None = None
    median_tpot_ms: float | None = None
    median_e2el_ms: float | None = None
    input_lens: tuple[int, ...] = ()
    output_lens: tuple[int, ...] = ()
    ttfts: tuple[float, ...] = ()
    itls: tuple[tuple[float, ...], ...] = ()
    errors: tuple[str | None, ...] = ()


def read(data: dict[str, Any], path: str) -> tuple[MeasuredRun, ...]:
    """Turn a result into one run; `path` is its name among the inputs. Raises BadInput with every fault."""
    file = convert(_Result, data, path)
    failed = file.failed if file.failed is not None else (file.num_prompts or file.completed) - file.completed
    rows = [
        (tokens, prompt, first * 1000.0, (first + sum(gaps)) * 1000.0)
        for tokens, prompt, first, gaps, error in zip(
            file.output_lens, file.input_lens, file.ttfts, file.itls, file.errors, strict=False
        )
        if not error and tokens > 0
    ]
    reported: dict[str, float | None] = {"throughput_tok_s": file.output_throughput}
    definitions = {"time_to_first_output_p50_ms": _FIRST, "e2e_p50_ms": _LAST}
    if rows:
        rates = [(n - 1) / ((last - first) / 1000.0) for n, _, first, last in rows if n > 1 and last > first]
        reported |= {
            "time_to_first_output_p50_ms": nearest_rank([first for _, _, first, _ in rows], 50),
            "e2e_p50_ms": nearest_rank([last for _, _, _, last in rows], 50),
            "generation_p50_ms": nearest_rank([last - first for _, _, first, last in rows], 50),
            "decode_tok_s_p50": nearest_rank(rates, 50),
            "effective_prefill_tok_s_p50": nearest_rank([n / (first / 1000) for _, n, first, _ in rows if first], 50),
        }
        definitions |= {
            "generation_p50_ms": f"from the {_FIRST}, {_LAST}",
            "decode_tok_s_p50": f"from the {_FIRST}, {_LAST}",
            "effective_prefill_tok_s_p50": f"to the {_FIRST}",
        }
    else:
        reported |= {
            "time_to_first_output_p50_ms": file.median_ttft_ms,
            "e2e_p50_ms": file.median_e2el_ms,
            "decode_tok_s_p50": 1000.0 / file.median_tpot_ms if file.median_tpot_ms else None,
        }
        definitions = {name: f"{words}; {_MEDIAN}" for name, words in definitions.items()}
        definitions["decode_tok_s_p50"] = f"1 / median time per output token, from the {_FIRST}; {_MEDIAN}"
    return (
        MeasuredRun(
            path=path,
            format=FORMAT,
            run=path.rsplit("/", 1)[-1].removesuffix(".json"),
            what="capacity",
            passed=failed == 0 and file.completed > 0,
            completed=file.completed,
            failed=failed,
            failures=tuple(sanitise(error) for error in file.errors if error),
            served_name=file.model_id,
            started_at=file.date,
            concurrency=file.max_concurrency,
            wall_ms=file.duration * 1000.0,
            output_lengths=tuple(tokens for tokens, *_ in rows),
            prompt_lengths=tuple(prompt for _, prompt, *_ in rows),
            reported=reported,
            definitions=definitions,
        ),
    )
