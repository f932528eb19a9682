"""Charts: what records hold is drawn in the right place, and what they do not hold is not drawn at all."""

from __future__ import annotations

from typing import Any

import pytest

from anvil_tui.evidence.report.charts.effects import effects_chart
from anvil_tui.evidence.report.charts.ladder import PANELS, ladder_chart
from anvil_tui.evidence.report.charts.memory import memory_chart
from anvil_tui.evidence.report.charts.phases import phases_chart
from anvil_tui.evidence.report.charts.requests import BARS, requests_chart
from anvil_tui.evidence.report.story import LoadStory
from anvil_tui.evidence.report.trace import Trace, traces
from anvil_tui.records import events
from anvil_tui.records.comparison import Effect
from anvil_tui.records.gate import EvidencePolicy, GateBudget, GateObservation, GateResult
from tests.unit.evidence.report.folders import BOOT, INVENTORY, SECOND, plain, sample, values
from tests.unit.evidence.samples import artifact, request


def rung(name: str, tokens: int, **told: Any) -> Any:
    return artifact(name, (request(prompt_tokens=tokens, **told),), target_tokens=tokens)


def panel(spec: dict[str, Any], field: str) -> dict[str, Any]:
    return next(one for one in spec["hconcat"] if one["layer"][0]["encoding"]["y"]["field"] == field)


def rows(spec: dict[str, Any], field: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = panel(spec, field)["layer"][0]["data"]["values"]
    return found


def test_the_ladder_stands_over_the_tokens_that_the_api_counted() -> None:
    run = artifact("a-r1", (request(prompt_tokens=1998),), target_tokens=2000)
    spec = ladder_chart([run], ["a"], rehearsal=False)
    assert spec is not None and plain(spec)["$schema"].endswith("v5.json")
    assert [one["layer"][0]["encoding"]["y"]["field"] for one in spec["hconcat"]] == [field for field, _, _ in PANELS]
    assert {row["tokens"] for row in values(spec)} == {1998}
    assert rows(spec, "ttft_s")[0]["ttft_s"] == 0.5
    assert rows(spec, "prefill_tok_s")[0]["prefill_tok_s"] == pytest.approx(1998 / 0.2)
    assert rows(spec, "decode_tok_s")[0]["decode_tok_s"] == pytest.approx(100.0)
    assert all(layer["encoding"]["x"]["field"] == "tokens" for one in spec["hconcat"] for layer in one["layer"])
    assert "title" not in spec


def test_both_arms_have_a_colour_and_a_legend_and_one_lane_has_none() -> None:
    runs = [rung("b-r1", 1000), rung("a-r2", 1000), rung("a-r3", 2000)]
    spec = ladder_chart(runs, ["a", "b"], rehearsal=True)
    assert spec is not None
    color = panel(spec, "ttft_s")["layer"][0]["encoding"]["color"]
    assert color["scale"]["domain"] == ["a", "b"] and len(set(color["scale"]["range"])) == 2
    assert color["legend"] is not None
    assert sorted((row["lane"], row["tokens"]) for row in rows(spec, "ttft_s")) == [
        ("a", 1000),
        ("a", 2000),
        ("b", 1000),
    ]
    assert "REHEARSAL" in spec["title"]["text"]
    alone = ladder_chart(runs[1:], ["a", "b"], rehearsal=False)
    assert alone is not None
    assert panel(alone, "ttft_s")["layer"][0]["encoding"]["color"]["legend"] is None


def test_an_unknown_figure_has_no_point_in_its_panel_and_is_not_zero() -> None:
    spec = ladder_chart([rung("a-r1", 1000, ttft_ms=None), rung("a-r2", 2000)], ["a"], rehearsal=False)
    assert spec is not None
    assert [row["tokens"] for row in rows(spec, "ttft_s")] == [2000]
    assert [row["tokens"] for row in rows(spec, "decode_tok_s")] == [1000, 2000]
    assert all(value != 0 for row in values(spec) for value in row.values())


def test_a_burst_has_no_decode_rate() -> None:
    spec = ladder_chart([rung("a-r1", 1000, smooth=False)], ["a"], rehearsal=False)
    assert spec is not None and rows(spec, "decode_tok_s") == []


def test_a_failed_rung_is_a_cross_at_its_target_and_an_interrupted_one_nothing() -> None:
    failed = artifact("a-r2", (request(outcome="disconnected", ttft_ms=None),), target_tokens=9000, passed=False)
    cut = artifact("a-r3", (request(prompt_tokens=7000),), target_tokens=7000, passed=False, interrupted=True)
    spec = ladder_chart([rung("a-r1", 1000), failed, cut], ["a"], rehearsal=False)
    assert spec is not None
    crosses = [layer for one in spec["hconcat"] for layer in one["layer"] if layer["mark"].get("shape") == "cross"]
    assert [row["tokens"] for layer in crosses for row in layer["data"]["values"]] == [9000] * 3
    assert 7000 not in {row["tokens"] for row in values(spec)}
    assert ladder_chart([failed], ["a"], rehearsal=False) is None


def effect(**told: Any) -> Effect:
    given: dict[str, Any] = {
        "blocks": 3, "method": "", "estimate_percent": 2.0, "low_percent": -1.0, "high_percent": 5.0, "level": 0.95,
        "p_value": 0.2, "verdict": "", "words": "", **told,
    }  # fmt: skip
    return Effect(**given)


def test_effects_are_rows_with_intervals_and_an_unknown_one_has_none() -> None:
    effects = {
        "decode": effect(),
        "ttft": effect(level=None, low_percent=None, high_percent=None),
        "e2e": effect(estimate_percent=None, low_percent=None, high_percent=None, level=None),
    }
    spec = effects_chart(effects, "new", "old", rehearsal=False)
    assert spec is not None and plain(spec)
    _, intervals, points, _ = spec["layer"]
    assert [(row["metric"], row["low"], row["high"]) for row in intervals["data"]["values"]] == [("decode", -1.0, 5.0)]
    assert [row["metric"] for row in points["data"]["values"]] == ["decode", "ttft"]
    assert points["encoding"]["x"]["title"] == "change of new against old (%)"
    assert effects_chart({"e2e": effects["e2e"]}, "new", "old", rehearsal=False) is None


def one_trace(*samples: Any) -> Trace:
    (trace,) = traces("vram/samples.jsonl", (INVENTORY, *samples), [("2026-08-11T00:00:00.000Z", BOOT)])
    return trace


def test_memory_shows_the_reserve_and_the_requests_and_a_second_panel_near_the_reserve() -> None:
    trace = one_trace(*(sample(step * 100_000, 90_000 - step * 850) for step in range(101)))
    run = artifact("a-r7", (request(sent_us=4 * SECOND, ended_us=6 * SECOND),))
    other_boot = artifact("a-r8", (request(sent_us=SECOND, ended_us=2 * SECOND),), boot_id="another")
    spec = memory_chart(trace, [run, other_boot], [3072], rehearsal=False)
    assert spec is not None and len(plain(spec)["vconcat"]) == 2
    whole, near = spec["vconcat"]
    assert near["layer"][-1]["encoding"]["y"]["scale"]["domain"] == [0, 6.0]
    for one in (whole, near):
        marks = [layer["mark"]["type"] for layer in one["layer"]]
        assert marks == ["rect", "text", "area", "line", "rule", "text"]
        assert one["layer"][0]["data"]["values"] == [{"from": 4.0, "to": 6.0, "run": "r7"}]
        assert one["layer"][4]["data"]["values"][0]["reserve"] == 3.0
    assert min(row["low"] for row in values(spec) if "low" in row) == pytest.approx((90_000 - 85_000) / 1024, abs=1e-4)
    assert near["layer"][3]["encoding"]["x"]["title"] == "s since the first sample"


def test_memory_without_a_reserve_or_far_from_it_is_one_panel() -> None:
    trace = one_trace(sample(0, 90_000), sample(100_000, 89_000))
    for reserves in ([], [3072]):
        spec = memory_chart(trace, [], reserves, rehearsal=False)
        assert spec is not None and len(spec["vconcat"]) == 1
    assert memory_chart(one_trace(sample(0, None)), [], [3072], rehearsal=False) is None


def test_a_silence_breaks_the_line_and_two_reserves_are_two_rules() -> None:
    trace = one_trace(sample(0, 9000), sample(100_000, 9000), sample(5 * SECOND, 9000))
    spec = memory_chart(trace, [], [1024, 2048, 1024], rehearsal=False)
    assert spec is not None
    assert [row["segment"] for row in values(spec) if "segment" in row][-3:] == [0, 0, 1]
    assert [row["reserve"] for row in values(spec) if "reserve" in row][:2] == [1.0, 2.0]


def load(**told: Any) -> LoadStory:
    phases = [("args", SECOND), ("load_weights", 2 * SECOND), ("warmup", 5 * SECOND), ("ready", 6 * SECOND)]
    given: dict[str, Any] = {"boot_id": BOOT, "started_us": 0, "phases": phases, "ended_us": 6 * SECOND, **told}
    return LoadStory("lane", "20260811T000000Z-a", **given)


def test_phases_follow_each_other_from_the_launch() -> None:
    spec = phases_chart(load(), rehearsal=False)
    assert spec is not None and plain(spec)
    bars = spec["layer"][0]["data"]["values"]
    assert [(row["phase"], row["from"], row["to"]) for row in bars] == [
        ("1. args", 1.0, 2.0), ("2. load_weights", 2.0, 5.0), ("3. warmup", 5.0, 6.0),
    ]  # fmt: skip
    assert [row["words"] for row in bars] == ["1.0 s", "3.0 s", "1.0 s"]
    assert spec["layer"][0]["encoding"]["y"]["sort"] == [row["phase"] for row in bars]


def test_a_start_that_failed_or_never_ended() -> None:
    died = events.LoadFailed(lane="lane", load_id="x", words="it died")
    spec = phases_chart(load(phases=[("args", SECOND), ("profile", 3 * SECOND)], failed=died), rehearsal=False)
    assert spec is not None
    assert [row["failed"] for row in spec["layer"][0]["data"]["values"]] == [False, True]
    endless = phases_chart(load(phases=[("args", SECOND), ("profile", 3 * SECOND)], ended_us=None), rehearsal=False)
    assert endless is not None
    assert [row["phase"] for row in endless["layer"][0]["data"]["values"]] == ["1. args"]
    assert [row["phase"] for row in endless["layer"][1]["data"]["values"]] == ["1. args", "2. profile"]
    assert phases_chart(load(started_us=None), rehearsal=False) is None
    assert phases_chart(load(phases=[]), rehearsal=False) is None


def parts(spec: dict[str, Any], label: str) -> list[tuple[str, float, float]]:
    rows = spec["layer"][0]["data"]["values"]
    return [(row["part"], row["from"], row["to"]) for row in rows if row["request"] == label]


def test_a_request_is_divided_where_its_times_are_known() -> None:
    whole, blind, dead, lost = (
        request(0),
        request(1, time_to_first_output_ms=None, ttft_ms=None),
        request(2, outcome="timeout", time_to_first_output_ms=200.0, ttft_ms=None, e2e_ms=None),
        request(3, outcome="not_sent", sent_us=None, ended_us=None, e2e_ms=None),
    )
    spec = requests_chart([artifact("a-r1", (whole, blind, dead, lost), what="capacity")], rehearsal=False)
    assert spec is not None and plain(spec)
    assert parts(spec, "r1 #1") == [
        ("to first output", 0.0, 200.0), ("reasoning until visible", 200.0, 500.0), ("visible answer", 500.0, 1200.0),
    ]  # fmt: skip
    assert parts(spec, "r1 #2") == [("first output not known", 0.0, 1200.0)]
    assert parts(spec, "r1 #3") == [("failed", 0.0, 1200.0)]
    assert parts(spec, "r1 #4") == []
    assert spec["layer"][0]["encoding"]["y"]["sort"] == ["r1 #1", "r1 #2", "r1 #3"]
    domain = spec["layer"][0]["encoding"]["color"]["scale"]["domain"]
    assert domain == [
        "to first output",
        "reasoning until visible",
        "visible answer",
        "first output not known",
        "failed",
    ]


def test_requests_of_a_gate_carry_the_name_of_their_check() -> None:
    records = (request(0, nonce="x"), request(0, nonce="y"), request(1, nonce="z"))
    seen = [
        GateObservation(check=check, request_index=record.request_index, passed=True, words="", record=record)
        for check, record in zip(("smoke", "tools", "tools"), records, strict=True)
    ]
    gate = GateResult(
        started_at="", finished_at="", model="m", reasoning_effort=None, budget=GateBudget(), tool_batch=2,
        policy=EvidencePolicy(), checks=(), observations=tuple(seen), policy_errors=(), passed=True,
    )  # fmt: skip
    spec = requests_chart([artifact("a-r1", records, what="gate", gate=gate)], rehearsal=False)
    assert spec is not None
    assert spec["layer"][0]["encoding"]["y"]["sort"] == ["r1 smoke #1", "r1 tools #1", "r1 tools #2"]


def test_many_requests_are_ticks_a_row_a_run() -> None:
    runs = [artifact(f"a-r{run}", tuple(request(n, e2e_ms=1000.0 + n) for n in range(900))) for run in (1, 2)]
    assert BARS < 1800
    spec = requests_chart(runs, rehearsal=True)
    assert spec is not None and spec["mark"]["type"] == "tick"
    rows = spec["data"]["values"]
    assert len(rows) < 1800 and {row["run"] for row in rows} == {"a-r1", "a-r2"}
    assert {row["part"] for row in rows} == {"first output", "end"}
    assert max(row["ms"] for row in rows) == pytest.approx(1899, abs=3)


@pytest.mark.parametrize("nasty", ["<script>alert(1)</script>", "\x1b[31mred\x07", "a\u202eb"])
def test_names_from_outside_are_made_safe(nasty: str) -> None:
    runs = [artifact("x-r1", (request(),), lane=nasty, target_tokens=1000)]
    for spec in (ladder_chart(runs, [nasty], rehearsal=False), requests_chart(runs, rehearsal=False)):
        assert spec is not None
        text = str(spec)
        assert not any(control in text for control in ("\x1b", "\x07", "\u202e"))
