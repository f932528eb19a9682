"""The main job on a real vLLM: a process lane, its report, rungs exact to the token, a bundle for stock tools."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Bench, free_port
from tests.e2e.test_ladder import stock_verify
from tests.vllm_engine import vllm_engine

pytestmark = pytest.mark.vllm


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One bench and one engine for the whole module."""
    bench = Bench(tmp_path_factory.mktemp("vllm"))
    (bench.own_lanes / "tiny.toml").write_text(vllm_engine().profile(free_port()))
    bench.lanes.append("tiny")
    try:
        yield bench
    finally:
        bench.clean()


def test_up_ladder_seal_sign_verify(desk: Bench) -> None:
    line = desk.good("keys", "--create", "op@lab", "--no-passphrase").rsplit("this line: ", 1)[1].strip()
    up = desk.json("up", "tiny", timeout=400)
    assert up["standing"] == "complete" and 5 < up["startup_seconds"] < 300
    assert (up["max_model_len"], up["engine_version"]) == (16384, "0.32.0")
    report = json.loads(next((desk.last.path / "startup").iterdir()).read_bytes())
    assert report["kv_tokens"]["value"] == 524288
    assert report["max_concurrency"]["value"] == 32.0
    assert report["max_model_len"]["value"] == 16384
    assert report["unread_count"] == 0

    done = desk.json("ladder", "tiny", "--targets", "2000,6000,12000", "--seal", timeout=400)
    assert [run["state"] for run in done["runs"]] == ["passed"] * 3
    folder = desk.last
    for number, target in enumerate((2000, 6000, 12000), start=1):
        artifact = json.loads((folder.path / f"runs/tiny-r{number}.json").read_bytes())
        (request,) = artifact["requests"]
        assert request["prompt_tokens"] == target == request["sizing"]["counted_tokens"]
        assert request["sizing"]["method"] == "tokenizer"
        assert request["cached_tokens"] == 0
        assert artifact["limit_tokens"] == 16384 - 64 - 64
    stock_verify(folder.path, line)
    assert desk.json("verify", str(folder.path))["exit_code"] == 0


def test_the_limit_is_observed_and_the_reported_tokens_are_never_it(desk: Bench) -> None:
    done = desk.run("ladder", "tiny", "--targets", "16257")
    assert done.returncode == 2
    assert "16,257 is above the limit of 16,256 tokens = observed max_model_len 16,384 − max_tokens 64" in done.stderr


def test_down_leaves_nothing(desk: Bench) -> None:
    desk.good("down", "tiny", timeout=60)
    load = next((desk.state / "lanes" / "tiny").iterdir())
    assert (load / "exit.json").exists()
    assert not desk._processes("vllm.entrypoints.openai.api_server")
    log: Path = load / "lane.log"
    assert desk.json("read-log", str(log))["kv_tokens"] == 524288
