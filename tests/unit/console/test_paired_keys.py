"""Starting a pair, deciding on it, its report: what each form shows, asks and refuses before anything happens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from textual.containers import VerticalScroll
from textual.widgets import Input

from anvil_tui.campaigns import sealing
from anvil_tui.campaigns.pairs.campaign_file import all_campaign_files, find_campaign_file
from anvil_tui.campaigns.pairs.outlook import describe
from anvil_tui.campaigns.pairs.pace import Pace, Past
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.console.messages import ActDone
from anvil_tui.console.paired import acts, outlook_view
from anvil_tui.console.paired.decision import DecisionScreen, DecisionText, plain
from anvil_tui.console.paired.decision_view import starting_text
from anvil_tui.console.paired.form import PairedScreen
from anvil_tui.console.screens.picker import PickerScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.errors import BadInput, CannotRun
from anvil_tui.locations import Locations
from anvil_tui.records.campaign_file import NamedDifference
from anvil_tui.records.events import Decided, DocumentWritten
from tests.unit.console import pairs, scenes
from tests.unit.console.snapshots import same
from tests.unit.console.still import StillApp, live_of, settle, show, still, text_of
from tests.unit.console.test_compare import desk

SIZES = [(120, 40), (80, 24)]
PACE = Pace(startup_s=240, gate_request_s=2, prefill_tok_s=1000, decode_tok_s=50, output_tokens=100)


@pytest.fixture
def where(tmp_path: Path) -> Locations:
    return pairs.site(tmp_path)


def lanes(where: Locations, *, undeclared: bool = False) -> str:
    """Two rehearsal lanes of one's own and a campaign of them; its name."""
    shipped = where.shipped_profiles / "lanes"
    for kind in ("lanes", "campaigns"):
        (where.profiles / kind).mkdir(parents=True, exist_ok=True)
    for name, source in (("old-lane", "rehearsal-batch8192"), ("new-lane", "rehearsal-batch4096")):
        toml = (shipped / f"{source}.toml").read_text()
        if undeclared and name == "new-lane":
            toml = re.sub(r"(?m)^max_num_seqs = .*$", "max_num_seqs = 2", toml)
        (where.profiles / "lanes" / f"{name}.toml").write_text(toml)
    (where.profiles / "campaigns" / "batch.toml").write_text(pairs.FILE.replace("{document}", "change"))
    return "batch"


async def acted(app: StillApp, pilot: Any) -> ActDone:
    """Let the thread of an act end and its outcome be taken up."""
    for _ in range(500):
        await pilot.pause(0.01)
        if not app.acts.open:
            break
    await settle(app, pilot)
    return ActDone("", lambda _: None)


def held(app: StillApp) -> list[tuple[str, Any]]:
    """Collect the acts that keys start instead of doing them."""
    started: list[tuple[str, Any]] = []
    app.acts.start = lambda act, work, done: started.append((act, done))  # type: ignore[method-assign]
    return started


# The list of campaign files.


def test_files_that_are_valid_here_come_first(where: Locations) -> None:
    lanes(where)
    files = all_campaign_files(where)
    rows = outlook_view.file_rows(files, 100)
    valid = [not isinstance(files[row.id], BadInput) for row in rows]
    assert valid == sorted(valid, reverse=True) and False in valid
    assert rows[0].id == "batch" and "ABA, 3 loads" in rows[0].content.plain
    refused = next(row for row in rows if row.id == "seed000")
    assert "not valid here: arms.baseline.lane" in refused.content.plain
    assert "no lane 'deepseek-r16-nospec'" in outlook_view.file_facts(files["seed000"], 200).plain
    assert all(row.content.cell_length <= 100 for row in rows)


@pytest.mark.parametrize("width", [70, 100])
def test_every_shipped_outlook_fits(where: Locations, width: int) -> None:
    for name, one in all_campaign_files(where).items():
        if isinstance(one, BadInput):
            continue
        paces = dict.fromkeys((lane.name for lane in one.lanes.values()), PACE)
        for line in outlook_view.outlook_lines(describe(one, Past(paces)), width):
            assert line.cell_length <= width, (name, line.plain)


def test_an_outlook_in_lines(where: Locations) -> None:
    campaign = find_campaign_file("rehearsal-seed004", where)
    shown = "\n".join(line.plain for line in outlook_view.outlook_lines(describe(campaign, Past()), 100))
    assert "controlled    recipe.max_num_batched_tokens  8192 → 4096" in shown
    assert "Loads in order  A B A'" in shown and "3 loads, 11 runs, 42 requests" in shown
    assert "expected time: not known, these lanes were not measured here yet" in shown
    paces = dict.fromkeys(("rehearsal-batch8192", "rehearsal-batch4096"), PACE)
    shown = "\n".join(line.plain for line in outlook_view.outlook_lines(describe(campaign, Past(paces)), 100))
    assert "1  A block 1: rehearsal-batch8192, about 10m31s" in shown
    assert "about 33m10s by what these lanes did before, stops and closeout included" in shown
    assert "assumed: 30 s for the closeout, its validations left out: this file was not run here before" in shown


# The form.


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_form(where: Locations, tmp_path: Path, size: tuple[int, int]) -> None:
    lanes(where, undeclared=True)
    campaign = find_campaign_file("batch", where)
    async with still(tmp_path, size) as (app, pilot):
        app.push_screen(PairedScreen(acts.Prospect(campaign, Past()), lambda *_: None))
        await pilot.pause()
        await pilot.pause()
        same(f"dialog-pair-{size[0]}x{size[1]}.txt", text_of(app))
        await pilot.press("down")
        await pilot.pause()
        outlook = app.screen.query_one("#outlook", VerticalScroll)
        assert outlook.scroll_y == (1 if outlook.max_scroll_y else 0), "the arrows read, whatever has the focus"


@pytest.mark.anyio
async def test_p_shows_what_will_run_and_the_second_enter_starts_it(where: Locations, tmp_path: Path) -> None:
    lanes(where)
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.empty_desk())
        await pilot.press("p")
        await acted(app, pilot)
        assert isinstance(app.screen, PickerScreen)
        await pilot.press("enter")
        await acted(app, pilot)
        assert isinstance(app.screen, PairedScreen) and "Loads in order  A B A'" in text_of(app)
        assert not (where.state / "campaigns").exists(), "nothing runs yet"
        started = held(app)
        await pilot.press("enter")
        await pilot.pause()
        act, done = started.pop()
        assert act == "begin the paired campaign"
        await pilot.press("enter")
        await pilot.pause()
        assert not started, "it is begun once"
        done(ActDone(act, done, error="old-lane: port 39181 is in use"))
        await pilot.pause()
        assert "port 39181 is in use" in text_of(app) and isinstance(app.screen, PairedScreen)
        await pilot.press("enter")
        await pilot.pause()
        act, done = started.pop()
        done(ActDone(act, done, "anvil-new"))
        await pilot.pause()
        assert app.screen is live_of(app) and app.desk._choice.campaign == "anvil-new"


@pytest.mark.anyio
async def test_start_and_seal_stands_there_where_a_key_signs_unattended(where: Locations, tmp_path: Path) -> None:
    lanes(where)
    campaign = find_campaign_file("batch", where)
    assert acts.prospect(campaign)(where).sealer is None
    with pytest.raises(CannotRun, match="needs no passphrase"):
        acts.begin(campaign, (), seal=True)(where)
    assert not (where.state / "campaigns").exists()
    sealing.create_key(where, "op@lab", None)
    prospect = acts.prospect(campaign)(where)
    asked: list[bool] = []
    async with still(tmp_path) as (app, pilot):
        app.push_screen(PairedScreen(prospect, lambda _, seal, __: asked.append(seal)))
        await pilot.pause()
        assert "Start and seal: no decision text, signed as op@lab" in text_of(app)
        await pilot.press("tab", "enter")
        await pilot.pause()
    assert asked == [True]


@pytest.mark.anyio
async def test_an_undeclared_difference_must_be_named(where: Locations, tmp_path: Path) -> None:
    lanes(where, undeclared=True)
    campaign = find_campaign_file("batch", where)
    begun: list[tuple[NamedDifference, ...]] = []
    async with still(tmp_path) as (app, pilot):
        app.push_screen(PairedScreen(acts.Prospect(campaign, Past()), lambda named, *_: begun.append(named)))
        await pilot.pause()
        assert "NOT DECLARED  recipe.max_num_seqs  1 → 2" in text_of(app)
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert begun == [] and "refused: nobody declared recipe.max_num_seqs" in text_of(app)
        assert isinstance(app.focused, Input), "the field to fill has the focus"
        await pilot.press(*"spare lane")
        await pilot.pause()
        assert "because spare lane" in text_of(app) and "NOT DECLARED" not in text_of(app)
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert begun == [(NamedDifference(field="recipe.max_num_seqs", why="spare lane"),)]


@pytest.mark.anyio
async def test_a_file_that_is_not_valid_here_tells_its_faults(where: Locations, tmp_path: Path) -> None:
    (where.profiles / "campaigns").mkdir(parents=True)
    (where.profiles / "campaigns" / "zz.toml").write_text("schema = 1\n")
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scenes.empty_desk())
        await pilot.press("p")
        await acted(app, pilot)
        await pilot.press("end", "enter")
        await pilot.pause()
        assert isinstance(app.screen, TextScreen) and "zz is not valid here" in text_of(app)
        assert "schema" in text_of(app)


def test_beginning_refuses_what_the_command_line_refuses(where: Locations) -> None:
    lanes(where, undeclared=True)
    campaign = find_campaign_file("batch", where)
    with pytest.raises(BadInput, match="max_num_seqs"):
        acts.begin(campaign, ())(where)
    assert not where.campaigns.exists()


# The decision.


@pytest.mark.parametrize(
    ("comparison", "acceptance", "words"),
    [
        ({}, {}, ""),
        ({"decision": "keep new"}, {}, "keep new"),
        (
            {},
            {"rehearsal": True, "conditions": [{"text": "healthy", "state": "met"}, {"text": "KV", "state": "open"}]},
            "REHEARSAL: never evidence.\nAcceptance: 1 of 2 conditions met; not met or not known: KV.\n"
            "This text promotes nothing.",
        ),
        (
            {
                "controlled_change": {"field": "max_num_batched_tokens", "baseline": 8192, "candidate": 4096},
                "startup_measurements": {
                    "candidate_minus_baseline": {
                        "gpu_kv_cache_tokens_reported_percent": 94.861,
                        "available_kv_cache_gib": 0.72,
                    }
                },
                "matched_context_ladder": {
                    "largest_request_candidate_minus_baseline_percent": {"ttft": -0.4, "e2e": None}
                },
                "caveats": [{}],
            },
            {},
            "Changed: max_num_batched_tokens 8192 → 4096.\nReported KV tokens +94.9 %, KV memory +0.72 GiB.\n"
            "Largest request: TTFT -0.4 %.\n1 caveat.\nThis text promotes nothing.",
        ),
    ],
)
def test_the_text_to_begin_with(comparison: dict[str, Any], acceptance: dict[str, Any], words: str) -> None:
    assert starting_text(comparison, acceptance) == words


def test_a_draft_is_the_newest_decision_else_what_the_documents_say(where: Locations) -> None:
    folder = pairs.done(where)
    first = acts.draft_decision(folder)(where)
    assert "Acceptance: 2 of 2 conditions met." in first.text and first.origin == "documents/acceptance.json"
    assert "decision.txt" in acts.decide(folder, "we keep the new one")(where)
    assert acts.draft_decision(folder)(where) == acts.Draft("we keep the new one", "decision.txt")
    assert "decision-2.txt" in acts.decide(folder, "after all we do not")(where)
    assert acts.draft_decision(folder)(where).origin == "decision-2.txt"
    assert pairs.compared(folder).decided == "decision-2.txt"


@pytest.mark.parametrize(
    ("typed", "kept"),
    [
        ("one\ntwo", "one\ntwo"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("\x1b[31mred\x1b[0m\n\x1b]0;owned\x07x", "red\nx"),
        ("a\x00b", "a\ufffdb"),
        ("\n\n", "\n\n"),
    ],
)
def test_only_plain_text_can_be_typed(typed: str, kept: str) -> None:
    assert plain(typed) == kept


@pytest.mark.anyio
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_decision_is_edited_and_saved(where: Locations, tmp_path: Path, size: tuple[int, int]) -> None:
    folder = pairs.done(where)
    async with still(tmp_path, size) as (app, pilot):
        await show(app, pilot, desk(where))
        await pilot.press("d")
        await acted(app, pilot)
        assert isinstance(app.screen, DecisionScreen)
        same(f"dialog-decision-{size[0]}x{size[1]}.txt", text_of(app))
        await pilot.press("enter", *"We keep it.")
        await pilot.press("escape")
        await pilot.pause()
        assert "once more throws the changes away" in text_of(app)
        await pilot.press(*" Now.", "ctrl+s")
        await acted(app, pilot)
        assert app.screen is live_of(app) and "the decision stands in decision.txt" in text_of(app)
    assert (folder.path / "decision.txt").read_text().endswith("This text promotes nothing.\nWe keep it. Now.")
    assert isinstance(list(read_journal(folder.journal))[-1][1], Decided)


@pytest.mark.anyio
async def test_a_decision_that_is_refused_stays_to_be_saved_again(where: Locations, tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        tried: list[str] = []
        screen = DecisionScreen(acts.Draft("x", "decision.txt"), pairs.ID, lambda text, _: tried.append(text))
        app.push_screen(screen)
        await pilot.pause()
        await pilot.press("ctrl+s", "ctrl+s")
        await pilot.pause()
        assert tried == ["x"]
        screen.acted(ActDone("", lambda _: None, error="the campaign is written by another process"))
        await pilot.pause()
        assert "written by another process" in text_of(app) and screen.query_one(DecisionText).text == "x"
        await pilot.press("ctrl+s")
        await pilot.pause()
        assert tried == ["x", "x"]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("scene", "words"), [(scenes.ladder_desk, "it still runs"), (scenes.sealed_desk, "it is sealed")]
)
async def test_a_decision_follows_the_end_and_precedes_the_seal(scene: Any, words: str, tmp_path: Path) -> None:
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, scene())
        await pilot.press("d")
        await pilot.pause()
        assert app.screen is live_of(app) and words in text_of(app)


# The report.


def test_the_report_is_written_once_and_again_after_a_decision(where: Locations) -> None:
    folder = pairs.done(where)
    assert acts.report(folder)(where).name == "report.html"
    assert acts.report(folder)(where).name == "report.html"
    acts.decide(folder, "we keep it")(where)
    assert acts.report(folder)(where).name == "report-2.html"
    assert "we keep it" in (folder.path / "report-2.html").read_text()
    written = [event for _, event in read_journal(folder.journal) if isinstance(event, DocumentWritten)]
    assert [one.path for one in written if one.schema == "text/html"] == ["report.html", "report-2.html"]


def test_a_sealed_campaign_without_a_report_keeps_none(where: Locations) -> None:
    folder = pairs.done(where)
    (folder.path / "SHA256SUMS").write_text("")
    with pytest.raises(CannotRun, match="is sealed"):
        acts.report(CampaignFolder(folder.path))(where)


@pytest.mark.anyio
async def test_o_tells_the_path_and_does_not_disturb_a_question(where: Locations, tmp_path: Path) -> None:
    pairs.done(where)
    async with still(tmp_path) as (app, pilot):
        await show(app, pilot, desk(where))
        started = held(app)
        await pilot.press("o")
        await pilot.pause()
        act, done = started.pop()
        done(ActDone(act, done, Path("/state/report.html")))
        await pilot.pause()
        assert isinstance(app.screen, TextScreen) and "/state/report.html" in text_of(app)
        done(ActDone(act, done, Path("/state/report-2.html")))
        await pilot.press("escape")
        await settle(app, pilot)
        assert app.screen is live_of(app) and "the report: /state/report-2.html" in text_of(app)
