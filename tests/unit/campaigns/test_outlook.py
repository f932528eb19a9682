"""What will run, told before it begins: from the file alone, and how long from what the lanes did before."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from anvil_tui.campaigns.pairs.campaign_file import find_campaign_file
from anvil_tui.campaigns.pairs.outlook import ASSUMED_CLOSEOUT_S, ASSUMED_SWAP_S, describe, gate_requests
from anvil_tui.campaigns.pairs.overheads import overheads
from anvil_tui.campaigns.pairs.pace import Pace, Past, lane_pace, read_past
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.lanes.folder import LaneFolder
from anvil_tui.locations import Locations
from anvil_tui.records.load import Ready
from anvil_tui.records.plan import CampaignPlan, GatePlan
from tests.unit.evidence.samples import artifact, request

PACE = Pace(startup_s=240, gate_request_s=2, prefill_tok_s=1000, decode_tok_s=50, output_tokens=100)


@pytest.fixture
def locations(tmp_path: Path) -> Locations:
    return Locations(state=tmp_path / "state", profiles=tmp_path / "profiles", config=tmp_path / "config")


def test_a_pair_is_told_whole(locations: Locations) -> None:
    outlook = describe(find_campaign_file("rehearsal-seed000", locations), Past())
    assert outlook.rehearsal and outlook.document == "paired"
    assert [load.letter for load in outlook.loads] == list("ABBAABBA")
    assert [part.what for part in outlook.loads[0].parts] == ["gate", "capacity"]
    assert (outlook.runs, outlook.requests) == (8 * 4, 8 * (9 + 3 * 4))
    assert outlook.expected_s is None
    assert {one.standing for one in outlook.differences} == {"controlled"}
    assert "candidate: decode_tok_s_p50 at least 100" in outlook.acceptance
    assert msgspec.json.encode(outlook)


def test_the_gate_runs_on_the_arms_that_the_file_names(locations: Locations) -> None:
    outlook = describe(find_campaign_file("rehearsal-seed004", locations), Past())
    assert [[part.what for part in load.parts] for load in outlook.loads] == [
        ["ladder"],
        ["gate", "ladder", "post_gate"],
        ["ladder"],
    ]
    assert [load.replay for load in outlook.loads] == [False, False, True]
    assert outlook.requests == 3 * 3 + 26 + 7
    assert outlook.closeout == (
        "route watched: rehearsal-route.json",
        "promotion watched: rehearsal-promotion.json",
        "runs route_file_is_json: python3 -m json.tool rehearsal-route.json",
    )


def test_the_duration_follows_from_the_pace_of_every_lane(locations: Locations) -> None:
    campaign = find_campaign_file("rehearsal-seed004", locations)
    lanes = ("rehearsal-batch8192", "rehearsal-batch4096")
    outlook = describe(campaign, Past(dict.fromkeys(lanes, PACE)))
    load = 240 + 117.5 + 118.5 + 119.5 + 3 * 2 + ASSUMED_SWAP_S
    assert outlook.loads[0].expected_s == pytest.approx(load)
    assert outlook.expected_s == pytest.approx(3 * load + 2 * (26 + 7) + ASSUMED_CLOSEOUT_S)
    assert outlook.assumed == (
        "30 s for each stop and swap of rehearsal-batch8192 and rehearsal-batch4096: none was measured here",
        "30 s for the closeout, its validations left out: this file was not run here before",
    )
    known = replace(PACE, swap_s=12.0, run_extra_s=1.0)
    outlook = describe(campaign, Past(dict.fromkeys(lanes, known), closeout_s=45.0))
    assert outlook.expected_s == pytest.approx(3 * (load - ASSUMED_SWAP_S + 12 + 3 * 1.0) + 2 * (26 + 7) + 45)
    assert outlook.assumed == ()
    one_known = describe(campaign, Past({lanes[0]: PACE}))
    assert one_known.expected_s is None and one_known.loads[0].expected_s is not None


def test_a_capacity_run_counts_its_warm_up(locations: Locations) -> None:
    outlook = describe(find_campaign_file("rehearsal-aa", locations), Past({"rehearsal-control": PACE}))
    one = 4.096 + 2
    assert outlook.loads[0].parts[0].expected_s == pytest.approx(3 * (1 + 3) * one)


def test_requests_of_a_gate() -> None:
    assert gate_requests(GatePlan()) == 26
    assert gate_requests(GatePlan(checks=("needle", "tools"), tool_batch=3, needle_depths=(0.1, 0.5))) == 5


def test_the_pace_is_read_from_earlier_loads_and_runs(locations: Locations) -> None:
    assert lane_pace("lane", locations) == Pace()
    for seconds in (10.0, 30.0):
        load = LaneFolder.create(locations.lanes, "lane")
        load.write(
            Ready(at="t", mono_us=0, startup_seconds=seconds, served_name="m", max_model_len=1, engine_version=None)
        )
    folder = CampaignFolder.create(locations.campaigns, "capacity", "lane")
    plan = CampaignPlan(
        campaign_id=folder.id, kind="capacity", lanes=("lane",), up=True, rehearsal=True, nonce_seed="0" * 32,
        created_at="t", tool_version="0",
    )  # fmt: skip
    (folder.path / "plan.json").write_bytes(msgspec.json.encode(plan))
    run = artifact("lane-r1", (request(), request(1)))
    (folder.path / "runs" / "lane-r1.json").write_bytes(msgspec.json.encode(run))
    (folder.path / "runs" / "lane-r2.json").write_bytes(b"{ torn")
    pace = lane_pace("lane", locations)
    assert pace.startup_s == 20.0
    assert pace.prefill_tok_s is not None and pace.decode_tok_s is not None
    assert pace.output_tokens == request().output_tokens
    assert pace.gate_request_s is None and pace.swap_s is None
    assert pace.run_extra_s == pytest.approx(60 - 3.2)
    assert lane_pace("other", locations) == Pace()


def test_what_a_campaign_takes_beside_its_runs_is_read_from_earlier_ones(locations: Locations) -> None:
    campaign = find_campaign_file("rehearsal-aa", locations)
    assert read_past(campaign, locations) == Past({"rehearsal-control": Pace()})
    folder = CampaignFolder.create(locations.campaigns, "paired", "aa")
    plan = CampaignPlan(
        campaign_id=folder.id, kind="paired", lanes=("rehearsal-control",), up=True, rehearsal=True,
        nonce_seed="0" * 32, campaign_name="rehearsal-aa", created_at="t", tool_version="0",
    )  # fmt: skip
    (folder.path / "plan.json").write_bytes(msgspec.json.encode(plan))
    folder.journal.write_bytes(b"".join(_lines()))
    past = read_past(campaign, locations)
    assert past.paces["rehearsal-control"].swap_s == pytest.approx(7.0)
    assert past.closeout_s == pytest.approx(9.0)
    other = read_past(find_campaign_file("rehearsal-seed000", locations), locations)
    assert other.paces["rehearsal-control"].swap_s == pytest.approx(7.0)
    assert other.closeout_s is None, "the closeout of another file"
    resumed = list(read_journal(folder.journal))
    resumed.insert(4, resumed[0])
    assert not overheads(resumed).swaps, "times of two runners do not subtract"


def _lines() -> Iterator[bytes]:
    """One load of 100 s: start-up 80, a run of 13, the rest is swap; then a closeout of 9 s."""
    lane = {"lane": "rehearsal-control"}
    load = {"number": 0, "block": 1, "arm": "baseline"}
    told: list[tuple[float, str, dict[str, Any]]] = [
        (0, "runner_started", {"tool_version": "0", "python": "3", "pid": 1, "boot_id": "b", "resumed": False}),
        (1, "block_load_begun", load | lane | {"replay": False}),
        (82, "load_ready", lane | {"load_id": "l", "startup_seconds": 80.0, "served_name": "m", "max_model_len": 1,
                                   "engine_version": None}),
        (83, "run_started", lane | {"run": "a-r1", "what": "capacity"}),
        (96, "run_finished", {"run": "a-r1", "path": "p", "sha256": "0", "bytes": 1, "passed": True, "outcome": "ok",
                              "reserve": None, "words": ""}),
        (97, "block_load_ended", load | {"load_id": "l", "whole": True, "health": "healthy",
                                         "shared_memory_reclaimable_bytes": 0, "words": ""}),
        (101, "load_stopped", lane | {"load_id": "l", "gone": True}),
        (110, "document_written", {"path": "report.html", "sha256": "0", "schema": "text/html"}),
        (150, "document_written", {"path": "report-2.html", "sha256": "0", "schema": "text/html"}),
    ]  # fmt: skip
    prev = "0" * 64
    for seq, (at, kind, body) in enumerate(told):
        raw = msgspec.json.encode(
            {"seq": seq, "prev": prev, "t": "t", "mono_us": int(at * 1e6), "kind": kind, "body": body}
        )
        prev = hashlib.sha256(raw).hexdigest()
        yield raw + b"\n"
