"""Each caveat rule: what makes it speak, and that it is silent otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from anvil_tui.evidence.caveats import answers, failures, identity, memory, order, prompts, starts
from anvil_tui.evidence.caveats.rules import ABOUT_ARMS, ABOUT_RUNS, Rule, find_caveats
from anvil_tui.records.arm import Arm, GpuMemory, LoadStart, MemoryWindow, NamedProfile
from anvil_tui.records.lane import AttachLaunch, Endpoint, Identity, LaneProfile, Recipe
from anvil_tui.records.vram import ReserveVerdict
from tests.unit.evidence.samples import arm, figure, request, run, start

LATER = {"started_at": "2026-08-01T00:21:00Z", "finished_at": "2026-08-01T00:22:00Z"}
OLD = arm("control", run("control-r1"))
NEW = arm("fast", run("fast-r1", load_id="l2"))


def runs(count: int, name: str = "a", **told: Any) -> Arm:
    return arm(name, *(run(f"{name}-r{n}", load_id=f"l{n}", **told) for n in range(1, count + 1)))


def window(path: str, phase: str, in_request: bool = False) -> MemoryWindow:
    return MemoryWindow(path=path, phase=phase, in_request=in_request, gpus=(GpuMemory(gpu="a", free_mib=1.0),))


def profile(**told: Any) -> NamedProfile:
    recipe = told.pop("recipe", Recipe())
    return NamedProfile(
        path="lane.toml",
        lane="lane",
        profile=LaneProfile(
            identity=Identity(model="m", engine="vllm", **told),
            recipe=recipe,
            launch=AttachLaunch(),
            endpoint=Endpoint(base_url="http://127.0.0.1:1", served_name="s"),
        ),
    )


def reserve(verdict: str) -> ReserveVerdict:
    return ReserveVerdict(
        verdict=verdict,
        reason="",
        policy="enforce",
        policy_reason=None,
        reserve_mib=3072,
        window_from_us=0,
        window_to_us=1,
        samples=1,
        hz=20,
        max_gap_ms=50,
        coverage_pct=100,
        spill="none",
        spill_witness=None,
        gpus=(),
    )


def one(rule: Rule, baseline: Arm, candidate: Arm) -> str:
    """The text of the one caveat that a rule has to tell."""
    found = list(rule(baseline, candidate))
    assert len(found) == 1, found
    assert found[0].rule == rule.__name__
    assert found[0].evidence
    return found[0].text


def silent(rule: Rule, baseline: Arm = OLD, candidate: Arm = NEW) -> bool:
    return not list(rule(baseline, candidate))


def test_rehearsal() -> None:
    assert "REHEARSAL: fast" in one(identity.rehearsal, OLD, arm("fast", run(rehearsal=True)))
    assert silent(identity.rehearsal)


def test_served_context() -> None:
    short = arm("fast", run(max_model_len=8192), run("fast-r2"))
    text = one(identity.served_context, OLD, short)
    assert text == "fast: 1 of 2 runs say served context 8192, against 131072 claimed."
    claimed = arm("fast", run(max_model_len=8192), profiles=(profile(recipe=Recipe(max_model_len=131072)),))
    assert "8192, against 131072" in one(identity.served_context, arm("control"), claimed)
    declared = replace(short, runs=short.runs[:1], profiles=(profile(recipe=Recipe(max_model_len=8192)),))
    both = replace(OLD, profiles=(profile(recipe=Recipe(max_model_len=131072)),))
    assert silent(identity.served_context, both, declared)
    assert silent(identity.served_context)


def test_identity_missing() -> None:
    text = one(identity.identity_missing, replace(OLD, hashes={"a.json": "0"}), NEW)
    assert text == "The inputs do not tell model revision, image digest, engine version of both arms."
    known = (profile(model_revision="9e16", image="i@sha256:0", runtime="r33"),)
    assert silent(identity.identity_missing, replace(OLD, profiles=known), replace(NEW, profiles=known))
    other = (profile(model_revision="ffff", image="i@sha256:0", runtime="r33"),)
    assert silent(identity.identity_missing, replace(OLD, profiles=known), replace(NEW, profiles=other))


def test_identity_unequal() -> None:
    text = one(identity.identity_unequal, arm("control", run(hardware="A")), arm("fast", run(hardware="B")))
    assert text == (
        "Not the hardware in both arms as far as the files tell: control A in 1 of its files; fast B in 1 of its files."
    )
    assert silent(identity.identity_unequal)


def test_unlike_definitions() -> None:
    labelled = arm("fast", run(definitions={"e2e_p50_ms": "to the last token"}))
    text = one(identity.unlike_definitions, OLD, labelled)
    assert "e2e_p50_ms does not mean the same in both arms and is not compared: to the last token" in text
    assert "e2e_p50_ms means: to the last token" in one(identity.unlike_definitions, labelled, labelled)
    assert silent(identity.unlike_definitions)


def test_memory_phases() -> None:
    old = replace(OLD, memory=(window("a", "idle after capacity"),))
    new = replace(NEW, memory=(window("b", "in request", in_request=True),))
    assert "control idle after capacity, fast in request" in one(memory.memory_phases, old, new)
    assert "control never, fast in request" in one(memory.memory_phases, OLD, new)
    assert silent(memory.memory_phases, old, replace(NEW, memory=(window("c", "idle after capacity"),)))


def test_memory_not_captured() -> None:
    sampled = replace(OLD, memory=(window("a", "in request", in_request=True),))
    assert one(memory.memory_not_captured, sampled, NEW).startswith("fast: VRAM was not sampled")
    assert silent(memory.memory_not_captured, sampled, sampled)


def test_reserve_not_passed() -> None:
    text = one(
        memory.reserve_not_passed, arm("control", run(reserve=reserve("PASS"))), arm("f", run(reserve=reserve("FAIL")))
    )
    assert text == "f: the VRAM reserve of 1 runs is FAIL."
    assert silent(memory.reserve_not_passed)


def test_unlike_cache_state() -> None:
    def started(name: str, seconds: float) -> Arm:
        report = start(15.27, 1, 1.0, 1.0, compile_seconds=figure(seconds))
        return replace(arm(name), starts=(LoadStart(path=name, report=report),))

    assert "compilation took 64.1 s for a and 7.2 s for b" in one(
        starts.unlike_cache_state, started("a", 64.1), started("b", 7.2)
    )
    assert silent(starts.unlike_cache_state, started("a", 64.1), started("b", 60.0))
    slow = start(1, 1, 1.0, 1.0, model_load_seconds={"TP0": figure(10), "TP1": figure(110)})
    quick = start(1, 1, 1.0, 1.0, model_load_seconds={"TP0": figure(20)})
    arms = [replace(arm(n), starts=(LoadStart(path=n, report=r),)) for n, r in (("a", slow), ("b", quick))]
    assert "weight loading took 110.0 s" in one(starts.unlike_cache_state, *arms)


def test_kv_tokens_unlike() -> None:
    def started(name: str, gib: float, tokens: int, concurrency: float) -> Arm:
        return replace(arm(name), starts=(LoadStart(path=name, report=start(gib, tokens, concurrency, 1.0)),))

    old, new = started("a", 15.27, 283_917, 2.17), started("b", 15.99, 553_243, 4.22)
    assert "+94.861 % of reported tokens for +4.715 %" in one(starts.kv_tokens_unlike, old, new)
    assert silent(starts.kv_tokens_unlike, old, old)
    assert silent(starts.kv_tokens_unlike, old, NEW)


def test_too_few_blocks() -> None:
    text = one(order.too_few_blocks, runs(3), runs(5, "b"))
    assert text == (
        "n is too small: 3 and 5 runs on 3 and 5 loads; the smallest two-sided p that 3 blocks can give is 0.25."
    )
    assert "loads are not named and count as one" in one(order.too_few_blocks, arm("a", run(load_id=None)), NEW)
    assert silent(order.too_few_blocks, runs(6), runs(6, "b"))
    assert "1 and 0 runs on 1 and 0 loads; an arm without a scored run compares with nothing." in one(
        order.too_few_blocks, runs(1), arm("b")
    )


def test_no_warm_up() -> None:
    rows = tuple(request(n, time_to_first_output_ms=first) for n, first in enumerate((828.2, 330.6, 306.0)))
    text = one(order.no_warm_up, OLD, arm("fast", run("x", rows, warm_up=False)))
    assert text == (
        "fast: no warm-up ran before x; its first request took 828 ms to the first output, the others 318 ms."
    )
    assert "no warm-up is recorded" in one(order.no_warm_up, OLD, arm("fast", run(warm_up=None)))
    assert silent(order.no_warm_up)


def test_not_interleaved_and_far_apart() -> None:
    late = arm("fast", run("fast-r1", **LATER))
    assert "every run of control ended before fast began, 20.0 minutes later" in one(order.not_interleaved, OLD, late)
    assert "every run of control ended before fast" in one(order.not_interleaved, late, OLD)
    assert one(order.far_apart, OLD, late) == "The arms lie 20 minutes apart."
    both = arm("fast", run("fast-r1"), run("fast-r2", **LATER))
    assert silent(order.not_interleaved, arm("control", run(**LATER)), both)
    assert silent(order.far_apart, OLD, both)
    assert silent(order.not_interleaved, OLD, arm("fast", run(started_at=None, finished_at=None)))


def test_warm_prefixes() -> None:
    warm = tuple(request(n, cached_tokens=0 if n == 0 else 951) for n in range(3))
    assert "cached share of the prompt 0.634 by run" in one(prompts.warm_prefixes, OLD, arm("fast", run("x", warm)))
    stated = arm("fast", run("x", (request(cached_tokens=None),), reported={"prefix_cache_hit_avg": 0.951}))
    assert "0.951" in one(prompts.warm_prefixes, OLD, stated)
    assert silent(prompts.warm_prefixes)


def test_cache_not_told() -> None:
    assert "1 runs tell no cached tokens" in one(
        prompts.cache_not_told, OLD, arm("fast", run("x", (request(cached_tokens=None),)))
    )
    assert silent(prompts.cache_not_told)


def test_labels_exceed_tokens() -> None:
    assert "4,096 labelled, 1,000 counted" in one(
        prompts.labels_exceed_tokens, OLD, arm("fast", run(label_tokens=4096))
    )
    assert silent(prompts.labels_exceed_tokens, OLD, arm("fast", run(label_tokens=1005)))


def test_unequal_prompt_lengths() -> None:
    longer = arm("fast", run("x", (request(prompt_tokens=1100),)))
    assert "control 1,000 to 1,000 tokens, fast 1,100 to 1,100" in one(prompts.unequal_prompt_lengths, OLD, longer)
    assert silent(prompts.unequal_prompt_lengths)


def test_unequal_output_lengths() -> None:
    longer = arm("fast", run("x", tuple(request(n, output_tokens=151) for n in range(3))))
    text = one(answers.unequal_output_lengths, OLD, longer)
    assert "control: 303 output tokens a run, median 101 a request" in text
    assert "fast: 453 output tokens a run, median 151 a request" in text
    assert silent(answers.unequal_output_lengths, OLD, arm("fast", run("x", (request(output_tokens=104),))))
    assert silent(answers.unequal_output_lengths, OLD, arm("fast", run("x", (request(output_tokens=None),))))


@pytest.mark.parametrize("told", [{"smooth": False}, {"e2e_ms": 240.0}])
def test_rate_from_a_burst(told: dict[str, Any]) -> None:
    assert "fast: 1 answers came in a burst" in one(
        answers.rate_from_a_burst, OLD, arm("fast", run("x", (request(**told), request(1))))
    )
    assert silent(answers.rate_from_a_burst)


def test_cut_answers() -> None:
    assert "1 runs hold answers that were cut" in one(
        answers.cut_answers, OLD, arm("fast", run("x", (request(outcome="truncated"),)))
    )
    assert silent(answers.cut_answers)


def test_failures_excluded() -> None:
    failed = arm("fast", run(), run("x", (request(outcome="timeout"),)))
    assert "fast: 1 of 2 runs failed or were interrupted" in one(failures.failures_excluded, OLD, failed)
    assert "1 of 1" in one(failures.failures_excluded, OLD, arm("fast", run(interrupted=True)))
    assert silent(failures.failures_excluded)


def test_metrics_disagree() -> None:
    wrong = arm("fast", run("x", reported={"e2e_p50_ms": 1100.0, "ttft_p50_ms": 500.0}))
    assert (
        one(failures.metrics_disagree, OLD, wrong) == "fast: x states e2e_p50_ms otherwise than its request rows give."
    )
    assert silent(failures.metrics_disagree, OLD, arm("fast", run(reported={"e2e_p50_ms": 1200.0})))


def test_metrics_not_recomputed() -> None:
    stated = arm("fast", run("x", (), completed=3, passed=True, reported={"e2e_p50_ms": 1.0}))
    assert "1 runs hold no request rows" in one(failures.metrics_not_recomputed, OLD, stated)
    assert silent(failures.metrics_not_recomputed)


def test_host_pauses() -> None:
    paused = arm("fast", run("x", (request(host_pauses=("3.1 s",)),)))
    assert "the host paused during 1 runs" in one(failures.host_pauses, OLD, paused)
    assert silent(failures.host_pauses)


def test_loads_that_failed() -> None:
    died = arm(
        "b", load_failures=("lane-b: lane-b died: signal 9",), hashes={"journal.jsonl": "0", "runs/b-r1.json": "1"}
    )
    (told,) = failures.loads_failed(OLD, died)
    assert told.text == "b: not every load was done: lane-b died: signal 9." and told.evidence == ("journal.jsonl",)
    assert silent(failures.loads_failed)


def test_every_rule_is_in_the_list_and_takes_empty_arms() -> None:
    """A rule that has nothing to look at is silent; each rule of these files is told of in order."""
    rules = (*ABOUT_ARMS, *ABOUT_RUNS)
    names = {rule.__name__ for rule in rules}
    for module in (answers, failures, identity, memory, order, prompts, starts):
        own = {
            name
            for name, member in vars(module).items()
            if callable(member)
            and getattr(member, "__module__", "") == module.__name__
            and str(getattr(member, "__annotations__", {}).get("return", "")).startswith("Iterator[Caveat]")
        }
        assert own <= names, module.__name__
    for rule in rules:
        assert [one.rule for one in rule(arm("a"), arm("b"))] in ([], ["identity_missing"], ["too_few_blocks"])


def test_rules_about_runs_see_the_compared_runs_only() -> None:
    ladder = run("fast-rung", label_tokens=32_768, requests=(request(output_tokens=900),))
    found = find_caveats(OLD, arm("fast", run("fast-r1", load_id="l2"), ladder))
    assert "unequal_output_lengths" not in {one.rule for one in found}
