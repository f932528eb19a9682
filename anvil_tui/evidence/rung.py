"""What one rung of a ladder shows: its checks, each true, false or not to be told, and the sentence about it."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.records.artifact import Check
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.vram import ReserveVerdict

_VISIBLE = frozenset({"ok", "truncated"})
_COLD_SHARE = 0.01
"""A prefill over more cached tokens than this is not a cold one, and says nothing about the engine's prefill."""


def judge_rung(record: RequestRecord, target_tokens: int, reserve: ReserveVerdict | None) -> tuple[Check, ...]:
    """The checks of a rung. It passes when none of them is false."""
    return tuple(_checks(record, target_tokens, reserve))


def _checks(record: RequestRecord, target: int, reserve: ReserveVerdict | None) -> Iterator[Check]:
    error = f": {record.error.message}" if record.error else ""
    which = f" ({record.timeout})" if record.timeout else ""
    good = record.outcome in _VISIBLE
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
    yield Check(
        name="headroom",
        passed=None if not good else "max_tokens_clamped" not in record.warnings,
        words=f"max_tokens {record.max_tokens:,}, finish reason {record.finish_reason or 'none'}",
    )
    if reserve is not None:
        yield _reserve_check(reserve)


def _reserve_check(reserve: ReserveVerdict) -> Check:
    """Under `enforce` only a PASS passes; a reserve that is waived or off is told and does not decide."""
    passed = reserve.verdict.startswith("PASS") if reserve.policy == "enforce" else None
    policy = "" if reserve.policy == "enforce" else f" ({reserve.policy}: {reserve.policy_reason})"
    return Check(name="reserve", passed=passed, words=f"{reserve.verdict}{policy}: {reserve.reason}")


def rung_words(record: RequestRecord | None, checks: tuple[Check, ...], reserve: ReserveVerdict | None) -> str:
    """One line about a rung: what failed, or its figures."""
    failed = [f"{check.name}: {check.words}" for check in checks if check.passed is False]
    if record is None:
        return "no record"
    figures = [
        _figure(record.prompt_tokens, "{:,} tokens"),
        _figure(record.time_to_first_output_ms, "first output {:,.0f} ms"),
        _figure(record.ttft_ms, "TTFT {:,.0f} ms"),
        _figure(record.effective_prefill_tok_s, "prefill {:,.0f} tok/s"),
        _figure(record.decode_tok_s, "decode {:.1f} tok/s"),
    ]
    if reserve is not None:
        figures.append(f"reserve {reserve.verdict}{'' if reserve.policy == 'enforce' else f' ({reserve.policy})'}")
    return "; ".join([*failed, ", ".join(figure for figure in figures if figure)])


def _figure(value: float | int | None, form: str) -> str:
    return "" if value is None else form.format(value)
