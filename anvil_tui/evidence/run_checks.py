"""What one run shows: its checks, each true, false or not to be told, and the sentence about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anvil_tui.records.artifact import Check
from anvil_tui.records.gate import GateResult
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.run_metrics import RunMetrics
from anvil_tui.records.vram import ReserveVerdict

RESERVE = "reserve"
_ANSWERED = frozenset({"ok", "truncated"})
_COLD_SHARE = 0.01
"""A prefill over more cached tokens than this is not a cold one, and says nothing about the engine's prefill."""


def judge_rung(record: RequestRecord, target_tokens: int, reserve: ReserveVerdict | None) -> tuple[Check, ...]:
    """The checks of a rung; `measured` says whether it passes."""
    return (
        *_request_checks(record, target_tokens),
        Check(
            name="headroom",
            passed=None if record.outcome not in _ANSWERED else "max_tokens_clamped" not in record.warnings,
            words=f"max_tokens {record.max_tokens:,}, finish reason {record.finish_reason or 'none'}",
        ),
        *_needle_checks(record),
        *_reserve_checks(reserve),
    )


def judge_capacity(
    records: Sequence[RequestRecord], planned: int, context_tokens: int, *, cold: bool, reserve: ReserveVerdict | None
) -> tuple[Check, ...]:
    """The checks of a capacity run: every request answered, each of its exact length, cold where it was to be."""
    answered = [record for record in records if record.outcome in _ANSWERED]
    outcomes = sorted({record.outcome for record in records if record.outcome not in _ANSWERED})
    failed = f"; {', '.join(outcomes)}" if outcomes else ""
    counts = {record.prompt_tokens for record in answered}
    missed = sorted(count for count in counts if count is not None and count != context_tokens)
    cached = [record.cached_tokens for record in answered]
    known = [count for count in cached if count is not None]
    return (
        Check(name="requests", passed=len(answered) == planned, words=f"{len(answered)} of {planned} answered{failed}"),
        Check(
            name="exact",
            passed=None if not answered or None in counts else not missed,
            words=f"context {context_tokens:,}"
            + (f", the API counted {', '.join(map(str, missed))}" if missed else ""),
        ),
        Check(
            name="cold",
            passed=None
            if not cold or len(known) < len(cached)
            else max(known, default=0) <= _COLD_SHARE * context_tokens,
            words="not said by the engine" if not known else f"up to {max(known):,} prompt tokens cached",
        ),
        *_reserve_checks(reserve),
    )


def judge_gate(result: GateResult) -> tuple[Check, ...]:
    """The checks of a gate, and the evidence policy as one more."""
    checks = [Check(name=check.name, passed=check.passed, words=check.words) for check in result.checks]
    broken = "; ".join(result.policy_errors)
    return (*checks, Check(name="policy", passed=not broken, words=broken or f"reasoning {result.policy.reasoning}"))


def measured(checks: Sequence[Check]) -> bool:
    """Whether a run counts as measured: every check but that of the reserve, which is a verdict of its own."""
    return all(check.passed is not False for check in checks if check.name != RESERVE)


def reserve_held(checks: Sequence[Check]) -> bool:
    """Whether the reserve was kept where the policy asks for it."""
    return all(check.passed is not False for check in checks if check.name == RESERVE)


def failed_words(checks: Sequence[Check]) -> str:
    """The checks that failed, in one line; empty where none did."""
    return "; ".join(f"{check.name}: {check.words}" for check in checks if check.passed is False)


def rung_words(record: RequestRecord, checks: Sequence[Check], reserve: ReserveVerdict | None) -> str:
    """One line about a rung: what failed, and its figures."""
    figures = (
        _figure(record.prompt_tokens, "{:,} tokens"),
        _figure(record.time_to_first_output_ms, "first output {:,.0f} ms"),
        _figure(record.ttft_ms, "TTFT {:,.0f} ms"),
        _figure(record.effective_prefill_tok_s, "prefill {:,.0f} tok/s"),
        _figure(record.decode_tok_s, "decode {:.1f} tok/s"),
        _reserve_word(reserve),
    )
    return _joined(checks, figures)


def capacity_words(metrics: RunMetrics, checks: Sequence[Check], reserve: ReserveVerdict | None) -> str:
    """One line about a capacity run: what failed, and its medians."""
    figures = (
        f"{metrics.completed}/{metrics.requests} requests",
        _figure(metrics.ttft_p50_ms, "TTFT p50 {:,.0f} ms"),
        _figure(metrics.decode_tok_s_p50, "decode p50 {:.1f} tok/s"),
        _figure(metrics.throughput_tok_s, "throughput {:.1f} tok/s"),
        _reserve_word(reserve),
    )
    return _joined(checks, figures)


def gate_words(checks: Sequence[Check]) -> str:
    """One line about a gate."""
    passed = sum(check.passed is True for check in checks)
    return _joined(checks, (f"{passed} of {len(checks)} passed",))


def _request_checks(record: RequestRecord, target: int) -> Iterator[Check]:
    error = f": {record.error.message}" if record.error else ""
    which = f" ({record.timeout})" if record.timeout else ""
    good = record.outcome in _ANSWERED
    yield Check(name="request", passed=good, words=f"outcome {record.outcome}{which}{error}")
    counted = record.prompt_tokens
    yield Check(
        name="exact",
        passed=None if counted is None and not good else counted == target,
        words=f"target {target:,}, the API counted {'nothing' if counted is None else f'{counted:,}'}",
    )
    cached = record.cached_tokens
    yield Check(
        name="cold",
        passed=None if cached is None or counted is None else cached <= _COLD_SHARE * counted,
        words="the engine does not say what was cached" if cached is None else f"{cached:,} prompt tokens cached",
    )


def _needle_checks(record: RequestRecord) -> Iterator[Check]:
    """A hidden code that was found is told apart from capacity: it never decides whether a rung passes."""
    needle = record.needle
    if needle is not None:
        word = {True: "found", False: "missed: the visible answer does not hold the code", None: "not to be told"}[
            needle.found
        ]
        yield Check(name="needle", passed=needle.found or None, words=f"hidden at {needle.depth:.0%}: {word}")


def _reserve_checks(reserve: ReserveVerdict | None) -> Iterator[Check]:
    """Under `enforce` only a PASS passes; a reserve that is waived or off is told and does not decide."""
    if reserve is None:
        return
    passed = reserve.verdict.startswith("PASS") if reserve.policy == "enforce" else None
    policy = "" if reserve.policy == "enforce" else f" ({reserve.policy}: {reserve.policy_reason})"
    yield Check(name=RESERVE, passed=passed, words=f"{reserve.verdict}{policy}: {reserve.reason}")


def _reserve_word(reserve: ReserveVerdict | None) -> str:
    if reserve is None:
        return ""
    return f"reserve {reserve.verdict}{'' if reserve.policy == 'enforce' else f' ({reserve.policy})'}"


def _joined(checks: Sequence[Check], figures: Sequence[str]) -> str:
    """What failed but for the reserve, which stands among the figures; then the figures."""
    failed = failed_words([check for check in checks if check.name != RESERVE])
    return "; ".join(part for part in (failed, ", ".join(filter(None, figures))) if part)


def _figure(value: float | int | None, form: str) -> str:
    return "" if value is None else form.format(value)
