"""Campaign files: found, shadowed, judged with the lanes that they name; every fault is told."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from anvil_tui.campaigns.pairs.campaign_file import (
    all_campaign_files,
    campaign_paths,
    check_declared,
    find_campaign_file,
    read_campaign_file,
)
from anvil_tui.campaigns.pairs.order import letter
from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign
from anvil_tui.engines.kv_capacity import GEOMETRIES, reported_tokens, tokens_in_flight
from anvil_tui.errors import BadInput
from anvil_tui.lanes.difference import lane_difference
from anvil_tui.lanes.profile import find_lane
from anvil_tui.locations import Locations
from anvil_tui.records.campaign_file import NamedDifference
from anvil_tui.records.lane import RehearsalLaunch

Tables = dict[str, Any]
REHEARSALS = ("rehearsal-aa", "rehearsal-next-test", "rehearsal-seed000", "rehearsal-seed004")
NEED_LANES = ("aa-noise-floor", "next-test-393k", "seed000", "seed004")


@pytest.fixture
def locations(tmp_path: Path) -> Locations:
    found = Locations(state=tmp_path / "state", profiles=tmp_path / "profiles", config=tmp_path / "config")
    for name in ("lanes", "campaigns"):
        (found.profiles / name).mkdir(parents=True)
    found.config.mkdir()
    return found


def shipped(name: str, locations: Locations) -> Tables:
    return tomllib.loads((locations.shipped_profiles / "campaigns" / f"{name}.toml").read_text())


def lane_tables(name: str, locations: Locations) -> Tables:
    return tomllib.loads((locations.shipped_profiles / "lanes" / f"{name}.toml").read_text())


def write(path: Path, tables: Tables) -> Path:
    path.write_text(tomli_w.dumps(tables))
    return path


def paired(locations: Locations) -> Tables:
    """A small valid campaign file of the rehearsal's pair."""
    tables = shipped("rehearsal-seed000", locations)
    return {key: value for key, value in tables.items() if key not in ("invariants", "acceptance", "gate")}


def change(locations: Locations) -> Tables:
    """A small valid campaign file of the rehearsal's controlled change."""
    tables = shipped("rehearsal-seed004", locations)
    gone = ("invariants", "acceptance", "watch", "validation", "external_documentation", "post_gate")
    return {key: value for key, value in tables.items() if key not in gone}


def alone(locations: Locations) -> Tables:
    tables = shipped("rehearsal-next-test", locations)
    return {
        **{key: value for key, value in tables.items() if key != "watch"},
        "acceptance": [{"what": "healthy_start"}],
    }


def read(tables: Tables, locations: Locations) -> PlannedCampaign:
    return read_campaign_file(write(locations.profiles / "campaigns" / "mine.toml", tables), locations)


def faults(tables: Tables, locations: Locations) -> dict[str, str]:
    with pytest.raises(BadInput) as refused:
        read(tables, locations)
    assert refused.value.source.endswith("mine.toml")
    return {fault.place: str(fault) for fault in refused.value.faults}


def test_the_rehearsals_are_valid_anywhere(locations: Locations) -> None:
    found = all_campaign_files(locations)
    assert set(found) == {*REHEARSALS, *NEED_LANES}
    for name in REHEARSALS:
        campaign = found[name]
        assert isinstance(campaign, PlannedCampaign), campaign
        assert campaign.rehearsal and campaign.undeclared == ()
        check_declared(campaign)


def test_the_real_ones_say_what_they_need(locations: Locations) -> None:
    for name in NEED_LANES:
        refused = all_campaign_files(locations)[name]
        assert isinstance(refused, BadInput)
        places = {fault.place for fault in refused.faults}
        assert "arms.candidate.lane" in places
        assert all(place.endswith(".lane") or place.startswith(("watch[", "validation[")) for place in places), refused


@pytest.mark.parametrize("name", NEED_LANES)
def test_the_real_ones_are_valid_once_their_lanes_are_there(name: str, locations: Locations) -> None:
    stand_ins = {
        "deepseek-r16-nospec": "rehearsal-control",
        "deepseek-r16-dspark5": "rehearsal-dspark",
        "deepseek-r33-batch8192": "rehearsal-batch8192",
        "deepseek-r33-batch4096": "rehearsal-batch4096",
        "deepseek-r33-393k": "rehearsal-393k",
    }
    for lane, stand_in in stand_ins.items():
        write(locations.profiles / "lanes" / f"{lane}.toml", lane_tables(stand_in, locations))
    watched = locations.config / "route.json"
    watched.write_text("{}")
    site = {"route_file": str(watched), "promotion_file": str(watched), "repository": str(locations.config)}
    write(locations.machine, {"site": site})
    campaign = find_campaign_file(name, locations)
    assert campaign.undeclared == ()


def test_the_seeds_have_their_protocol(locations: Locations) -> None:
    seed000 = find_campaign_file("rehearsal-seed000", locations)
    capacity = seed000.file.capacity
    assert capacity is not None
    assert (capacity.context_tokens, capacity.max_tokens, capacity.margin) == (4096, 2048, 1024)
    assert (capacity.concurrency, capacity.requests, capacity.runs) == (1, 3, 3)
    assert (seed000.arm_name("baseline"), seed000.arm_name("candidate")) == ("control", "dspark")
    seed004 = find_campaign_file("rehearsal-seed004", locations)
    assert [letter(load) for load in seed004.loads] == ["A", "B", "A'"]
    assert [load.lane for load in seed004.loads] == [f"rehearsal-batch{n}" for n in (8192, 4096, 8192)]
    assert seed004.file.ladder is not None and seed004.file.ladder.targets == (117_500, 118_500, 119_500)
    assert seed004.difference is not None
    assert [one.field for one in seed004.difference.functional] == ["recipe.max_num_batched_tokens"]
    assert [one.field for one in seed004.difference.operational] == ["port", "served model name"]
    test = find_campaign_file("rehearsal-next-test", locations)
    assert test.difference is None and [load.arm for load in test.loads] == ["candidate"]


def test_the_lane_of_the_next_test_reports_what_was_predicted(locations: Locations) -> None:
    """The lane is the candidate of the A/B but for its length; its blocks follow from the geometry of the model."""
    lane, candidate = (find_lane(name, locations) for name in ("rehearsal-393k", "rehearsal-batch4096"))
    assert [one.field for one in lane_difference(candidate, lane).functional] == ["recipe.max_model_len"]
    launch, length = lane.profile.launch, lane.profile.recipe.max_model_len
    assert isinstance(launch, RehearsalLaunch) and length == 393_216
    assert launch.engine.kv_blocks_per_request == GEOMETRIES[0].blocks_per_request(length, tokens_in_flight(4096))
    assert reported_tokens(launch.engine.kv_blocks, launch.engine.kv_blocks_per_request, length) == 1_312_150


def test_an_own_file_shadows_the_shipped_one(locations: Locations) -> None:
    own = write(
        locations.profiles / "campaigns" / "rehearsal-aa.toml", shipped("rehearsal-aa", locations) | {"blocks": 2}
    )
    for stand_in in ("rehearsal-route.json", "rehearsal-promotion.json"):
        assert (locations.shipped_profiles / "campaigns" / stand_in).is_file()
    path, shadows = campaign_paths(locations)["rehearsal-aa"]
    assert path == own and shadows is not None and shadows.name == "rehearsal-aa.toml"
    campaign = find_campaign_file("rehearsal-aa", locations)
    assert campaign.shadows == shadows and len(campaign.loads) == 4
    assert find_campaign_file(str(own), locations).sha256 == campaign.sha256


def test_an_unknown_name_gets_the_nearest(locations: Locations) -> None:
    with pytest.raises(BadInput, match="did you mean 'rehearsal-seed004'"):
        find_campaign_file("rehearsal-sed004", locations)


Case = tuple[Callable[[Locations], Tables], Tables, str, str]
CASES: list[Case] = [
    (paired, {"blokcs": 2}, "blokcs", "did you mean 'blocks'"),
    (paired, {"gate": {"tool_bach": 3}}, "gate.tool_bach", "did you mean 'tool_batch'"),
    (change, {"ladder": {"targets": [4096], "max_tokens": 1, "margin": 0, "x": 1}}, "ladder.x", "unknown key"),
    (change, {"post_gate": {"budget": {"visible": 1}}}, "post_gate.budget.visible", "unknown key"),
    (paired, {"order": "BA"}, "order", "AB, ABA, ABBA, random"),
    (paired, {"order": None}, "order", "missing"),
    (paired, {"order": "random"}, "seed", "missing"),
    (paired, {"seed": 3}, "seed", "no seed, or order = 'random'"),
    (paired, {"blocks": 3}, "blocks", "an even number"),
    (paired, {"document": None}, "document", "paired, change"),
    (paired, {"capacity": None}, "capacity", "its runs are what is compared"),
    (paired, {"primary_metric": None}, "primary_metric", "missing"),
    (paired, {"primary_metric": "decode_tok_s"}, "primary_metric", "did you mean 'decode_tok_s_p50'"),
    (paired, {"paired_variable": None}, "paired_variable", "missing"),
    (paired, {"equivalence_margin_pct": 0}, "equivalence_margin_pct", "a number above 0"),
    (change, {"ladder": None}, "ladder", "matched context ladder"),
    (change, {"gate": None}, "gate", "functional gate"),
    (change, {"controlled_fields": []}, "controlled_fields", "meant to differ"),
    (paired, {"controlled_fields": ["max_num_seqs"]}, "controlled_fields[0]", "is the same in both"),
    (
        paired,
        {"controlled_fields": ["recipe.cuda_graph"]},
        "controlled_fields[0]",
        "did you mean 'recipe.cuda_graph_cap'",
    ),
    (paired, {"operational_differences": ["ports"]}, "operational_differences[0]", "did you mean 'port'"),
    (paired, {"operational_differences": ["log file"]}, "operational_differences[0]", "is the same in both"),
    (paired, {"same_lane": True}, "same_lane", "one lane in both arms"),
    (paired, {"gate": {}, "gate_arms": []}, "gate_arms", "an empty list"),
    (paired, {"gate": {"checks": ["smoke", "needle"]}}, "gate.needle_tokens", "missing"),
    (change, {"ladder": {"targets": [], "max_tokens": 1, "margin": 0}}, "ladder.targets", "an empty list"),
    (
        change,
        {"ladder": {"targets": [4096, 119809], "max_tokens": 10240, "margin": 1024}},
        "ladder.targets",
        "up to 119,808 = max_model_len 131,072 − max_tokens 10,240 − margin 1,024",
    ),
    (
        change,
        {"ladder": {"targets": [4096], "max_tokens": 1, "margin": 0, "post_gate": {}}},
        "ladder.post_gate",
        "the table post_gate",
    ),
    (
        paired,
        {"capacity": {"context_tokens": 131_072, "max_tokens": 2048, "margin": 1024}},
        "capacity.context_tokens",
        "131,072 for the candidate 'rehearsal-dspark'",
    ),
    (
        paired,
        {"capacity": {"context_tokens": 4096, "max_tokens": 64, "margin": 0, "prefix": "shared"}},
        "capacity.shared_prefix_tokens",
        "from 1 to 4,095",
    ),
    (paired, {"invariants": [{"text": "x"}]}, "invariants[0]", "checked by nothing"),
    (
        paired,
        {"invariants": [{"text": "x", "log": "kv_cache_dtype", "declared": True}]},
        "invariants[0]",
        "checked by log and declared",
    ),
    (
        paired,
        {"invariants": [{"text": "x", "field": "recipe.max_num_seq"}]},
        "invariants[0].field",
        "did you mean 'recipe.max_num_seqs'",
    ),
    (
        paired,
        {"invariants": [{"text": "x", "field": "recipe.cuda_graph_cap"}]},
        "invariants[0].field",
        "recipe.cuda_graph_cap differs: 32 → 48",
    ),
    (paired, {"acceptance": [{"what": "healthy"}]}, "acceptance[0].what", "did you mean 'healthy_start'"),
    (paired, {"acceptance": [{"what": "gate"}]}, "acceptance[0]", "a table gate"),
    (change, {"acceptance": [{"what": "gate", "arm": "baseline"}]}, "acceptance[0]", "baseline in gate_arms"),
    (change, {"acceptance": [{"what": "post_probe_gate"}]}, "acceptance[0]", "a table post_gate"),
    (change, {"acceptance": [{"what": "no_route_change"}]}, "acceptance[0]", "means = 'route'"),
    (change, {"acceptance": [{"what": "no_promotion_change"}]}, "acceptance[0]", "means = 'promotion'"),
    (
        change,
        {"acceptance": [{"what": "actual_prompt_tokens", "above": 119_500}]},
        "acceptance[0].above",
        "no prompt is longer",
    ),
    (change, {"acceptance": [{"what": "metric", "metric": "ttft_p50_ms", "at_most": 1}]}, "acceptance[0]", "capacity"),
    (
        paired,
        {"acceptance": [{"what": "metric", "metric": "ttft", "at_most": 1}]},
        "acceptance[0].metric",
        "ttft_p50_ms",
    ),
    (paired, {"acceptance": [{"what": "metric", "metric": "ttft_p50_ms"}]}, "acceptance[0]", "at_least, at_most"),
    (paired, {"watch": [{"means": "route"}]}, "watch[0]", "exactly one of them"),
    (paired, {"watch": [{"means": "route", "file": "a", "url": "http://h/"}]}, "watch[0]", "exactly one of them"),
    (paired, {"watch": [{"means": "route", "file": "nowhere.json"}]}, "watch[0].file", "is no file"),
    (paired, {"watch": [{"means": "route", "file": "{site.route}"}]}, "watch[0].file", "[site] in machine.toml"),
    (paired, {"watch": [{"means": "route", "url": "ftp://h/"}]}, "watch[0].url", "https?"),
    (paired, {"validation": [{"name": "v", "command": []}]}, "validation[0].command", "a list that is not empty"),
    (
        paired,
        {"validation": [{"name": "v", "command": ["x"], "directory": "nowhere"}]},
        "validation[0].directory",
        "is no folder",
    ),
    (paired, {"document": "piared"}, "document", "did you mean 'paired'"),
    (alone, {"order": "AB"}, "order", "there is one arm"),
    (alone, {"document": "change"}, "document", "there is one"),
    (alone, {"acceptance": []}, "acceptance", "at least one condition"),
    (alone, {"controlled_fields": ["recipe.max_model_len"]}, "controlled_fields", "there is one arm"),
    (alone, {"acceptance": [{"what": "healthy_start", "arm": "baseline"}]}, "acceptance[0].arm", "no baseline"),
    (alone, {"gate_arms": ["baseline"]}, "gate_arms", "no baseline"),
    (alone, {"primary_metric": "ttft_p50_ms"}, "primary_metric", "there is one arm"),
    (alone, {"invariants": [{"text": "x", "declared": True}]}, "invariants", "there is one arm"),
    (change, {"gate_arms": ["baseline"]}, "gate_arms", "the document has its gate"),
    (alone, {"ladder": None, "post_gate": None}, "file", "nothing to run"),
]


@pytest.mark.parametrize(
    ("base", "edit", "place", "words"), CASES, ids=[f"{case[2]}-{number}" for number, case in enumerate(CASES)]
)
def test_what_is_refused(
    base: Callable[[Locations], Tables], edit: Tables, place: str, words: str, locations: Locations
) -> None:
    read(base(locations), locations)
    tables = {key: value for key, value in (base(locations) | edit).items() if value is not None}
    assert words in faults(tables, locations)[place]


@pytest.mark.parametrize(
    ("arms", "place", "words"),
    [
        ({"candidate": {"lane": "rehearsal-dsprak"}}, "arms.candidate.lane", "did you mean 'rehearsal-dspark'"),
        ({"candidate": {"lane": "rehearsal-control"}}, "arms", "same_lane = true"),
        ({"candidate": {"lane": "./lane.toml"}}, "arms.candidate.lane", "the name of a lane"),
        ({"candidate": {"lane": "broken"}}, "arms.candidate.lane", "lane 'broken' is refused: endpoint.served_name"),
        ({"candidate": {"lane": "real"}}, "arms", "one lane is simulated and one is not"),
        ({"candidate": {"lane": "attached"}}, "arms.candidate.lane", "a lane that is started here"),
        (
            {"candidate": {"lane": "rehearsal-dspark", "recipe": {"max_num_seqs": 16}}},
            "arms.candidate.lane",
            "recipe.max_num_seqs is 8 in lane 'rehearsal-dspark'; allowed: recipe.max_num_seqs = 16",
        ),
        ({"candidate": {"lane": "rehearsal-dspark", "name": "control"}}, "arms.candidate.name", "another name"),
        ({"candidate": {"lane": "rehearsal-dspark", "name": "D Spark"}}, "arms.candidate.name", "matches"),
    ],
)
def test_arms_that_are_refused(arms: Tables, place: str, words: str, locations: Locations) -> None:
    real = lane_tables("rehearsal-dspark", locations)
    real |= {"launch": {"kind": "process", "argv": ["serve"]}, "gpus": {"source": "none"}}
    lanes = locations.profiles / "lanes"
    write(lanes / "real.toml", real)
    write(lanes / "attached.toml", real | {"launch": {"kind": "attach"}})
    write(lanes / "broken.toml", real | {"endpoint": {"base_url": "http://127.0.0.1:1"}})
    tables = paired(locations)
    tables["arms"] |= arms
    assert words in faults(tables, locations)[place]


def test_every_fault_is_told_at_once(locations: Locations) -> None:
    tables = paired(locations) | {"seed": 3, "blocks": 3, "primary_metric": "x"}
    assert {"seed", "blocks", "primary_metric"} <= set(faults(tables, locations))


def test_undeclared_differences_are_listed_and_refused_until_they_are_named(locations: Locations) -> None:
    lane = lane_tables("rehearsal-dspark", locations)
    lane["recipe"]["max_num_seqs"] = 4
    lane["gpus"]["reserve_mib"] = 0
    write(locations.profiles / "lanes" / "odd.toml", lane)
    tables = paired(locations)
    tables["arms"]["candidate"]["lane"] = "odd"
    campaign = read(tables, locations)
    assert [one.field for one in campaign.undeclared] == ["gpus.reserve_mib", "recipe.max_num_seqs"]
    with pytest.raises(BadInput) as refused:
        check_declared(campaign)
    assert [fault.place for fault in refused.value.faults] == ["gpus.reserve_mib", "recipe.max_num_seqs"]
    assert "3072 → 0" in str(refused.value)
    named = (NamedDifference(field="recipe.max_num_seqs", why="no matter at one at a time"),)
    with pytest.raises(BadInput) as refused:
        check_declared(campaign, named)
    assert [fault.place for fault in refused.value.faults] == ["gpus.reserve_mib"]
    check_declared(campaign, (*named, NamedDifference(field="gpus", why="an exclusive session")))
    tables["undeclared_ok"] = [{"field": "gpus.reserve_mib", "why": "a"}, {"field": "recipe.max_num_seqs", "why": "b"}]
    check_declared(read(tables, locations))


def test_paths_start_at_the_file_and_site_values_are_rendered(locations: Locations) -> None:
    write(locations.machine, {"site": {"routes": str(locations.config)}})
    (locations.config / "route.json").write_text("{}")
    (locations.profiles / "campaigns" / "beside.json").write_text("{}")
    tables = paired(locations) | {
        "watch": [
            {"means": "route", "file": "{site.routes}/route.json"},
            {"means": "promotion", "file": "beside.json"},
            {"means": "other", "url": "http://127.0.0.1:1/x"},
        ],
        "acceptance": [{"what": "no_route_change"}, {"what": "no_promotion_change"}],
    }
    campaign = read(tables, locations)
    places = [campaign.place(one.file) for one in campaign.file.watch if one.file]
    assert places == [locations.config / "route.json", locations.profiles / "campaigns" / "beside.json"]
