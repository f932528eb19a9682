"""Paired campaigns as whole commands: rehearsal lanes swapped on the same GPUs, whatever happens on the way."""

from __future__ import annotations

import json
import os
import re
import signal
from typing import Any

import pytest

from anvil_tui.records.events import BlockInterrupted, BlockLoadBegun, MemoryReturned
from anvil_tui.rehearsal.timeline import TimelineWriter
from tests.e2e.conftest import Bench, until

pytestmark = pytest.mark.slow


CAMPAIGN = """
schema = "anvil-campaign/v1"
name = "a quick pair"
paired_variable = "batched tokens"
document = "paired"
controlled_fields = ["recipe.max_num_batched_tokens"]
operational_differences = ["port", "served model name"]
order = "{order}"
blocks = {blocks}
primary_metric = "decode_tok_s_p50"
[arms.baseline]
lane = "{baseline}"
name = "old"
[arms.candidate]
lane = "{candidate}"
name = "new"
[capacity]
context_tokens = 600
max_tokens = 600
margin = 0
runs = 1
requests = 2
[[acceptance]]
what = "healthy_start"
[[watch]]
means = "route"
file = "route.json"
"""


def pair(bench: Bench, order: str = "AB", blocks: int = 1, extra: str = "", **slow: str) -> str:
    """A campaign of two lanes that differ in batched tokens, and its name."""
    one = bench.rehearsal("one", shipped="rehearsal-batch8192", **slow)
    two = bench.rehearsal("two", **slow)
    folder = bench.own_lanes.parent / "campaigns"
    folder.mkdir(exist_ok=True)
    (folder / "route.json").write_text("{}")
    toml = CAMPAIGN.replace("{order}", order).replace("{blocks}", str(blocks))
    (folder / "quick.toml").write_text(toml.replace("{baseline}", one).replace("{candidate}", two) + extra)
    return "quick"


def document(bench: Bench, name: str = "comparison") -> Any:
    return json.loads((bench.last.path / f"documents/{name}.json").read_bytes())


def test_two_lanes_in_blocks_end_in_a_document_a_report_and_a_bundle(bench: Bench) -> None:
    campaign = pair(bench, order="ABBA", blocks=2)
    bench.good("keys", "--create", "op@lab", "--no-passphrase")
    assert any(one["campaign"] == "quick" and one["valid"] for one in bench.json("plans")["campaigns"])
    done = bench.json("run", campaign, "--seal", timeout=200)
    assert done["standing"] == "sealed", done["words"]
    folder = bench.last
    loads = [event for event in bench.events() if isinstance(event, BlockLoadBegun)]
    assert [(one.block, one.lane) for one in loads] == [(1, "one"), (1, "two"), (2, "two"), (2, "one")]
    told = document(bench)
    assert told["schema"] == "paired-capacity-comparison/v1" and told["rehearsal"]
    assert len(told["metrics"]["ttft_p50_ms"]["new_values"]) == 2
    assert told["metrics"]["ttft_p50_ms"]["effect"]["blocks"] == 2
    assert told["campaign_closeout"]["route_changed"] is False
    assert told["campaign_closeout"]["promotion_changed"] is None
    assert told["campaign_closeout"]["health_at_close"] == "healthy"
    report = (folder.path / "report.html").read_text()
    assert "REHEARSAL" in report and "<script" not in report
    assert bench.json("verify", str(folder.path))["exit_code"] == 0
    artifacts = [json.loads(path.read_bytes()) for path in (folder.path / "runs").iterdir()]
    nonces = {(one["block"], one["arm"]): [r["nonce"] for r in one["requests"]] for one in artifacts}
    assert nonces[1, "baseline"] == nonces[1, "candidate"] != nonces[2, "baseline"] == nonces[2, "candidate"]
    assert {lane["state"] for lane in bench.json("lanes")["lanes"] if lane["lane"] in ("one", "two")} == {"stopped"}


def test_the_same_lane_twice_never_has_a_winner(bench: Bench) -> None:
    lane = bench.rehearsal("one")
    folder = bench.own_lanes.parent / "campaigns"
    folder.mkdir()
    (folder / "route.json").write_text("{}")
    toml = CAMPAIGN.replace("{order}", "ABBA").replace("{blocks}", "2").replace("{baseline}", lane)
    toml = toml.replace("{candidate}", lane).replace("order =", "same_lane = true\norder =")
    toml = re.sub(r"(?m)^(controlled_fields|operational_differences) = .*$", "", toml)
    (folder / "same.toml").write_text(toml)
    bench.good("run", "same", timeout=200)
    told = document(bench)
    verdicts = [metric["effect"]["verdict"] for metric in told["metrics"].values()]
    # A rehearsal is no evidence, so its verdicts are invalid; what must never be said is that one of them won.
    assert verdicts and not {"faster", "slower"} & set(verdicts)


def test_an_undeclared_difference_is_refused_unless_it_is_named(bench: Bench) -> None:
    campaign = pair(bench)
    path = bench.own_lanes / "two.toml"
    path.write_text(path.read_text().replace("max_num_seqs = 1", "max_num_seqs = 2"))
    refused = bench.run("run", campaign)
    assert refused.returncode == 2 and "recipe.max_num_seqs" in refused.stderr
    assert not (bench.state / "campaigns").exists()
    bench.good("run", campaign, "--accept", "recipe.max_num_seqs=the only spare lane", timeout=200)
    assert document(bench)["campaign"]["undeclared_ok"] == {"recipe.max_num_seqs": "the only spare lane"}


def test_a_runner_killed_in_the_second_load_redoes_the_block_whole(bench: Bench) -> None:
    campaign = pair(bench, time_scale="2")
    # A file that lies elsewhere: what it watches is found again from there.
    elsewhere = (bench.own_lanes.parent / "campaigns").rename(bench.root / "elsewhere")
    verb = bench.start("run", str(elsewhere / f"{campaign}.toml"))
    until(lambda: (bench.state / "campaigns").exists(), 20)
    folder = until(lambda: next(iter((bench.state / "campaigns").iterdir()), None), 20) and bench.last
    until(lambda: any(run.run and run.run.startswith("two-") for run in bench.view(folder).runs), 60, "the second load")
    os.kill(bench.pid("anvil_tui.campaigns.runner"), signal.SIGKILL)
    verb.communicate(timeout=20)
    bench.good("resume", folder.id, timeout=200)
    events = bench.events(folder)
    assert [event.block for event in events if isinstance(event, BlockInterrupted)] == [1]
    lanes = [event.lane for event in events if isinstance(event, BlockLoadBegun)]
    assert lanes == ["one", "two", "one", "two"]
    assert document(bench)["campaign_closeout"]["route_changed"] is False
    metric = document(bench)["metrics"]["ttft_p50_ms"]
    assert len(metric["old_values"]) == len(metric["new_values"]) == 1
    states = [run.state for run in bench.view(folder).runs]
    assert states.count("passed") >= 3 and "interrupted" in states
    bench.good("seal", folder.id)
    assert not folder.base.exists(), "a path of this machine is no part of the bundle"


def test_an_arm_that_does_not_start_leaves_a_result_that_says_so(bench: Bench) -> None:
    campaign = pair(bench)
    path = bench.own_lanes / "two.toml"
    path.write_text(re.sub(r"(?m)^startup_timeout_s = .*$", "startup_timeout_s = 0.2", path.read_text()))
    done = bench.json("run", campaign, "--accept", "endpoint.startup_timeout_s=so it cannot", code=1, timeout=200)
    assert done["standing"] == "failed" and "two did not come up within 0.2 s" in done["words"]
    acceptance = document(bench, "acceptance")
    assert acceptance["conditions"][0]["state"] == "not met"
    assert "two did not come up" in (bench.last.path / "report.html").read_text()
    comparison = document(bench, "comparison")
    assert (comparison["old"]["kv_cache_tokens"], comparison["new"]["kv_cache_tokens"]) == (283917, 553243)
    assert comparison["new"]["startup_seconds"] is None and comparison["new"]["artifacts"] == []
    caveats = {one["rule"]: one["text"] for one in comparison["caveats"]}
    assert caveats["loads_failed"].startswith("new: not every load was done: two did not come up within 0.2 s")
    assert "(failed, 1 of 2 loads were done)" in caveats["broken_off"]
    assert "it still runs" not in done["words"], "its own campaign stops it"
    assert not bench._processes("anvil_tui.rehearsal.engine")
    bench.good("seal", "last")


def test_a_lane_that_dies_between_runs_ends_in_a_sealed_result(bench: Bench) -> None:
    campaign = pair(bench, time_scale="2")
    verb = bench.start("run", campaign)
    folder = bench.wait_in_rung(("sizing", "prefill", "reasoning", "answer"))
    os.kill(bench.pid("anvil_tui.rehearsal.engine"), signal.SIGKILL)
    printed, _ = verb.communicate(timeout=60)
    assert verb.returncode == 1 and "one died: it ended by itself with signal 9" in printed
    assert bench.view(folder).ending == "failed"
    assert "one died" in (folder.path / "report.html").read_text()
    bench.good("seal", folder.id)


@pytest.mark.soak
def test_memory_that_does_not_come_back_is_said_in_words(bench: Bench) -> None:
    campaign = pair(bench, time_scale="2")
    verb = bench.start("run", campaign)
    folder = bench.wait_in_rung(("sizing", "prefill", "reasoning", "answer"))
    timeline = next(path for path in (bench.state / "rehearsal").glob("*rehearsal-0*.jsonl"))
    TimelineWriter(timeline, "something else").write(30_000)
    printed, _ = verb.communicate(timeout=150)
    assert verb.returncode == 1 and "GPU memory did not come back within 60 s" in printed
    assert [load.state for load in bench.view(folder).loads] == ["whole", "cut short"]
    returned = [event.returned for event in bench.events(folder) if isinstance(event, MemoryReturned)]
    assert returned[-1] is False
    bench.good("seal", folder.id)
