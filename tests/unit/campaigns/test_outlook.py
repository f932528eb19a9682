"""What will run, told before it begins: from the file alone, and how long from what the lanes did before."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from anvil_tui.campaigns.pairs.campaign_file import find_campaign_file
from anvil_tui.campaigns.pairs.outlook import describe, gate_requests
from anvil_tui.campaigns.pairs.pace import Pace, lane_pace
from anvil_tui.campaigns.store.folder import CampaignFolder
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
    outlook = describe(find_campaign_file("rehearsal-seed000", locations), {})
    assert outlook.rehearsal and outlook.document == "paired"
    assert [load.letter for load in outlook.loads] == list("ABBAABBA")
    assert [part.what for part in outlook.loads[0].parts] == ["gate", "capacity"]
    assert (outlook.runs, outlook.requests) == (8 * 4, 8 * (9 + 3 * 4))
    assert outlook.expected_s is None
    assert {one.standing for one in outlook.differences} == {"controlled"}
    assert "candidate: decode_tok_s_p50 at least 100" in outlook.acceptance
    assert msgspec.json.encode(outlook)


def test_the_gate_runs_on_the_arms_that_the_file_names(locations: Locations) -> None:
    outlook = describe(find_campaign_file("rehearsal-seed004", locations), {})
    assert [[part.what for part in load.parts] for load in outlook.loads] == [
        ["ladder"],
        ["gate", "ladder", "post_gate"],
        ["ladder"],
    ]
    assert [load.replay for load in outlook.loads] == [False, False, True]
    assert outlook.requests == 3 * 3 + 26 + 7


def test_the_duration_follows_from_the_pace_of_every_lane(locations: Locations) -> None:
    campaign = find_campaign_file("rehearsal-seed004", locations)
    lanes = ("rehearsal-batch8192", "rehearsal-batch4096")
    outlook = describe(campaign, dict.fromkeys(lanes, PACE))
    ladder = 117.5 + 118.5 + 119.5 + 3 * 2
    assert outlook.loads[0].expected_s == pytest.approx(240 + ladder)
    assert outlook.expected_s == pytest.approx(3 * (240 + ladder) + 2 * (26 + 7))
    assert describe(campaign, {lanes[0]: PACE}).expected_s is None
    assert describe(campaign, {lanes[0]: PACE}).loads[0].expected_s is not None


def test_a_capacity_run_counts_its_warm_up(locations: Locations) -> None:
    outlook = describe(find_campaign_file("rehearsal-aa", locations), {"rehearsal-control": PACE})
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
    assert pace.gate_request_s is None
    assert lane_pace("other", locations) == Pace()
