"""Reading a state folder as runners and lanes write it: real journals, real locks, real load folders."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
import pytest

from anvil_tui import clock
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal
from anvil_tui.console.snapshot import Choice, Desk
from anvil_tui.console.sources.desk_source import DeskSource
from anvil_tui.files import write_atomic
from anvil_tui.lanes.folder import LaneFolder
from anvil_tui.locations import Locations
from anvil_tui.records import events
from anvil_tui.records.artifact import LaneObserved, RunArtifact
from anvil_tui.records.live import Live
from anvil_tui.records.load import Launched, Ready, Started
from anvil_tui.records.plan import CampaignPlan, LadderPlan
from anvil_tui.records.request import RequestRecord
from tests.unit.console import scenes
from tests.unit.console.still import locations


class Reading:
    """A desk source that is looked with by hand."""

    def __init__(self, where: Locations) -> None:
        self.source = DeskSource(where, lambda _: None)

    def desk(self) -> Desk:
        self.source.poke()
        self.source.look()
        return self.source._desk


@pytest.fixture
def where(tmp_path: Path) -> Locations:
    found = locations(tmp_path)
    lanes = found.profiles / "lanes"
    lanes.mkdir(parents=True)
    for name in ("practice", "other"):
        (lanes / f"{name}.toml").write_bytes(scenes.practice().raw)
    return found


def begun(where: Locations, lane: str = "practice", *, at: str = "20261201T120000Z") -> CampaignFolder:
    """A ladder campaign of two rungs whose plan is on disk."""
    path = where.campaigns / f"anvil-{at}-ladder-{lane}-0123ab"
    for name in ("runs", "startup", "inbox", "vram"):
        (path / name).mkdir(parents=True)
    plan = CampaignPlan(
        campaign_id=path.name, kind="ladder", lanes=(lane,), up=False, rehearsal=True, nonce_seed="0" * 32,
        ladder=LadderPlan(targets=(2000, 6000), max_tokens=64, margin=0, reasoning_effort=None),
        lane_sha256={lane: "hash"}, created_at=scenes.AT, tool_version="0",
    )  # fmt: skip
    (path / "plan.json").write_bytes(msgspec.json.encode(plan))
    return CampaignFolder(path)


def started(pid: int = 1) -> events.RunnerStarted:
    return events.RunnerStarted(tool_version="0", python="3", pid=pid, boot_id=clock.boot_id(), resumed=False)


def planned(folder: CampaignFolder, lane: str = "practice") -> events.CampaignPlanned:
    return events.CampaignPlanned(
        campaign_id=folder.id, campaign_kind="ladder", lanes=(lane,), plan_sha256="0", rehearsal=True
    )


def artifact(run: str) -> RunArtifact:
    request = RequestRecord(
        request_index=0, outcome="ok", model="m", max_tokens=64, prompt_tokens=2000, ttft_ms=29.5,
        effective_prefill_tok_s=7343.7, decode_tok_s=75.2, e2e_ms=400.0, output_tokens=30,
    )  # fmt: skip
    lane = LaneObserved(
        lane="practice", load_id="l", model="m", served_name="m", max_model_len=131072, engine="vllm",
        engine_version=None, rehearsal=True,
    )  # fmt: skip
    return RunArtifact(
        nonce="0", rehearsal=True, campaign_id="c", run=run, what="rung", lane=lane, target_tokens=2000,
        limit_tokens=1, started_at=scenes.AT, finished_at=scenes.AT, boot_id=clock.boot_id(), passed=True, words="good",
        checks=(), requests=(request,), reserve=None, counters_before=None, counters_after=None,
    )  # fmt: skip


def test_nothing_yet_is_an_empty_desk(where: Locations) -> None:
    desk = Reading(where).desk()
    assert [row.name for row in desk.lanes if row.lane and row.lane.path.is_relative_to(where.profiles)] == [
        "other", "practice",
    ]  # fmt: skip
    assert (desk.lane, desk.shown, desk.running) == (None, None, None)


def test_a_campaign_as_it_grows(where: Locations) -> None:
    reading, folder = Reading(where), begun(where)
    with Journal.take(folder.journal) as journal:
        journal.append(started())
        journal.append(planned(folder))
        journal.append(events.RunStarted(lane="practice", run="practice-r1", what="rung", target_tokens=2000))
        write_atomic(
            folder.live,
            msgspec.json.encode(
                Live(mono_us=clock.mono_us(), at=scenes.AT, boot_id=clock.boot_id(), pid=1, step="practice-r1")
            ),
        )
        desk = reading.desk()
        assert desk.running is not None and desk.running.folder.id == folder.id
        assert desk.lane is not None and desk.lane.name == "practice"
        assert desk.shown is not None and desk.shown.live is not None and desk.shown.live.step == "practice-r1"
        (folder.path / "runs" / "practice-r1.json").write_bytes(msgspec.json.encode(artifact("practice-r1")))
        journal.append(
            events.RunFinished(
                run="practice-r1", path="runs/practice-r1.json", sha256="0", bytes=1, passed=True, outcome="ok",
                reserve=None, words="good",
            )
        )  # fmt: skip
        # A capacity run of that many tokens says nothing about a rung.
        journal.append(events.RunStarted(lane="practice", run="practice-r2", what="capacity", target_tokens=4096))
        journal.append(
            events.RunFinished(
                run="practice-r2", path="runs/practice-r2.json", sha256="0", bytes=1, passed=True, outcome="ok",
                reserve=None, words="good",
            )
        )  # fmt: skip
        journal.append(events.Asked(request="r-1", ask="stop_now"))
        reading.source.look()
        shown = reading.source._desk.shown
        assert shown is not None
        figures = shown.figures["practice-r1"]
        assert (figures.prompt_tokens, figures.ttft_ms, figures.decode_tok_s) == (2000, 29.5, 75.2)
        assert 0 <= shown.seconds["practice-r1"] < 10
        assert shown.asked == {"r-1"}
        assert [note.level for note in shown.notes][-1] == "good"
    desk = reading.desk()
    assert desk.running is None
    assert desk.shown is not None and desk.shown.row.standing == "interrupted"
    assert [rung.target_tokens for rung in desk.past["practice hash"]] == [2000]


def test_what_is_shown_follows_what_happens_until_the_operator_chooses(where: Locations) -> None:
    reading = Reading(where)
    old = begun(where, "other", at="20261201T100000Z")
    new = begun(where, "practice", at="20261201T110000Z")
    for folder, lane in ((old, "other"), (new, "practice")):
        with Journal.take(folder.journal) as journal:
            journal.append(started())
            journal.append(planned(folder, lane))
    shown = reading.desk().shown
    assert shown is not None and shown.row.folder.id == new.id, "the newest where nothing runs"
    with Journal.take(old.journal):
        shown = reading.desk().shown
        assert shown is not None and shown.row.folder.id == old.id, "what runs before what is new"
    reading.source.choose(Choice(lane="practice"))
    desk = reading.desk()
    assert desk.lane is not None and desk.lane.name == "practice"
    assert desk.shown is not None and desk.shown.row.folder.id == new.id
    reading.source.choose(Choice(campaign=old.id))
    desk = reading.desk()
    assert desk.shown is not None and desk.shown.row.folder.id == old.id
    assert desk.lane is not None and desk.lane.name == "other"


def test_a_living_load_is_found_and_a_dead_one_says_how_it_ended(where: Locations) -> None:
    reading = Reading(where)
    load = LaneFolder.create(where.lanes, "practice")
    load.write(
        Launched(
            lane="practice", load_id=load.load_id, kind="rehearsal", engine="vllm", at=scenes.AT,
            mono_us=clock.mono_us(), boot_id=clock.boot_id(), base_url="http://127.0.0.1:1", served_name="m",
            log="lane.log",
        )
    )  # fmt: skip
    child = subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        ticks = clock.start_ticks(child.pid)
        assert ticks is not None
        record = Started(
            pid=child.pid, start_ticks=ticks, boot_id=clock.boot_id(), at=scenes.AT, mono_us=clock.mono_us(),
            holder_pid=os.getpid(), holder_start_ticks=0,
        )  # fmt: skip
        (load.path / "started.json").write_bytes(msgspec.json.encode(record))
        desk = reading.desk()
        assert desk.lane is not None and (desk.lane.name, desk.lane.state) == ("practice", "starting")
        assert desk.log == load.path / "lane.log"
        load.write(
            Ready(
                at=scenes.AT, mono_us=clock.mono_us(), startup_seconds=4.6, served_name="m", max_model_len=131072,
                engine_version=None,
            )
        )  # fmt: skip
        desk = reading.desk()
        assert desk.lane is not None and desk.lane.state == "up"
    finally:
        child.kill()
        child.wait()
    desk = reading.desk()
    row = desk.row("practice")
    assert row is not None and row.state == "gone"
    assert "its holder was killed" in row.words


def test_profiles_are_read_when_they_change(where: Locations) -> None:
    reading = Reading(where)
    reading.desk()
    kept = reading.source._lanes
    reading.desk()
    assert reading.source._lanes is kept
    (where.profiles / "lanes" / "broken.toml").write_text("nonsense")
    row = reading.desk().row("broken")
    assert row is not None and row.state == "refused" and "broken.toml" in row.words
    where.config.mkdir(parents=True)
    where.machine.write_text("[")
    desk = reading.desk()
    assert "machine.toml" in desk.faults[0]
    assert desk.row("practice") is not None, "a bad machine file hides no lane that was read before"


def test_a_journal_that_does_not_hold_and_a_folder_without_a_plan(where: Locations) -> None:
    reading, folder = Reading(where), begun(where)
    with Journal.take(folder.journal) as journal:
        journal.append(started())
    raw = folder.journal.read_bytes()
    folder.journal.write_bytes(raw + raw)
    (folder.path / "plan.json").write_text("{}")
    (where.campaigns / "anvil-nothing").mkdir()
    desk = reading.desk()
    assert desk.shown is not None and desk.shown.broken is not None
    assert desk.shown.row.plan is None
    assert any(note.level == "bad" for note in desk.shown.notes)


def test_the_report_and_the_log_are_of_one_load(where: Locations) -> None:
    """An old campaign shows the log of its own load, also while a newer load of the lane lives."""
    loads = {}
    for name in ("20261201T100000Z-aaaaaa", "20261201T110000Z-bbbbbb"):
        load = loads[name] = LaneFolder(where.lanes / "practice" / name)
        load.path.mkdir(parents=True)
        load.write(
            Launched(
                lane="practice", load_id=name, kind="rehearsal", engine="vllm", at=scenes.AT, mono_us=1, boot_id="old",
                base_url="http://127.0.0.1:1", served_name="m", log="lane.log",
            )
        )  # fmt: skip
        load.write(scenes.report())
    old, new = loads.values()
    reading, folder = Reading(where), begun(where)
    with Journal.take(folder.journal) as journal:
        journal.append(started())
        journal.append(planned(folder))
        desk = reading.desk()
        assert (desk.log, desk.report) == (None, None), "what it will start is not there yet; the old one is not shown"
        journal.append(events.LoadStarted(lane="practice", load_id=old.load_id, launch="rehearsal", pid=1))
    desk = reading.desk()
    assert desk.lane is not None and desk.lane.load_id == new.load_id
    assert desk.log == old.path / "lane.log"
    assert desk.report is not None
