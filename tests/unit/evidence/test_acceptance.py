"""Acceptance conditions light up as facts become known, and stay dark where nothing tells."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.evidence.acceptance import condition_text, judge_conditions
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

CONDITIONS: tuple[Condition, ...] = (
    HealthyStart(),
    ReportedKvTokens(at_least=393_216),
    ActualPromptTokens(above=300_000),
    GatePassed(),
    PostProbeGate(),
    NoRouteChange(),
    NoPromotionChange(),
    MetricLimit(metric="decode_tok_s_p50", at_least=100),
    ReservePassed(),
)


def yes(*paths: str) -> Known[bool]:
    return Known(value=True, evidence=paths)


def no(*paths: str) -> Known[bool]:
    return Known(value=False, evidence=paths)


def tokens(value: int, *paths: str) -> Known[int]:
    return Known(value=value, evidence=paths)


def verdict(value: Verdict, *paths: str) -> Known[Verdict]:
    return Known(value=value, evidence=paths)


def judge(condition: Condition, *, finished: bool = False, **facts: object) -> ConditionState:
    arm = ArmFacts(**facts)  # type: ignore[arg-type]
    (state,) = judge_conditions((condition,), AcceptanceFacts(candidate=arm, finished=finished))
    return state


def test_nothing_is_known_at_first_and_nothing_is_guessed() -> None:
    states = judge_conditions(CONDITIONS, AcceptanceFacts())
    assert [one.state for one in states] == ["not yet known"] * len(CONDITIONS)
    assert all(one.words and not one.evidence for one in states)


def test_a_fact_that_never_came_is_not_met_only_where_it_had_to_be_reached() -> None:
    states = judge_conditions(CONDITIONS, AcceptanceFacts(finished=True))
    assert {one.what for one in states if one.state == "not met"} == {"actual_prompt_tokens"}
    assert all("never became known" in one.words for one in states if one.state == "not yet known")


@pytest.mark.parametrize(
    ("condition", "facts", "finished", "state", "words", "evidence"),
    [
        (HealthyStart(), {"starts": (yes("a"), yes("b"))}, False, "met", "2 loads came up", ("a", "b")),
        (HealthyStart(), {"starts": (yes("a"), no("b"))}, False, "not met", "1 of 2 loads did not come up", ("b",)),
        (GatePassed(), {"gates": (yes("g"),)}, False, "met", "1 gate passed", ("g",)),
        (GatePassed(), {"post_gates": (yes("g"),)}, False, "not yet known", "no gate yet", ()),
        (PostProbeGate(), {"post_gates": (no("g"),)}, False, "not met", "1 of 1 gate after the probes failed", ("g",)),
        (
            ReportedKvTokens(at_least=393_216),
            {"kv_tokens": (tokens(1_312_150, "s"),)},
            False,
            "met",
            "1,312,150 tokens reported",
            ("s",),
        ),
        (
            ReportedKvTokens(at_least=393_216),
            {"kv_tokens": (tokens(393_216, "s"), tokens(393_215, "t"))},
            False,
            "not met",
            "393,215 tokens reported",
            ("t",),
        ),
        (
            ActualPromptTokens(above=300_000),
            {"prompt_tokens": (tokens(300_000, "a"),)},
            False,
            "not yet known",
            "the longest that passed has 300,000 prompt tokens",
            ("a",),
        ),
        (
            ActualPromptTokens(above=300_000),
            {"prompt_tokens": (tokens(300_000, "a"),)},
            True,
            "not met",
            "the longest that passed has 300,000 prompt tokens",
            ("a",),
        ),
        (
            ActualPromptTokens(above=300_000),
            {"prompt_tokens": (tokens(300_001, "a"), tokens(4_096, "b"))},
            False,
            "met",
            "300,001 prompt tokens by the API's count",
            ("a",),
        ),
        (
            MetricLimit(metric="decode_tok_s_p50", at_least=100, at_most=200),
            {"metrics": {"decode_tok_s_p50": Known(value=130.7, evidence=("a", "b", "a"))}},
            False,
            "met",
            "130.7, median of the scored runs",
            ("a", "b"),
        ),
        (
            MetricLimit(metric="ttft_p50_ms", at_most=100),
            {"metrics": {"ttft_p50_ms": Known(value=100.5, evidence=("a",))}},
            False,
            "not met",
            "100.5, median of the scored runs",
            ("a",),
        ),
        (ReservePassed(), {"reserves": (verdict("PASS", "a"),)}, False, "met", "1 run PASS", ("a",)),
        (
            ReservePassed(),
            {"reserves": (verdict("PASS", "a"), verdict("PASS (spill not checked)", "b"))},
            False,
            "met",
            "2 runs PASS, PASS (spill not checked)",
            ("a", "b"),
        ),
        (
            ReservePassed(),
            {"reserves": (verdict("INCOMPLETE", "a"), verdict("FAIL", "b"))},
            False,
            "not met",
            "1 of 2 runs FAIL",
            ("b",),
        ),
        (
            ReservePassed(),
            {"reserves": (verdict("PASS", "a"), verdict("UNKNOWN", "b"))},
            True,
            "not yet known",
            "1 of 2 runs UNKNOWN",
            ("b",),
        ),
    ],
)
def test_each_kind(
    condition: Condition, facts: dict[str, object], finished: bool, state: str, words: str, evidence: tuple[str, ...]
) -> None:
    judged = judge(condition, finished=finished, **facts)
    assert (judged.state, judged.words, judged.evidence) == (state, words, evidence)


@pytest.mark.parametrize("condition", [NoRouteChange(), NoPromotionChange()])
@pytest.mark.parametrize(("changed", "state"), [(True, "not met"), (False, "met")])
def test_what_is_watched(condition: Condition, changed: bool, state: str) -> None:
    known = Known(value=changed, evidence=("journal.jsonl",))
    facts = AcceptanceFacts(
        route_changed=known if isinstance(condition, NoRouteChange) else None,
        promotion_changed=known if isinstance(condition, NoPromotionChange) else None,
    )
    (judged,) = judge_conditions((condition,), facts)
    assert (judged.state, judged.evidence) == (state, ("journal.jsonl",))


def test_each_arm_is_judged_by_its_own_facts() -> None:
    facts = AcceptanceFacts(baseline=ArmFacts(starts=(no("a"),)), candidate=ArmFacts(starts=(yes("b"),)))
    states = judge_conditions((HealthyStart(arm="baseline"), HealthyStart()), facts)
    assert [one.state for one in states] == ["not met", "met"]


def test_a_file_may_word_its_conditions() -> None:
    assert judge(HealthyStart(words="it starts")).text == "it starts"
    assert judge(HealthyStart()).text == condition_text(HealthyStart()) == "candidate: healthy start"
    assert len({condition_text(one) for one in CONDITIONS}) == len(CONDITIONS)


@settings(max_examples=60)
@given(st.lists(st.booleans(), max_size=6), st.lists(st.integers(0, 10**6), max_size=6), st.booleans())
def test_more_failures_never_turn_a_condition_to_met(starts: list[bool], prompts: list[int], finished: bool) -> None:
    known = tuple(Known(value=one, evidence=("p",)) for one in starts)
    failed = (*known, no("q"))
    assert judge(HealthyStart(), finished=finished, starts=failed).state == "not met"
    reached = tuple(tokens(one, "p") for one in prompts)
    before = judge(ActualPromptTokens(above=5_000), finished=finished, prompt_tokens=reached)
    after = judge(ActualPromptTokens(above=5_000), finished=finished, prompt_tokens=(*reached, tokens(1, "q")))
    assert before.state == after.state
