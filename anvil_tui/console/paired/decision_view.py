"""The decision text that an operator begins with, from the documents of a campaign."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_METRICS = {
    "ttft": "TTFT",
    "time_to_first_output": "first output",
    "e2e": "E2E",
    "effective_prefill_tokens_per_second": "prefill",
    "decode_tokens_per_second": "decode",
}
_PROMOTES_NOTHING = "This text promotes nothing."


def starting_text(comparison: Mapping[str, Any], acceptance: Mapping[str, Any]) -> str:
    """The decision of a comparison, else its figures in sentences, and how the acceptance conditions stand.

    Both are documents as decoded from JSON, empty where a campaign has none. Empty where nothing is told.
    """
    conditions = list(_conditions(acceptance))
    if comparison.get("decision"):
        return "\n".join([str(comparison["decision"]), *conditions])
    sentences = [*_change(comparison), *conditions]
    if not sentences:
        return ""
    rehearsal = comparison.get("rehearsal") or acceptance.get("rehearsal")
    return "\n".join([*(["REHEARSAL: never evidence."] if rehearsal else []), *sentences, _PROMOTES_NOTHING])


def _change(document: Mapping[str, Any]) -> Iterator[str]:
    changed = document.get("controlled_change") or {}
    if changed.get("field") is not None:
        yield f"Changed: {changed['field']} {changed['baseline']} → {changed['candidate']}."
    minus = (document.get("startup_measurements") or {}).get("candidate_minus_baseline") or {}
    tokens = minus.get("gpu_kv_cache_tokens_reported_percent")
    gib = minus.get("available_kv_cache_gib")
    if tokens is not None and gib is not None:
        yield f"Reported KV tokens {tokens:+.1f} %, KV memory {gib:+.2f} GiB."
    ladder = document.get("matched_context_ladder") or {}
    found = ladder.get("largest_request_candidate_minus_baseline_percent") or {}
    words = [f"{_METRICS.get(name, name)} {value:+.1f} %" for name, value in found.items() if value is not None]
    if words:
        yield f"Largest request: {', '.join(words)}."
    caveats = len(document.get("caveats") or ())
    if caveats:
        yield f"{caveats} {'caveat' if caveats == 1 else 'caveats'}."


def _conditions(acceptance: Mapping[str, Any]) -> Iterator[str]:
    found = acceptance.get("conditions") or ()
    if found:
        missed = [one["text"] for one in found if one["state"] != "met"]
        yield f"Acceptance: {len(found) - len(missed)} of {len(found)} conditions met" + (
            f"; not met or not known: {'; '.join(missed)}." if missed else "."
        )
