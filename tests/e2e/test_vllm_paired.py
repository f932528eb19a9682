"""A paired campaign of two real vLLM lanes that differ in one setting, and the same lane against itself."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.e2e.conftest import Bench, free_port
from tests.e2e.test_ladder import stock_verify
from tests.e2e.test_paired import CAMPAIGN
from tests.vllm_engine import vllm_engine

pytestmark = pytest.mark.vllm


def campaign(bench: Bench, order: str, blocks: int, *, same: bool) -> str:
    engine = vllm_engine()
    for name, batched in (("one", 2048), ("two", 1024)):
        (bench.own_lanes / f"{name}.toml").write_text(engine.profile(free_port(), batched=batched))
        bench.lanes.append(name)
    folder = bench.own_lanes.parent / "campaigns"
    folder.mkdir(exist_ok=True)
    (folder / "route.json").write_text("{}")
    toml = CAMPAIGN.replace("{order}", order).replace("{blocks}", str(blocks)).replace("{baseline}", "one")
    toml = toml.replace("{candidate}", "one" if same else "two").replace("max_tokens = 600", "max_tokens = 48")
    if same:
        toml = re.sub(r"(?m)^(controlled_fields|operational_differences) = .*$", "", toml)
        toml = toml.replace("order =", "same_lane = true\norder =")
    else:
        toml = toml.replace(
            'operational_differences = ["port", "served model name"]', 'operational_differences = ["port"]'
        )
    (folder / "real.toml").write_text(toml)
    return "real"


def test_abba_of_two_real_lanes(bench: Bench) -> None:
    line = bench.good("keys", "--create", "op@lab", "--no-passphrase").rsplit("this line: ", 1)[1].strip()
    done = bench.json("run", campaign(bench, "ABBA", 2, same=False), "--seal", timeout=1200)
    assert done["standing"] == "sealed", done["words"]
    folder = Path(done["folder"])
    told = json.loads((folder / "documents/comparison.json").read_bytes())
    assert told["rehearsal"] is False
    assert len(told["metrics"]["ttft_p50_ms"]["new_values"]) == 2
    assert told["metrics"]["ttft_p50_ms"]["effect"]["blocks"] == 2
    assert told["metrics"]["ttft_p50_ms"]["effect"]["verdict"].startswith(("inconclusive", "equivalent"))
    assert told["campaign_closeout"]["health_at_close"] == "healthy"
    stock_verify(folder, line)
    assert bench.json("verify", str(folder))["exit_code"] == 0


def test_a_real_lane_against_itself_has_no_winner(bench: Bench) -> None:
    bench.good("run", campaign(bench, "AB", 1, same=True), timeout=900)
    told = json.loads((bench.last.path / "documents/comparison.json").read_bytes())
    verdicts = [metric["effect"]["verdict"] for metric in told["metrics"].values()]
    assert verdicts and all(verdict.startswith(("equivalent", "inconclusive")) for verdict in verdicts)
