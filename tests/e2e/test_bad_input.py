"""Bad input: one clear error that names the file, the place and what would be right; exit 2; nothing is sent."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from tests.e2e.conftest import Bench, free_port

PROCESS = """
[identity]
model = "m"
engine = "vllm"
[recipe]
max_model_len = 4096
[launch]
kind = "process"
argv = ["{command}", "--max-model-len", "4096"]
[endpoint]
base_url = "http://127.0.0.1:{port}"
served_name = "m"
[gpus]
source = "none"
"""


def refused(bench: Bench, *words: str) -> str:
    """The one error of a refused verb; no campaign came of it, and JSON says the same."""
    done = bench.run(*words)
    assert done.returncode == 2, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    document = json.loads(bench.run(*words, "--json").stdout)
    assert document.get("exit_code", 2) == 2
    return done.stderr


def profile(bench: Bench, old: str = "", new: str = "", command: str = "sleep", port: int | None = None) -> Path:
    path = bench.own_lanes / "mine.toml"
    toml = PROCESS.replace("{command}", command).replace("{port}", str(port or free_port()))
    assert old in toml
    path.write_text(toml.replace(old, new))
    return path


def test_an_unknown_key_in_a_profile(bench: Bench) -> None:
    path = profile(bench, "max_model_len = 4096", "max_model_length = 4096")
    said = refused(bench, "check", str(path))
    assert f"{path}: recipe.max_model_length: unknown key" in said and "did you mean 'max_model_len'" in said
    assert f"{path}: recipe.max_model_length" in refused(bench, "up", "mine")


def test_a_reserve_with_a_unit(bench: Bench) -> None:
    path = profile(bench, 'source = "none"', 'source = "none"\nreserve_mib = "3GB"')
    assert "gpus.reserve_mib: '3GB'; allowed: a whole number from 0" in refused(bench, "check", str(path))


def test_a_literal_that_contradicts_the_recipe(bench: Bench) -> None:
    path = profile(bench, "max_model_len = 4096", "max_model_len = 8192")
    said = refused(bench, "check", str(path))
    assert "'4096' contradicts recipe.max_model_len = 8192" in said and "{recipe.max_model_len}" in said


@pytest.mark.parametrize(
    ("targets", "words"),
    [
        ("0", "a target of 0 tokens; each target is a whole number from 1"),
        ("-5", "a target of -5 tokens"),
        ("2k", "whole numbers with commas between"),
        ("", "whole numbers with commas between"),
        ("1000,,2000", "whole numbers with commas between"),
    ],
)
def test_a_bad_target(bench: Bench, targets: str, words: str) -> None:
    assert words in refused(bench, "ladder", "rehearsal-batch4096", "--targets", targets)


@pytest.mark.slow
def test_a_target_above_the_limit_shows_the_arithmetic(bench: Bench) -> None:
    lane = bench.rehearsal("practice")
    words = "limit of 119,808 tokens = the recipe's max_model_len 131,072 − max_tokens 10,240 − margin 1,024"
    assert words in refused(bench, "ladder", lane, "--targets", "2000,119809", "--up")
    assert not (bench.state / "campaigns").exists()
    bench.good("up", lane)
    said = refused(bench, "ladder", lane, "--targets", "2000,119809")
    assert "target 119,809 is above the limit" in said and "= observed max_model_len" in said
    assert len(list((bench.state / "campaigns").iterdir())) == 1


def test_a_lane_that_is_down(bench: Bench) -> None:
    lane = bench.rehearsal("practice")
    assert f"anvil-tui up {lane}" in refused(bench, "ladder", lane, "--targets", "100")


def test_a_port_in_use(bench: Bench) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        profile(bench, port=port)
        assert f"port {port} on 127.0.0.1 is in use" in refused(bench, "up", "mine")


def test_a_command_that_does_not_exist(bench: Bench) -> None:
    path = profile(bench, command="/no/such/engine")
    said = refused(bench, "up", "mine")
    assert f"{path}: launch.argv[0]: no such command: /no/such/engine" in said


@pytest.mark.parametrize("content", [b"", b"\x00\x01\x02binary", b"Dear diary,\ntoday nothing happened.\n"])
def test_a_log_that_is_not_a_log(bench: Bench, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "not.log"
    path.write_bytes(content)
    assert f"{path}: log: no engine's start-up log" in refused(bench, "read-log", str(path))


def test_a_log_that_is_not_there(bench: Bench, tmp_path: Path) -> None:
    assert "No such file" in refused(bench, "read-log", str(tmp_path / "none.log"))
    assert "Is a directory" in refused(bench, "read-log", str(tmp_path))


def test_a_bundle_path_that_is_a_file(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "bundle"
    path.write_text("x")
    assert str(path) in refused(bench, "verify", str(path))
    assert str(tmp_path / "none") in refused(bench, "verify", str(tmp_path / "none"))


@pytest.mark.slow
def test_a_second_campaign_on_the_same_load(bench: Bench) -> None:
    lane = bench.rehearsal("slow", time_scale="1", startup_seconds="1", prefill_tok_s="1000")
    verb = bench.start("ladder", lane, "--targets", "6000", "--up")
    folder = bench.wait_in_rung()
    assert f"{folder.id} measures this load now" in refused(bench, "ladder", lane, "--targets", "100")
    bench.good("stop", folder.id, "--now")
    verb.communicate(timeout=20)


def test_an_unknown_lane_campaign_and_verb(bench: Bench) -> None:
    assert "did you mean 'rehearsal-control'" in refused(bench, "up", "rehearsal-controll")
    assert "no campaign 'nothing'" in refused(bench, "watch", "nothing")
    assert "invalid choice: 'lader'" in refused(bench, "lader")


def test_a_machine_file_with_a_fault(bench: Bench) -> None:
    folder = bench.root / "config" / "anvil-tui"
    folder.mkdir(parents=True)
    (folder / "machine.toml").write_text("[sight]\n")
    assert "did you mean 'site'" in refused(bench, "lanes")


def test_a_variable_that_is_not_set(bench: Bench) -> None:
    profile(bench, 'kind = "process"', 'kind = "process"\nenv_from = ["ANVIL_TEST_UNSET"]')
    assert "ANVIL_TEST_UNSET, which is not set" in refused(bench, "up", "mine")


def test_a_sealing_ladder_without_a_key_that_signs_alone(bench: Bench) -> None:
    lane = bench.rehearsal("practice")
    assert "needs no passphrase" in refused(bench, "ladder", lane, "--targets", "100", "--up", "--seal")
