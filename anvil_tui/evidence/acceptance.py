"""Whether a result meets the conditions that were set for it, told as facts become known. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from anvil_tui.records.acceptance import (
    AcceptanceFacts,
    ActualPromptTokens,
    ArmFacts,
    Condition,
    ConditionState,
    GatePassed,
    HealthyStart,
    Known,
    MetricLimit,
    NoPromotionChange,
    NoRouteChange,
    PostProbeGate,
    ReportedKvTokens,
    ReservePassed,
)
from anvil_tui.records.vram import Verdict


@dataclass(frozen=True)
class _Judged:
    """`met` is None while the facts do not tell."""

    met: bool | None
    words: str
    evidence: tuple[str, ...] = ()


def judge_conditions(conditions: Iterable[Condition], facts: AcceptanceFacts) -> tuple[ConditionState, ...]:
    """How each condition stands by what is known so far, in their order.

    What must hold on every load or run is met by all that came so far and not met from the first that fails. What must
    be reached once is not met only when nothing more comes. A fact that never became known meets and fails nothing.
    """
    return tuple(_state(one, facts) for one in conditions)


def _state(condition: Condition, facts: AcceptanceFacts) -> ConditionState:
    judged = _judge(condition, facts)
    state: Literal["met", "not met", "not yet known"]
    state = "not yet known" if judged.met is None else "met" if judged.met else "not met"
    return ConditionState(
        what=str(condition.__struct_config__.tag),
        text=condition.words or condition_text(condition),
        state=state,
        words=judged.words,
        evidence=tuple(dict.fromkeys(judged.evidence)),
    )


def condition_text(condition: Condition) -> str:
    """A condition as a sentence, where its file gives it none."""
    match condition:
        case HealthyStart():
            return f"{condition.arm}: healthy start"
        case ReportedKvTokens():
            return f"{condition.arm}: a reported KV pool of at least {condition.at_least:,} tokens"
        case ActualPromptTokens():
            return f"{condition.arm}: an actual prompt above {condition.above:,} tokens"
        case GatePassed():
            return f"{condition.arm}: the functional gate passes"
        case PostProbeGate():
            return f"{condition.arm}: the functional gate passes after the last probe"
        case NoRouteChange():
            return "no route change"
        case NoPromotionChange():
            return "no promotion change"
        case MetricLimit():
            return f"{condition.arm}: {condition.metric} {_limits(condition)}"
        case ReservePassed():
            return f"{condition.arm}: the memory reserve holds on every GPU"


def _judge(condition: Condition, facts: AcceptanceFacts) -> _Judged:
    match condition:
        case NoRouteChange():
            return _unchanged(facts.route_changed, "the route", facts.finished)
        case NoPromotionChange():
            return _unchanged(facts.promotion_changed, "the promotion", facts.finished)
    arm: ArmFacts = facts.baseline if condition.arm == "baseline" else facts.candidate
    match condition:
        case HealthyStart():
            return _each(arm.starts, "load", "came up", "did not come up", facts.finished)
        case GatePassed():
            return _each(arm.gates, "gate", "passed", "failed", facts.finished)
        case PostProbeGate():
            return _each(arm.post_gates, "gate after the probes", "passed", "failed", facts.finished)
        case ReportedKvTokens():
            return _least_tokens(arm.kv_tokens, condition.at_least, facts.finished)
        case ActualPromptTokens():
            return _longest_prompt(arm.prompt_tokens, condition.above, facts.finished)
        case MetricLimit():
            return _within(arm.metrics.get(condition.metric), condition, facts.finished)
        case ReservePassed():
            return _reserve(arm.reserves, facts.finished)


def _each(known: tuple[Known[bool], ...], noun: str, good: str, bad: str, finished: bool) -> _Judged:
    failed = [one for one in known if not one.value]
    if failed:
        return _Judged(False, f"{len(failed)} of {_count(len(known), noun)} {bad}", _evidence(failed))
    if known:
        return _Judged(True, f"{_count(len(known), noun)} {good}", _evidence(known))
    return _unknown(f"no {noun}", finished)


def _least_tokens(known: tuple[Known[int], ...], at_least: int, finished: bool) -> _Judged:
    if not known:
        return _unknown("no start-up log that reports KV tokens", finished)
    least = min(known, key=lambda one: one.value)
    met = least.value >= at_least
    return _Judged(met, f"{least.value:,} tokens reported", _evidence(known if met else [least]))


def _longest_prompt(known: tuple[Known[int], ...], above: int, finished: bool) -> _Judged:
    longest = max(known, key=lambda one: one.value, default=None)
    if longest is not None and longest.value > above:
        return _Judged(True, f"{longest.value:,} prompt tokens by the API's count", longest.evidence)
    so_far = "no run passed" if longest is None else f"the longest that passed has {longest.value:,} prompt tokens"
    return _Judged(False if finished else None, so_far, longest.evidence if longest is not None else ())


def _within(known: Known[float] | None, condition: MetricLimit, finished: bool) -> _Judged:
    if known is None:
        return _unknown(f"no scored run that tells {condition.metric}", finished)
    above = condition.at_least is None or known.value >= condition.at_least
    below = condition.at_most is None or known.value <= condition.at_most
    return _Judged(above and below, f"{known.value:,.6g}, median of the scored runs", known.evidence)


def _reserve(known: tuple[Known[Verdict], ...], finished: bool) -> _Judged:
    """FAIL settles it at once; a run whose samples do not suffice leaves it open."""
    failed = [one for one in known if one.value == "FAIL"]
    if failed:
        return _Judged(False, f"{len(failed)} of {_count(len(known), 'run')} FAIL", _evidence(failed))
    unclear = [one for one in known if one.value in ("INCOMPLETE", "UNKNOWN")]
    if unclear:
        words = ", ".join(sorted({one.value for one in unclear}))
        return _Judged(None, f"{len(unclear)} of {_count(len(known), 'run')} {words}", _evidence(unclear))
    if known:
        words = ", ".join(sorted({one.value for one in known}))
        return _Judged(True, f"{_count(len(known), 'run')} {words}", _evidence(known))
    return _unknown("no run with GPU samples", finished)


def _unchanged(changed: Known[bool] | None, noun: str, finished: bool) -> _Judged:
    if changed is None:
        return _unknown(f"{noun} was not read before and after", finished)
    return _Judged(not changed.value, f"{noun} {'changed' if changed.value else 'is unchanged'}", changed.evidence)


def _unknown(what: str, finished: bool) -> _Judged:
    return _Judged(None, f"{what}: it never became known" if finished else f"{what} yet")


def _limits(condition: MetricLimit) -> str:
    least = [] if condition.at_least is None else [f"at least {condition.at_least:g}"]
    most = [] if condition.at_most is None else [f"at most {condition.at_most:g}"]
    return " and ".join(least + most)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _evidence(known: Iterable[Known[Any]]) -> tuple[str, ...]:
    return tuple(path for one in known for path in one.evidence)
