"""What the screen says, as tables: figures, the reserve, the band, rungs, the top bar, the form."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from anvil_tui.campaigns.store.view import RunView
from anvil_tui.console.keys import KEYS
from anvil_tui.console.snapshot import Bucket, Desk, GpuNow, GpuSnapshot, LaneRow, LogSnapshot, MeasureForm, Rung, Shown
from anvil_tui.console.stopping import StopAsked, stop_question
from anvil_tui.console.views import (
    figures,
    gpu_view,
    history_view,
    keys_view,
    ladder_view,
    log_view,
    rungs_view,
    startup_view,
    top_view,
)
from anvil_tui.console.views.capacity_view import CAPACITY
from anvil_tui.console.views.gate_view import GATE
from anvil_tui.console.views.measure_view import Measure, Review
from anvil_tui.records.gate import GateCheckName
from anvil_tui.records.live import LiveRun
from anvil_tui.records.plan import CapacityPlan, GatePlan, LadderPlan, MeasurePlan
from anvil_tui.records.vram import MIB, GpuReading
from tests.unit.console import scenes


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, "–"),
        (-1.0, "0.0 s"),
        (4.06, "4.1 s"),
        (59.9, "59.9 s"),
        (267.4, "4m27s"),
        (7500.0, "2h05m"),
        (273600, "3d04h"),
    ],
)
def test_a_length_of_time(seconds: float | None, shown: str) -> None:
    assert figures.span(seconds) == shown


@pytest.mark.parametrize(
    ("size", "shown", "signed"),
    [
        (None, "–", "–"),
        (0, "0", "+0"),
        (3072 * MIB - 1, "3,071", "+3,071"),
        (-1, "-1", "−1"),
        (-2229 * MIB, "-2,229", "−2,229"),
    ],
)
def test_mib_is_rounded_down(size: int | None, shown: str, signed: str) -> None:
    assert figures.mib(size) == shown
    assert figures.signed_mib(size) == signed


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [("short", 10, "short"), ("exactly ten", 10, "exactly t…"), ("日本語", 4, "日…"), ("x", 0, ""), ("", 5, "")],
)
def test_text_is_cut_by_cells(text: str, width: int, shown: str) -> None:
    assert figures.fit(text, width) == shown


def _reading(free: int | None, **others: object) -> GpuReading:
    return GpuReading(uuid="GPU-0", free=None if free is None else free * MIB, **others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("free_mib", "policy", "word", "margin_mib"),
    [
        (3787, "enforce", "OK", 715),
        (3327, "enforce", "NEAR", 255),
        (3072, "enforce", "NEAR", 0),
        (3071, "enforce", "ALARM", -1),
        (843, "enforce", "ALARM", -2229),
        (843, "waived", "WAIVED", -2229),
        (843, "off", "OFF", -2229),
    ],
)
def test_the_word_of_a_gpu(free_mib: int, policy: str, word: str, margin_mib: int) -> None:
    snapshot = dataclasses.replace(scenes.gpus((free_mib,)), policy=policy)
    state = gpu_view.gpu_state(snapshot.gpus[0], snapshot, scenes.NOW_US)
    assert (state.word, state.margin) == (word, margin_mib * MIB)


@pytest.mark.parametrize(
    ("reading", "age_us", "word"),
    [
        (None, 0, "WAITING"),
        (_reading(None), 0, "NO DATA"),
        (_reading(3787, error="GPU is lost"), 0, "NO DATA"),
        (_reading(3787, total=97887 * MIB, used=97887 * MIB), 0, "NO DATA"),
        (_reading(3787), 700_000, "STALE"),
        (_reading(3787), 500_000, "OK"),
    ],
)
def test_a_figure_that_cannot_be_believed_is_not_shown(reading: GpuReading | None, age_us: int, word: str) -> None:
    snapshot = scenes.gpus((3787,))
    gpu = dataclasses.replace(snapshot.gpus[0], reading=reading, at_us=scenes.NOW_US - age_us)
    state = gpu_view.gpu_state(gpu, snapshot, scenes.NOW_US)
    assert state.word == word
    if word != "OK":
        assert state.free is None
        assert "3,787" not in gpu_view.head_line(state, snapshot, 60).plain


def test_a_dead_sampler_says_why() -> None:
    snapshot = dataclasses.replace(scenes.gpus(), failed="NVML: \x1b[31mdriver not loaded")
    state = gpu_view.gpu_state(snapshot.gpus[0], snapshot, scenes.NOW_US)
    assert (state.word, state.why) == ("NO DATA", "NVML: driver not loaded")


@pytest.mark.parametrize("width", [20, 36, 37, 60, 100])
def test_no_line_of_a_gpu_is_wider_than_its_panel(width: int) -> None:
    for policy in ("enforce", "waived"):
        snapshot = scenes.gpus((843, 96000), policy)  # type: ignore[arg-type]
        for gpu in snapshot.gpus:
            state = gpu_view.gpu_state(gpu, snapshot, scenes.NOW_US)
            lines = [
                gpu_view.head_line(state, snapshot, width),
                gpu_view.foot_line(gpu, state, width),
                gpu_view.gauge(snapshot, state, width),
                *gpu_view.band(gpu, snapshot, scenes.NOW_US, width, 7),
            ]
            assert all(line.cell_length <= width for line in lines)


def _bucket(second: int, low: int, high: int | None = None) -> Bucket:
    high = high or low
    return Bucket(second, low * MIB, high * MIB, (low + high) * MIB, 2)


def _band(*buckets: Bucket, height: int = 8) -> list[str]:
    """The band without its gutter; one column is one second here."""
    snapshot = scenes.gpus((3787,))
    gpu = GpuNow(snapshot.gpus[0].gpu, None, None, tuple(buckets))
    now_us = max(bucket.second for bucket in buckets) * 1_000_000
    return [line.plain[4:] for line in gpu_view.band(gpu, snapshot, now_us, 4 + 3, height)]


def test_the_band_has_a_scale_that_stays() -> None:
    assert [line[-1] for line in _band(_bucket(100, 8192))] == list("████╌███"), "all of 8 GiB, the reserve marked"
    assert [line[-1] for line in _band(_bucket(100, 4096))] == list("    ╌███")
    assert [line[-1] for line in _band(_bucket(100, 96000))] == list("████╌███"), "more than 8 GiB fills it, no more"
    assert [line[-1] for line in _band(_bucket(100, 512))] == list("    ╌  ▄"), "half of the last GiB"
    assert _band(_bucket(100, 1024)) == _band(_bucket(10, 8000), _bucket(100, 1024)), "what is old makes no other scale"


def test_a_dip_within_a_column_decides_it_and_a_gap_stays_empty() -> None:
    lines = _band(_bucket(100, 5120), _bucket(101, 1024, 6144), _bucket(104, 5120))
    assert lines[-1] == "█ █", "a gap in the sampling is a gap in the band"
    middle = _band(_bucket(100, 5120), _bucket(102, 1024, 6144), _bucket(104, 5120))
    assert [line[1] for line in middle][-2:] == ["▒", "█"], "solid to the least of the column, shaded to its most"


@pytest.mark.parametrize(
    ("target", "measured", "expected"),
    [
        (1000, [], None),
        (None, [Rung(1000, 1.0)], None),
        (2000, [Rung(1000, 1.0)], 2.0),
        (4001, [Rung(1000, 1.0)], None),
        (249, [Rung(1000, 1.0)], None),
        (1000, [Rung(1000, 1.0), Rung(1000, 3.0)], 2.0),
        (3000, [Rung(1000, 2.0), Rung(2000, 3.0)], 4.0),
        (3000, [Rung(1000, 2.0), Rung(2000, 3.0), Rung(4000, 9.0)], 6.0),
        (100, [Rung(1000, 1.0), Rung(2000, 3.0)], None),
    ],
)
def test_an_estimate_rests_on_the_nearest_rungs(
    target: int | None, measured: list[Rung], expected: float | None
) -> None:
    assert rungs_view.estimate_seconds(target, measured) == expected


def _live(phase: str, **others: object) -> LiveRun:
    fields = {"run": "r", "target_tokens": None, "since_us": 0, "phase": phase} | others
    return LiveRun(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (_live("sizing", target_tokens=1000), "sizing  5.0 s of about 2.0 s"),
        (_live("answer", tokens=64), "answer  5.0 s  64 tokens so far"),
        (
            _live("prefill", prefill_pct=43.4, prefill_tok_s=7343, left_s=8.1),
            "prefill  5.0 s  43 %  7,343 tok/s  8.1 s left",
        ),
        (
            _live("prefill", still_s=12.0),
            "prefill  5.0 s  KV usage has not moved for 12.0 s",
        ),
        (_live("answer", words="needle 2 of 3"), "needle 2 of 3  5.0 s"),
    ],
)  # fmt: skip
def test_a_rung_that_runs(live: LiveRun, words: str) -> None:
    assert rungs_view.running_words(live, [Rung(1000, 2.0)], 5_000_000) == words


def test_rungs_of_the_plan_that_did_not_run_say_why() -> None:
    desk = scenes.sealed_desk()
    assert desk.shown is not None
    lines = [row.content.plain for row in rungs_view.rung_rows(desk.shown, (), 0, 90)]
    assert lines[0].split() == ["117,500", "117,500", "17,029", "6,903", "75.4", "PASS,", "spill?", "pass"]
    assert lines[1].split()[-2:] == ["FAIL", "reserve"]
    assert lines[2].strip() == "119,500  not run: sealed"


def _measured(plan: MeasurePlan, kind: str, runs: tuple[RunView, ...]) -> Shown:
    row = scenes.campaign_row(runs=runs, kind=kind)
    assert row.plan is not None
    field = {"gate": "gate", "capacity": "capacity", "ladder": "ladder"}[kind]
    row = dataclasses.replace(row, plan=msgspec.structs.replace(row.plan, **{field: plan}))
    figures_ = {run.run: scenes.figures(run.target_tokens or 0) for run in runs if run.run and run.state == "passed"}
    seconds = {run.run: 4.0 for run in runs if run.run and run.state == "passed"}
    return Shown(row, None, figures_, seconds, notes=(), asked=frozenset(), began_us=None, pid=None)


def test_capacity_runs_are_expected_to_take_what_capacity_runs_took() -> None:
    plan = CapacityPlan(context_tokens=4096, max_tokens=64, margin=0, runs=3)
    runs = (RunView("practice-r1", "capacity", 4096, "passed"), RunView("practice-r2", "capacity", 4096, "running"))
    shown = _measured(plan, "capacity", runs)
    lines = [row.content.plain for row in rungs_view.rung_rows(shown, [Rung(4096, 0.5)], 0, 90)]
    assert rungs_view.heading(shown) == "Runs"
    assert [line.split()[0] for line in lines] == ["4,096"] * 3
    assert lines[2].strip() == "4,096  planned, about 4.0 s", "not the 0.5 s of a rung"


def test_a_gate_has_its_verdict_and_its_reserve_for_figures() -> None:
    shown = _measured(GatePlan(), "gate", (RunView("practice-r1", "gate", None, "passed", "7 of 7 passed"),))
    (line,) = [row.content.plain for row in rungs_view.rung_rows(shown, (), 0, 90)]
    assert line.strip() == "gate  pass  7 of 7 passed  reserve PASS, spill?"


def test_the_needles_of_a_ladder_are_rungs_to_come() -> None:
    plan = LadderPlan(targets=(2000, 6000), max_tokens=64, margin=0, needle_depths=(0.5,))
    shown = _measured(plan, "ladder", (RunView("practice-r1", "rung", 2000, "passed"),))
    lines = [row.content.plain for row in rungs_view.rung_rows(shown, (), 0, 90)]
    assert [line.split()[0] for line in lines] == ["2,000", "2,000", "6,000", "6,000"]


def test_a_waived_reserve_is_told_and_does_not_alarm() -> None:
    figures_ = dataclasses.replace(scenes.figures(1000, passed=False), policy="waived")
    assert rungs_view.reserve_words(figures_) == ("FAIL, waived", "warn")


def _died() -> Desk:
    return dataclasses.replace(scenes.starting_desk(), lane=scenes.lane_row("exited"))


@pytest.mark.parametrize(
    ("desk", "gpus", "word"),
    [
        (scenes.empty_desk(), GpuSnapshot(), "IDLE"),
        (scenes.ladder_desk(), scenes.gpus(), "ALARM reserve"),
        (scenes.ladder_desk(), scenes.gpus((3787,)), "RUN FAILED"),
        (scenes.starting_desk(), scenes.gpus((9000,)), "OK"),
        (scenes.starting_desk(), scenes.gpus((3100,)), "NEAR reserve"),
        (scenes.starting_desk(), scenes.gpus((843,), "waived"), "BELOW, waived"),
        (scenes.starting_desk(), scenes.gpus(age_us=9_000_000), "STALE gpu"),
        (scenes.starting_desk(), dataclasses.replace(scenes.gpus(), failed="gone"), "NO DATA gpu"),
        (_died(), scenes.gpus((9000,)), "LANE DIED"),
    ],
)  # fmt: skip
def test_the_worst_in_a_word(desk: Desk, gpus: GpuSnapshot, word: str) -> None:
    assert top_view.worst(desk, gpus, scenes.NOW_US).word == word


@pytest.mark.parametrize("width", [60, 70, 80, 100, 120, 200])
def test_the_top_bar_fills_its_line_and_keeps_the_alarm(width: int) -> None:
    for desk in (scenes.empty_desk(), scenes.ladder_desk(), scenes.sealed_desk()):
        line = top_view.top_line(
            desk, scenes.gpus(), now_us=scenes.NOW_US, time="12:04:31", width=width, labels=("PAUSED +12",), faults=()
        )
        assert line.cell_length <= width
        assert line.plain.endswith("12:04:31")
        assert "ALARM reserve" in line.plain
        assert ("REHEARSAL" in line.plain) == (desk.lane is not None)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_key_line_fits(width: int) -> None:
    line = keys_view.key_line(KEYS, frozenset({"run.stop"}), width)
    assert line.cell_length <= width
    assert line.plain.startswith(" q Quit")
    assert line.plain.rstrip().endswith("^p All")


def test_every_key_has_one_id_and_stands_in_the_help() -> None:
    assert len({key.id for key in KEYS}) == len(KEYS)
    taken = [one for key in KEYS for one in key.keys.split(",")]
    assert len(taken) == len(set(taken))
    told = "\n".join(line.plain for line in keys_view.help_lines(KEYS, {}))
    assert all(key.title.partition(": ")[2] in told for key in KEYS)


def test_the_readme_lists_every_key_as_the_table_has_it() -> None:
    """The rows of the README's table of keys, in the order of the help; those of this list are what belongs there."""
    areas = dict.fromkeys(key.title.partition(": ")[0] for key in KEYS)
    rows = [
        f"| {area} | `{key.label}`{' *' if key.acts else ''} | {key.title.partition(': ')[2]} |"
        for area in areas
        for key in KEYS
        if key.title.startswith(f"{area}: ")
    ]
    readme = (Path(__file__).parents[3] / "README.md").read_text(encoding="utf-8")
    assert "\n".join(rows) in readme, "\n".join(rows)


def _form(**changes: str) -> MeasureForm:
    first = ladder_view.first_form(scenes.lane_row(), ())
    return MeasureForm({**first.lines, "targets": "2000, 60000", "effort": "high", **changes})


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (_form(targets="2000,x"), "targets: whole numbers with commas between, such as 2000, 60000"),
        (_form(targets=""), "targets: at least one whole number from 1"),
        (_form(targets="0"), "targets: at least one whole number from 1"),
        (_form(max_tokens="0"), "max tokens: a whole number from 1"),
        (_form(max_tokens="²"), "max tokens: a whole number from 1"),
        (_form(margin="-1"), "margin: a whole number from 0"),
        (_form(how=ladder_view.SEARCH), "targets: one to begin with, where the longest is searched"),
        (
            _form(needle="0.5, 2"),
            "needle depths: numbers from 0 to 1 with commas between, such as 0.1, 0.5; none sends no needle",
        ),
    ],
)
def test_a_form_that_is_no_plan(form: MeasureForm, words: str) -> None:
    found = ladder_view.review(form, scenes.lane_row(), ())
    assert found.plan is None
    assert [line.plain for line in found.lines] == [words]


def test_the_form_says_exactly_what_will_run() -> None:
    found = ladder_view.review(_form(targets="2_000, 60000,"), scenes.lane_row(), scenes.PAST)
    assert found.plan == LadderPlan(targets=(2000, 60000), max_tokens=10240, margin=1024, reasoning_effort="high")
    assert not found.starts_lane
    assert [line.plain for line in found.lines] == [
        "longest prompt 119,808 tokens = observed max_model_len 131,072 − max_tokens 10,240 − margin 1,024",
        "2 rungs, one streamed request each: 2,000 → 60,000",
        "answers up to 10,240 tokens, reasoning effort high; reserve 3,072 MiB, waived",
        "expected time: about 10.0 s, by 2 rungs measured with this profile",
    ]


def test_a_ladder_may_search_hide_needles_and_end_with_the_gate() -> None:
    searched = ladder_view.review(_form(targets="8000", how=ladder_view.SEARCH), scenes.lane_row(), scenes.PAST)
    assert isinstance(searched.plan, LadderPlan) and searched.plan.bisect_tolerance == 256
    assert (
        searched.lines[1].plain
        == "one rung after another from 8,000, until the longest that is served is known to 256 tokens"
    )
    hidden = ladder_view.review(_form(needle="0.1,.9", gate=ladder_view.YES), scenes.lane_row(), scenes.PAST)
    assert isinstance(hidden.plan, LadderPlan) and hidden.plan.needle_depths == (0.1, 0.9)
    assert hidden.plan.post_gate == GatePlan(reasoning_effort="high")
    assert [line.plain for line in hidden.lines][1:] == [
        "2 rungs, one streamed request each, and one with a needle at 10%, 90%: 2,000 → 60,000",
        "answers up to 10,240 tokens, reasoning effort high; reserve 3,072 MiB, waived",
        "then the functional gate once more",
        "expected time: not known for searches, needles and gates",
    ]


def _changed(measure: Measure, **changes: str) -> Review:
    lane = scenes.lane_row()
    first = measure.first_form(lane, ())
    return measure.review(MeasureForm({**first.lines, **changes}), lane, ())


def test_the_gate_form_opens_on_the_seeds_checks_and_says_what_will_run() -> None:
    assert _changed(GATE).plan == GatePlan(reasoning_effort=scenes.practice().profile.endpoint.reasoning_effort)
    found = _changed(GATE, checks="smoke json", needle="60000", tools="4", reasoning="required")
    assert isinstance(found.plan, GatePlan)
    assert (found.plan.checks, found.plan.needle_tokens) == (("smoke", "json", "needle"), 60000)
    assert (found.plan.tool_batch, found.plan.policy.reasoning) == (4, "required")
    assert [line.plain for line in found.lines][:2] == [
        "3 checks: smoke, json, needle",
        "4 tool calls at once, the needle in 60,000 tokens",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"checks": "smoke, smok"}, f"checks: some of {', '.join(get_args(GateCheckName))}"),
        ({"checks": ""}, f"checks: some of {', '.join(get_args(GateCheckName))}"),
        ({"checks": "smoke, smoke"}, "checks: each of them once"),
        ({"checks": "needle"}, "needle tokens: a whole number from 1, the prompt length of the check needle"),
        ({"tools": "129"}, "tool calls: a whole number from 1 to 128"),
    ],
)
def test_a_gate_form_that_is_no_plan(changes: dict[str, str], words: str) -> None:
    found = _changed(GATE, **changes)
    assert found.plan is None and [line.plain for line in found.lines] == [words]


def test_the_capacity_form_says_what_will_run() -> None:
    found = _changed(CAPACITY, context="8_192", concurrency="8", requests="24", shared="2,048", output="fixed")
    assert isinstance(found.plan, CapacityPlan)
    assert (found.plan.context_tokens, found.plan.concurrency, found.plan.requests) == (8192, 8, 24)
    assert (found.plan.prefix, found.plan.shared_prefix_tokens, found.plan.output_length) == ("shared", 2048, "fixed")
    assert [line.plain for line in found.lines][1:3] == [
        "3 runs of 24 requests, 8 at a time, 1 before it not scored",
        "prompts of 8,192 tokens, the first 2,048 shared by all",
    ]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"concurrency": "257"}, "at a time: a whole number from 1 to 256"),
        ({"requests": "none"}, "requests a run: a whole number from 1 to 10,000"),
        ({"shared": "4096"}, "shared prefix: less than the 4,096 tokens of a prompt"),
        ({"context": "119809"}, "above it: context 119,809; nothing would be sent"),
    ],
)
def test_a_capacity_form_that_is_no_plan(changes: dict[str, str], words: str) -> None:
    found = _changed(CAPACITY, **changes)
    assert found.plan is None and found.lines[-1].plain == words


def test_a_target_above_the_limit_is_refused_with_the_arithmetic() -> None:
    found = ladder_view.review(_form(targets="119808, 119809"), scenes.lane_row(), ())
    assert found.plan is None
    assert found.lines[-1].plain == "above it: 119,809; nothing would be sent"


def test_a_lane_that_is_down_is_started_first() -> None:
    found = ladder_view.review(_form(), LaneRow("practice", scenes.practice()), ())
    assert found.starts_lane
    assert "the recipe's max_model_len" in found.lines[0].plain
    assert found.lines[1].plain == "first practice is started: it is down now"


def test_the_form_opens_with_the_ladder_before() -> None:
    lane = scenes.lane_row()
    assert ladder_view.first_form(lane, [scenes.campaign_row("complete")])["targets"] == "117500, 118500, 119500"
    assert ladder_view.first_form(lane, [])["targets"] == "2000, 59500, 119500"
    assert ladder_view.suggested(None) == (1000,)


def test_start_up_rows_lead_to_their_lines() -> None:
    rows = startup_view.startup_rows(scenes.lane_row(), scenes.report(), scenes.NOW_US, 40)
    found = {row.content.plain.split("  ")[0].strip(): startup_view.offset_of(row.id) for row in rows}
    assert (found["KV tokens"], found["KV available"], found["Non-torch"]) == (4000, 3800, 3200)
    assert startup_view.offset_of("state") is None
    assert len({row.id for row in rows}) == len(rows)
    assert all(row.content.cell_length <= 40 for row in rows)


def test_while_a_lane_comes_up_its_newest_phase_stands_first() -> None:
    rows = startup_view.startup_rows(scenes.lane_row("starting"), scenes.report(loading=True), scenes.NOW_US, 40)
    assert rows[1].content.plain == "▸ compile          28.8 s"


@pytest.mark.parametrize("width", [68, 104])
def test_lists_fit_their_width(width: int) -> None:
    desk = scenes.ladder_desk()
    rows = (
        *history_view.lane_rows((*desk.lanes, *scenes.empty_desk().lanes), scenes.NOW_US, width),
        *history_view.campaign_rows(desk.campaigns, width),
    )
    assert all(row.content.cell_length <= width for row in rows)
    for lane in (*desk.lanes, *scenes.empty_desk().lanes):
        facts = history_view.lane_facts(lane, width).plain
        assert ("enter" in facts) == (lane.lane is not None)


def _log(**changes: object) -> LogSnapshot:
    return dataclasses.replace(scenes.log("a"), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("log", "follow", "below", "title"),
    [
        (LogSnapshot(), True, 0, "Log"),
        (scenes.log(), True, 0, "Log  follow  5 lines  1 warn  1 error"),
        (scenes.log("a"), False, 12, "Log  held, +12 lines below  1 lines  1 warn  1 error"),
        (_log(filter="tp", kept=10000), True, 0, "Log  follow  1/10,000 match 'tp'  1 warn  1 error"),
        (_log(page=4000), True, 0, "Log  at byte 4,000  (f: back to the end)"),
        (_log(grew_us=scenes.NOW_US - 35_000_000), True, 0, "Log  follow  1 lines  1 warn  1 error  silent 35.0 s"),
    ],
)  # fmt: skip
def test_the_title_of_the_log(log: LogSnapshot, follow: bool, below: int, title: str) -> None:
    assert log_view.log_title(log, follow=follow, below=below, now_us=scenes.NOW_US, width=100).plain == title


@pytest.mark.parametrize(
    ("stop", "step", "answers"),
    [
        (StopAsked(), "ask", ["cancel", "stop_after_request", "stop_now", "skip_rung"]),
        (StopAsked("c", "r", 9_000_000), "wait", ["cancel"]),
        (StopAsked("c", "r", 6_000_000), "term", ["cancel", "term"]),
        (StopAsked("c", "r", 6_000_000, heard=True), "ask", ["cancel", "stop_after_request", "stop_now", "skip_rung"]),
        (StopAsked("c", "r", 1_000_000, termed_us=8_000_000), "wait", ["cancel"]),
        (StopAsked("c", "r", 1_000_000, termed_us=5_000_000), "kill", ["cancel", "kill"]),
    ],
)
def test_a_run_is_stopped_step_by_step(stop: StopAsked, step: str, answers: list[str]) -> None:
    assert stop.step(10_000_000) == step
    _, _, found = stop_question(scenes.campaign_row(runs=scenes.RUNS), stop, 10_000_000)
    assert [answer.value for answer in found] == answers
    assert found[0].value == "cancel", "the harmless answer has the focus"


def test_a_start_is_stopped_whole() -> None:
    _, words, found = stop_question(scenes.campaign_row(kind="startup"), StopAsked(), 0)
    assert [answer.value for answer in found] == ["cancel", "stop_now"]
    assert "a lane that is coming up is stopped with it" in words.plain
