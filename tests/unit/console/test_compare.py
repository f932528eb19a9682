"""Two arms side by side: what the thread reads of a real folder, and how each line of it stands on the screen."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.content import Content

from anvil_tui import clock
from anvil_tui.campaigns.store.view import LoadView, RunView
from anvil_tui.console.messages import SourceFailed
from anvil_tui.console.paired import claims_view, compare_view, concluding, figures_view, loads_view
from anvil_tui.console.paired.compare import CompareScreen
from anvil_tui.console.paired.comparison import CompareRead, Comparison, Metric
from anvil_tui.console.paired.plotted import StartPhases
from anvil_tui.console.paired.source import LEAST_SECONDS, CompareSource
from anvil_tui.console.sources.desk_source import DeskSource
from anvil_tui.console.sources.source import Post, Source
from anvil_tui.evidence.arms.invariants import SAME_PROMPTS
from anvil_tui.locations import Locations
from anvil_tui.records import events
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.live import LiveRun
from anvil_tui.records.vram import MIB
from tests.unit.console import pairs, scenes
from tests.unit.console.snapshots import same
from tests.unit.console.still import settle, show, still, text_of


@pytest.fixture
def where(tmp_path: Path) -> Locations:
    return pairs.site(tmp_path)


def text(lines: list[Content]) -> str:
    return "\n".join(line.plain for line in lines)


def test_a_campaign_that_has_only_begun(where: Locations) -> None:
    with pairs.pair(where) as told:
        told.live(step="waiting for memory")
        found = told.compared()
    assert found.standing == "running" and [one.state for one in found.acceptance] == ["met", "not yet known"]
    assert found.conclusions.origin == "" and not found.conclusions.protocols
    shown = text(compare_view.overview(found, 0, 100))
    assert shown.count("planned") == 3 and "1 of 2 met" in shown
    assert "nothing to compare yet" in text(claims_view.claims(found, 100))
    assert "no measured run has passed yet" in text(figures_view.figures(found, 100))


def test_one_arm_alone_shows_its_figures_and_no_change(where: Locations) -> None:
    with pairs.pair(where) as told:
        told.load(pairs.PLANNED[0])
        load_id = told.begin(pairs.PLANNED[1], kv_tokens=553_243, gib=15.99)
        told.journal.append(events.RunStarted(lane="new-lane", run="new-lane-r3", what="rung", target_tokens=1000))
        told.live(run=LiveRun(run="new-lane-r3", target_tokens=1000, phase="prefill", since_us=1))
        found = told.compared()
    assert load_id
    longest, shorter = found.conclusions.protocols
    assert (longest.name, shorter.name) == ("2,000 tokens", "1,000 tokens")
    e2e = next(one for one in longest.metrics if one.name == "e2e_p50_ms")
    assert (e2e.baseline_median, e2e.candidate_median, e2e.delta_percent) == (1200.0, None, None)
    shown = text(compare_view.overview(found, 5_000_001, 120))
    assert "▸ 1,000 tokens  prefill  5.0 s" in shown and "2/2 passed  done" in shown
    assert "283,917 → 553,243 (+94.9 %)" in shown, "a start tells before its first run does"


def test_the_arms_are_compared_as_soon_as_both_have_runs(where: Locations) -> None:
    with pairs.pair(where) as told:
        told.load(pairs.PLANNED[0])
        told.load(pairs.PLANNED[1], kv_tokens=553_243, gib=15.99)
        found = told.compared().conclusions
    assert found.origin == "4 artifacts so far"
    e2e = next(one for one in found.protocols[0].metrics if one.name == "e2e_p50_ms")
    assert e2e.delta_percent == pytest.approx(-100 / 12)
    assert (e2e.baseline, e2e.candidate) == (((1200.0,),), ((1100.0,),))
    assert any("max_num_batched_tokens from 8192 to 4096" in one.text for one in (*found.proven, *found.not_proven))
    assert found.kv and found.caveats


def test_a_campaign_that_broke_off_tells_its_conditions_and_what_comes_next(where: Locations) -> None:
    with pairs.pair(where) as told:
        load_id = told.begin(pairs.PLANNED[1])
        told.rung(pairs.PLANNED[1], load_id, 2000, e2e_ms=1100.0)
        told.rung(pairs.PLANNED[1], load_id, 1000, e2e_ms=1100.0, passed=False)
    found = pairs.compared(told.folder)
    assert found.standing == "interrupted"
    assert [(one.state, one.words) for one in found.acceptance] == [
        ("met", "1 load came up"),
        ("met", "2,000 prompt tokens by the API's count"),
    ]
    assert not found.conclusions.violated, "one arm alone was not asked the same prompts as none"
    shown = text(compare_view.overview(found, 0, 76))
    assert "its end is not told" in shown and "interrupted: r goes on with it" in shown
    assert "1/2 passed" in shown and "      new-lane-r2 FAILED: outcome: the request failed" in shown
    assert "no decision yet" in shown
    reserve = found.conclusions.reserves["candidate"]
    assert reserve.worst is not None and (reserve.worst.gpu, reserve.worst.margin_bytes) == ("GPU1", -500 * MIB)
    assert (
        "worst free 2,572 MiB on GPU1, −500 to the reserve of 3,072: 2 FAIL, waived; runs/new-lane-r1.json"
        in " ".join(shown.split())
    )


def test_the_same_prompts_are_not_violated_while_an_arm_is_on_its_way() -> None:
    document = {"invariants": [{"text": SAME_PROMPTS, "status": "violated"}, {"text": "x", "status": "violated"}]}
    assert concluding._from_document(document, not_yet=SAME_PROMPTS).violated == ("x",)
    assert concluding._from_document(document, not_yet="").violated == (SAME_PROMPTS, "x")


def test_values_stand_by_load_and_a_block_that_is_redone_does_not_count(where: Locations) -> None:
    with pairs.pair(where) as told:
        told.load(pairs.PLANNED[0])
        load_id = told.begin(pairs.PLANNED[1])
        told.end(pairs.PLANNED[1], load_id, whole=False, words="new-lane died")
        before = told.compared()
        told.journal.append(events.BlockInterrupted(block=1, words="its load was cut short"))
        for planned in pairs.PLANNED:
            told.load(planned)
        after = told.compared()
    assert "CUT SHORT: new-lane died" in text(compare_view.load_lines(before, 0, 120))
    assert [load.state for load in after.view.loads] == ["put aside"] * 2 + ["whole"] * 3
    e2e = next(one for one in after.conclusions.protocols[0].metrics if one.name == "e2e_p50_ms")
    assert e2e.baseline == ((1200.0,), (1200.0,)) and e2e.candidate == ((1100.0,),)
    assert "by load  A 1,200 | 1,200" in text(figures_view.figures(after, 120))


def test_a_paired_document_is_shown_where_it_stands(where: Locations) -> None:
    with pairs.pair(where, "paired") as told:
        for planned in pairs.PLANNED:
            told.load(planned)
        computed = told.compared().conclusions
        assert computed.decision and computed.origin == "6 artifacts so far"
        document = {
            "schema": "paired-capacity-comparison/v1",
            "metrics_by_protocol": {},
            "claims": {"proven": [{"text": "new is faster"}], "not_proven": []},
            "invariants": [{"text": "same model", "status": "violated"}],
            "caveats": [{"text": "few blocks"}],
            "new": {"kv_cache_explanation": "explained: 3 blocks"},
            "decision": "new against old: keep new",
        }
        told.conclude(document)
        folder = told.folder
    found = pairs.compared(folder)
    assert found.conclusions.origin == "documents/comparison.json"
    assert [one.text for one in found.conclusions.proven] == ["new is faster"]
    assert found.conclusions.violated == ("same model",) and found.conclusions.kv == ("new: explained: 3 blocks",)
    shown = text(compare_view.overview(found, 0, 100))
    assert "VIOLATED: same model" in shown and "2 of 2 met" in shown and "no decision yet: d writes one" in shown
    assert "primary: decode tok/s at 2,000 tokens" in shown
    assert "keep new" in text(claims_view.claims(found, 100))


def test_a_runner_that_goes_on_makes_earlier_documents_void(where: Locations) -> None:
    with pairs.pair(where) as told:
        for planned in pairs.PLANNED:
            told.load(planned)
        told.conclude({"schema": "controlled-change/v1", "caveats": [{"text": "of before"}]}, met=False)
        assert told.compared().conclusions.origin == "documents/comparison.json"
        told.journal.append(events.RunnerStarted(tool_version="0", python="3", pid=1, boot_id="b", resumed=True))
        found = told.compared()
    assert found.conclusions.origin == "6 artifacts so far" and found.acceptance == ()


def test_a_test_of_one_lane_has_figures_and_conditions_and_no_comparison(where: Locations) -> None:
    alone = msgspec.structs.replace(pairs.PLANNED[1], number=0)
    with pairs.pair(where) as told:
        path = told.folder.path / "campaign.toml"
        toml = path.read_text().replace('[arms.baseline]\nlane = "old-lane"\nname = "old"\n', "")
        path.write_text(toml.replace('document = "change"', "").replace('order = "ABA"', ""))
        told.load(alone, kv_tokens=553_243, gib=15.99)
        found = told.compared()
    assert found.baseline is None and not found.conclusions.refused
    shown = text(figures_view.figures(found, 100))
    assert "B new" in shown and "2,000 tokens" in shown and "B vs A" not in shown and "verdict" not in shown
    assert "one arm alone" in text(claims_view.claims(found, 100))
    assert compare_view.head(found, "12:00:00", 80).plain.startswith(" Compare  new ")


def test_what_cannot_be_compared_is_said(where: Locations) -> None:
    folder = pairs.done(where)
    (folder.path / "runs" / "old-lane-r1.json").write_text("{")
    found = pairs.compared(folder)
    assert "old-lane-r1.json" in found.conclusions.refused
    assert "no comparison can be made" in text(claims_view.claims(found, 100))
    assert found.last_start("candidate") is not None, "what the starts told is still there"


def test_a_folder_that_is_no_paired_campaign_is_told(where: Locations) -> None:
    folder = pairs.done(where)
    (folder.path / "campaign.toml").unlink()
    posted: list[Any] = []
    source = CompareSource(folder, posted.append)
    source.start()
    try:
        for _ in range(200):
            if posted:
                break
            source.join(0.02)
    finally:
        source.stop()
        source.join(2)
    assert isinstance(posted[0], SourceFailed) and "campaign.toml" in posted[0].words


def test_artifacts_are_read_again_only_when_there_are_others(where: Locations, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []
    real = concluding.conclude
    monkeypatch.setattr(concluding, "conclude", lambda *told: (reads.append(1), real(*told))[1])
    now = [1_000_000]
    monkeypatch.setattr(clock, "mono_us", lambda: now[0])
    with pairs.pair(where) as told:
        posted: list[Any] = []
        source = CompareSource(told.folder, posted.append)
        load_id = told.begin(pairs.PLANNED[0])
        for _ in range(3):
            source.look()
        assert len(reads) == 1
        told.rung(pairs.PLANNED[0], load_id, 1000, e2e_ms=1200.0)
        source.look()
        assert len(reads) == 1, "not within three seconds of the last time"
        now[0] += int(LEAST_SECONDS * 1e6)
        source.look()
        source.look()
        assert len(reads) == 2
        told.journal.append(events.RunnerEnded(ending="stopped", words="it was stopped", exit_code=1))
        told.rung(pairs.PLANNED[0], load_id, 2000, e2e_ms=1200.0)
        source.look()
        assert len(reads) == 3, "at the end there is nothing to wait for"
    assert all(isinstance(one, CompareRead) for one in posted)


METRIC = Metric("e2e_p50_ms", ((1.0,),), ((1.0,),), 1.0, 1.0, -8.33, -9.0, -7.0, 0.95, "faster", "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "-8.3 % -9.0…-7.0 at 95% faster"),
        ({"level": None, "verdict": "inconclusive (1 block)"}, "-9.0…-7.0 runs inconclusive (1 block)"),
        ({"low_percent": None, "high_percent": None}, "–"),
        ({"delta_percent": None}, "E2E ms 1.0 1.0"),
        ({"candidate_median": None, "delta_percent": None}, "1.0 –"),
    ],
)
def test_a_metric_in_a_line(where: Locations, changes: dict[str, Any], words: str) -> None:
    found = pairs.compared(pairs.done(where))
    metric = dataclasses.replace(METRIC, **changes)
    shown = " ".join(line.plain for line in figures_view._metric_lines(found, metric, 120))
    assert words in " ".join(shown.split())


@pytest.mark.parametrize("width", [60, 78, 118, 200])
def test_no_line_is_wider_than_the_screen(where: Locations, width: int) -> None:
    found = pairs.compared(pairs.done(where))
    for tab, _ in compare_view.TABS:
        for line in compare_view.lines(found, tab, 0, width):
            assert line.cell_length <= width, line.plain


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((), ""),
        (("running",), ""),
        (("passed", "running"), "1/1 passed"),
        (("passed", "failed", "interrupted"), "1/3 passed"),
    ],
)
def test_runs_of_a_load_are_counted_when_they_are_over(states: tuple[Any, ...], words: str) -> None:
    assert compare_view.run_count([RunView("r", "rung", 1, state) for state in states]) == words


def test_loads_to_come_are_those_without_one_that_counts() -> None:
    begun = (LoadView(0, 1, "baseline", "old-lane", False, "whole"),)
    assert [load.number for load in compare_view.to_come(pairs.PLANNED, begun)] == [1, 2]
    aside = tuple(dataclasses.replace(load, state="put aside") for load in begun)
    assert [load.number for load in compare_view.to_come(pairs.PLANNED, aside)] == [0, 1, 2]


# The live screen: the lane of the load that is up now, its runs, the result at the end.


def desk(where: Locations) -> Any:
    """What the console reads of the state folder; its notes are told by a clock that does not stand."""
    lanes = where.profiles / "lanes"
    lanes.mkdir(parents=True, exist_ok=True)
    for name in pairs.LANES.values():
        (lanes / f"{name}.toml").write_bytes(scenes.practice().raw)
    source = DeskSource(where, lambda _: None)
    source.poke()
    source.look()
    found = source._desk
    assert found.shown is not None
    return dataclasses.replace(found, shown=dataclasses.replace(found.shown, notes=()))


def test_the_live_screen_follows_the_lane_whose_turn_it_is(where: Locations) -> None:
    with pairs.pair(where) as told:
        told.load(pairs.PLANNED[0])
        assert desk(where).lane.name == "old-lane"
        told.begin(pairs.PLANNED[1])
        told.live()
        found = desk(where)
    assert found.lane.name == "new-lane" and found.running is not None
    assert [one.state for one in found.shown.acceptance] == ["met", "not yet known"]
    rows = [row.content.plain for row in loads_view.load_rows(found.shown, 0, 100)]
    assert rows[0].startswith("A  block 1  old-lane  came up in 4m00s  2/2 passed  done")
    assert rows[3].startswith("B  block 1  new-lane  came up in 4m01s")
    assert rows[4].startswith("A' block 1  old-lane  planned")
    assert "1 of 2 met" in loads_view.standing_words(found.shown).plain


def test_after_the_end_the_conditions_come_first(where: Locations) -> None:
    pairs.done(where)
    shown = desk(where).shown
    rows = [row.content.plain for row in loads_view.load_rows(shown, 0, 100)]
    assert rows[0].startswith("met      candidate: healthy start")
    assert shown.row.standing == "complete" and shown.row.lanes == ("old-lane", "new-lane")


def test_a_campaign_of_two_lanes_is_found_by_either(where: Locations) -> None:
    pairs.done(where)
    assert desk(where).lane.name == "old-lane"


# The screen itself.


class Unread(Source):
    """A thread that reads nothing: a test posts what it would have read."""

    def __init__(self, post: Post) -> None:
        super().__init__("comparison", 60.0, post)

    def look(self) -> None:
        return


def screen(comparison: Comparison) -> CompareScreen:
    found = CompareScreen(lambda _: None, lambda: None, Unread)
    found.take(CompareRead(comparison))
    return found


SIZES = [(120, 40), (80, 24)]
STARTS: dict[ArmRole, StartPhases] = {
    "baseline": StartPhases((("load_weights", 70.0), ("compile", 31.5), ("graph_capture", 12.0)), failed=False),
    "candidate": StartPhases((("load_weights", 72.0), ("autotune", 8.0), ("graph_capture", None)), failed=True),
}


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("key", ["1", "2", "3", "4"])
async def test_the_compare_screen(where: Locations, tmp_path: Path, key: str, size: tuple[int, int]) -> None:
    found = pairs.compared(pairs.done(where))
    drawn = dataclasses.replace(found.conclusions.plotted, starts=STARTS)
    found = dataclasses.replace(found, conclusions=dataclasses.replace(found.conclusions, plotted=drawn))
    async with still(tmp_path, size) as (app, pilot):
        app.push_screen(screen(found))
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
        same(f"compare-{key}-{size[0]}x{size[1]}.txt", text_of(app))


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_a_pair_on_the_live_screen(where: Locations, tmp_path: Path, size: tuple[int, int]) -> None:
    with pairs.pair(where) as told:
        told.load(pairs.PLANNED[0])
        told.begin(pairs.PLANNED[1])
        told.live()
        found = desk(where)
    shown = dataclasses.replace(found.shown, seconds={})
    async with still(tmp_path, size) as (app, pilot):
        await show(app, pilot, dataclasses.replace(found, shown=shown), scenes.gpus(), scenes.log())
        same(f"live-pair-{size[0]}x{size[1]}.txt", text_of(app))


@pytest.mark.anyio
async def test_compare_opens_on_a_pair_only_reads_it_and_lends_its_keys(where: Locations, tmp_path: Path) -> None:
    pairs.done(where)
    found = desk(where)
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.ladder_desk())
        await pilot.press("C")
        await pilot.pause()
        assert "only a paired campaign has arms to compare" in text_of(app)
        await show(app, pilot, found)
        await pilot.press("C")
        for _ in range(100):
            await pilot.pause(0.02)
            if "2 of 2 met" in text_of(app):
                break
        assert isinstance(app.screen, CompareScreen) and "2 of 2 met" in text_of(app)
        await pilot.press("tab", "tab", "tab", "left", "left")
        await pilot.pause()
        assert "[Figures]" in text_of(app)
        await pilot.press("v")
        for _ in range(100):
            await pilot.pause(0.02)
            if not app.acts.open:
                break
        app.screen.paint()
        await pilot.pause()
        assert "nothing to verify" in text_of(app)
        source = app.screen._source
        await pilot.press("escape")
        await settle(app, pilot)
        assert not isinstance(app.screen, CompareScreen)
        source.join(2)
        assert not source.is_alive()
