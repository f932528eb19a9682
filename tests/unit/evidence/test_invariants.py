"""What must be the same: observed, declared or violated; and what two profiles differ in."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from anvil_tui.evidence.arms.differences import lane_differences
from anvil_tui.evidence.arms.invariants import check_invariants
from anvil_tui.records.arm import Arm, LoadStart, NamedProfile
from anvil_tui.records.lane import (
    AttachLaunch,
    Endpoint,
    Identity,
    LaneProfile,
    ProcessLaunch,
    Recipe,
    RehearsalLaunch,
    SimulatedEngine,
)
from tests.unit.evidence.samples import arm, request, run, start, word


def profile(name: str = "a", **told: Any) -> LaneProfile:
    given: dict[str, Any] = {
        "identity": Identity(model="m", engine="vllm", image="i@sha256:0"),
        "recipe": Recipe(max_model_len=131_072, max_num_batched_tokens=8192),
        "launch": AttachLaunch(),
        "endpoint": Endpoint(base_url=f"http://127.0.0.1:300{len(name)}", served_name=name),
        **told,
    }
    return LaneProfile(**given)


def with_profile(one: Arm, told: LaneProfile) -> Arm:
    return replace(one, profiles=(NamedProfile(path=f"{one.name}.toml", lane=one.name, profile=told),))


def status(baseline: Arm, candidate: Arm) -> dict[str, str]:
    return {one.text: one.status for one in check_invariants(baseline, candidate)}


def test_observed_beats_declared() -> None:
    old, new = (with_profile(arm(name, run()), profile()) for name in ("a", "b"))
    found = status(old, new)
    assert found["same served context"] == "observed"
    assert found["same image digest"] == "declared"
    assert found["same prompts"] == "observed"


def test_a_declared_difference_is_the_change() -> None:
    old = with_profile(arm("a", run()), profile())
    new = with_profile(arm("b", run()), profile(recipe=Recipe(max_model_len=131_072, max_num_batched_tokens=4096)))
    assert "same max_num_batched_tokens" not in status(old, new)


@pytest.mark.parametrize("length", [8192, 131_071])
def test_an_observed_number_that_contradicts_its_profile_is_a_violation(length: int) -> None:
    old = with_profile(arm("a", run()), profile())
    new = with_profile(arm("b", run(max_model_len=length)), profile())
    (found,) = [one for one in check_invariants(old, new) if one.text == "same served context"]
    assert found.status == "violated"
    assert found.candidate == f"{length} in 1 of its files; declared 131072"
    assert found.evidence == ("runs/a-r1.json",)


def test_a_log_contradicts_its_profile() -> None:
    report = start(15.27, 283_917, 2.17, 1.73, facts={"max_num_batched_tokens": word("4096")})
    old = replace(with_profile(arm("a"), profile()), starts=(LoadStart(path="s.json", report=report),))
    new = with_profile(arm("b"), profile())
    assert status(old, new)["same max_num_batched_tokens"] == "violated"


def test_a_declared_difference_does_not_hide_a_contradiction() -> None:
    """Declared 4,096, but the log still says 8,192: the change was not made."""
    report = start(15.27, 283_917, 2.17, 1.73, facts={"max_num_batched_tokens": word("8192")})
    old = with_profile(arm("a"), profile())
    other = profile(recipe=Recipe(max_model_len=131_072, max_num_batched_tokens=4096))
    new = replace(with_profile(arm("b"), other), starts=(LoadStart(path="s.json", report=report),))
    assert status(old, new)["same max_num_batched_tokens"] == "violated"


def test_free_texts_do_not_contradict() -> None:
    """A profile's words for a build are not the log's."""
    told = profile(identity=Identity(model="m", engine="vllm", runtime="0.11.2.dev280+r33"))
    old, new = (with_profile(arm(name, run(engine_version="0.11.2")), told) for name in ("a", "b"))
    assert status(old, new)["same engine version"] == "observed"
    other = with_profile(arm("b", run(engine_version="0.11.3")), told)
    assert status(old, other)["same engine version"] == "violated"


def test_other_prompts_are_a_violation() -> None:
    assert status(arm("a", run()), arm("b", run(requests=(request(nonce="other"),))))["same prompts"] == "violated"
    assert "same prompts" not in status(arm("a", run()), arm("b", run(requests=(request(nonce=None),))))


def test_operational_differences_are_told_apart() -> None:
    found = lane_differences(profile("a"), profile("bb", recipe=Recipe(max_model_len=131_072)))
    assert [one.field for one in found.functional] == ["recipe.max_num_batched_tokens"]
    assert (found.functional[0].baseline, found.functional[0].candidate) == (8192, None)
    assert found.operational == ("port", "served model name")


def test_env_and_arguments_are_functional() -> None:
    old = profile(launch=ProcessLaunch(argv=("vllm", "serve"), env={"MODE": "dspark"}))
    new = profile(launch=ProcessLaunch(argv=("vllm", "serve", "--x"), env={"MODE": "dspark-mtp0"}))
    assert [one.field for one in lane_differences(old, new).functional] == ["launch.argv", "launch.env.MODE"]


def test_what_a_rehearsal_pretends_is_no_setting() -> None:
    old, new = (profile(launch=RehearsalLaunch(engine=SimulatedEngine(kv_gib=gib))) for gib in (15.27, 15.99))
    assert lane_differences(old, new).functional == ()
