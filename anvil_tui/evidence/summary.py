"""A document in lines that an operator reads; `--json` prints the document itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anvil_tui.evidence.documents import change, paired
from anvil_tui.text import sanitise


def summary_lines(document: dict[str, Any]) -> list[str]:
    """The lines of a comparison, a controlled change or a KV explanation, safe to show."""
    lines = {paired.SCHEMA: _paired, change.SCHEMA: _change}.get(document["schema"], _kv)
    return [sanitise(line) for line in lines(document)]


def _paired(document: dict[str, Any]) -> Iterator[str]:
    for metric, part in document["metrics"].items():
        (delta,) = [value for name, value in part.items() if name.endswith("delta_percent")]
        medians = [f"{name.removesuffix('_median')} {_figure(part[name])}" for name in part if name.endswith("_median")]
        change_words = "unknown" if delta is None else f"{delta:+.1f} %"
        yield f"{metric}: {', '.join(medians)}: {change_words}, {part['effect']['verdict']}"
    equal = document["latency_at_equal_output_length"]
    if equal is not None:
        (delta,) = [value for name, value in equal.items() if name.endswith("delta_percent")]
        if delta is not None:
            yield f"E2E at {equal['output_tokens']} output tokens: {delta:+.1f} %"
    yield from _violations(document)
    yield from _caveats(document)
    yield from _claims(document["claims"])
    yield f"decision: {document['decision']}"


def _change(document: dict[str, Any]) -> Iterator[str]:
    changed = document["controlled_change"]
    if changed["field"] is not None:
        yield f"changed: {changed['field']} {changed['baseline']} → {changed['candidate']}"
    for name, value in (document["startup_measurements"]["candidate_minus_baseline"] or {}).items():
        yield f"{name}: {_figure(value)}"
    ladder = document["matched_context_ladder"] or {}
    for name, value in (ladder.get("largest_request_candidate_minus_baseline_percent") or {}).items():
        yield f"largest request, {name}: {_figure(value)} %"
    yield from _violations(document)
    yield from _caveats(document)
    yield from _claims(document["interpretation"])
    for condition in (document["interpretation"]["next_test"] or {}).get("acceptance", ()):
        yield f"next test: {condition['words']}"


def _kv(document: dict[str, Any]) -> Iterator[str]:
    for one in document["reports"]:
        yield f"{one['report']['path']}: {one['words']}"
        for check in one["checks"]:
            yield f"  {'holds' if check['holds'] else 'BROKEN'}: {check['rule']}: {check['words']}"
    for one in document["changes"]:
        yield f"{one['baseline']} → {one['candidate']}: {one['words']}"


def _violations(document: dict[str, Any]) -> Iterator[str]:
    for one in document["invariants"]:
        if one["status"] == "violated":
            yield f"violated: {one['text']}"


def _caveats(document: dict[str, Any]) -> Iterator[str]:
    for one in document["caveats"]:
        yield f"caveat ({one['rule']}): {one['text']}"


def _claims(part: dict[str, Any]) -> Iterator[str]:
    for one in part["proven"]:
        yield f"proven: {one['text']}"
    for one in part["not_proven"]:
        yield f"not proven: {one['text']} Missing: {one['missing']}."


def _figure(value: float | None) -> str:
    return "unknown" if value is None else f"{value:,.6g}"
