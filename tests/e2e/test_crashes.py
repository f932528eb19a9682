"""`kill -9` of each process, one at a time: nothing acknowledged is lost, and the operator is told in words."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from anvil_tui.records.events import LoadFailed, Recovered, RunnerEnded, RunStarted
from tests.e2e.conftest import Bench, until

SLOW = {"time_scale": "1", "prefill_tok_s": "1000", "decode_tok_s": "60", "startup_seconds": "1"}
"""A rung that takes seconds, so that a test can strike in the middle of it."""


def _kill(bench: Bench, module: str) -> None:
    os.kill(bench.pid(module), signal.SIGKILL)


@pytest.mark.slow
def test_the_runner_killed_in_mid_rung_is_resumed(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "1500,3000,1600", "--up")
    folder = bench.wait_in_rung()
    until(lambda: bench.view(folder).runs[-1].target_tokens == 3000, 30, "the second rung")
    bench.wait_in_rung()
    _kill(bench, "anvil_tui.campaigns.runner")
    printed, _ = verb.communicate(timeout=30)
    assert "ended without a word" in printed and verb.returncode == 1
    before = folder.journal.read_bytes()
    assert bench.json("campaigns")["campaigns"][0]["standing"] == "interrupted"
    assert bench.json("lanes")["lanes"][-1]["state"] == "up"

    resumed = bench.json("resume", folder.id, code=1)
    assert [(run["target_tokens"], run["state"]) for run in resumed["runs"]] == [
        (1500, "passed"), (3000, "interrupted"), (1600, "passed"),
    ]  # fmt: skip
    assert folder.journal.read_bytes().startswith(before)
    events = bench.events(folder)
    recovered = next(event for event in events if isinstance(event, Recovered))
    assert recovered.interrupted_runs == (f"{lane}-r2",)
    assert [event.run for event in events if isinstance(event, RunStarted)] == [f"{lane}-r{n}" for n in (1, 2, 3)]
    bench.good("seal", folder.id)
    manifest = json.loads((folder.path / "MANIFEST.json").read_bytes())
    assert [run["state"] for run in manifest["runs"]] == ["ok", "interrupted", "ok"]


@pytest.mark.slow
def test_a_killed_probe_child_costs_its_rung_only(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "3000,1500", "--up")
    folder = bench.wait_in_rung()
    _kill(bench, "anvil_tui.probes")
    printed, _ = verb.communicate(timeout=60)
    assert verb.returncode == 1
    assert "the measuring child died (signal 9)" in printed
    assert [run.state for run in bench.view(folder).runs] == ["interrupted", "passed"]


@pytest.mark.slow
def test_a_killed_sampler_makes_its_window_incomplete(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "4000,1500", "--up")
    folder = bench.wait_in_rung()
    _kill(bench, "anvil_tui.rehearsal.sampler")
    verb.communicate(timeout=60)
    verdicts = [run.reserve for run in bench.view(folder).runs]
    assert verdicts[0] in ("INCOMPLETE", "FAIL")
    artifact = json.loads((folder.path / f"runs/{lane}-r1.json").read_bytes())
    assert any("interrupted" in gpu["reason"] or gpu["verdict"] == "FAIL" for gpu in artifact["reserve"]["gpus"])
    assert "alarm_raised" in bench.kinds(folder)


@pytest.mark.slow
def test_a_killed_watch_changes_nothing(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "3000", "--up")
    folder = bench.wait_in_rung()
    watch = bench.start("watch", folder.id)
    until(lambda: watch.stdout and watch.stdout.readline(), 10, "watch follows")
    watch.kill()
    watch.communicate()
    verb.communicate(timeout=60)
    assert verb.returncode == 0 and bench.view(folder).ending == "complete"


@pytest.mark.slow
def test_the_verb_killed_leaves_the_campaign_alone(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "3000", "--up")
    folder = bench.wait_in_rung()
    verb.send_signal(signal.SIGTERM)
    verb.communicate(timeout=10)
    assert verb.returncode == 128 + signal.SIGTERM
    assert bench.json("watch", folder.id)["standing"] == "complete"


@pytest.mark.slow
def test_a_killed_holder_leaves_the_lane_up_and_its_exit_unknown(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    bench.good("up", lane)
    _kill(bench, "anvil_tui.lanes.holder")
    assert bench.json("ladder", lane, "--targets", "1500")["runs"][0]["state"] == "passed"
    bench.good("down", lane)
    load = next((bench.state / "lanes" / lane).iterdir())
    assert not (load / "exit.json").exists()
    assert not bench._processes("anvil_tui.rehearsal.engine")


@pytest.mark.slow
def test_a_lane_that_dies_after_its_runner_ended_leaves_its_exit(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    bench.good("up", lane)
    _kill(bench, "anvil_tui.rehearsal.engine")
    load = next((bench.state / "lanes" / lane).iterdir())
    ended = json.loads(
        until(lambda: (load / "exit.json").exists() and (load / "exit.json").read_text(), 10, "exit.json")
    )
    assert (ended["code"], ended["signal"]) == (None, 9)
    assert bench.json("lanes")["lanes"][-1]["state"] == "exited"


def test_a_lane_killed_in_mid_rung_is_said_in_words_within_seconds(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "8000,1500", "--up")
    folder = bench.wait_in_rung()
    _kill(bench, "anvil_tui.rehearsal.engine")
    struck = time.monotonic()
    printed, _ = verb.communicate(timeout=30)
    assert time.monotonic() - struck < 5
    assert verb.returncode == 1
    assert f"{lane} died: it ended by itself with signal 9" in printed
    events = bench.events(folder)
    failed = next(event for event in events if isinstance(event, LoadFailed))
    assert failed.signal == 9
    assert [run.state for run in bench.view(folder).runs] == ["failed", "skipped"]
    assert bench.view(folder).ending == "failed"
    bench.good("seal", folder.id)


@pytest.mark.slow
def test_sigterm_of_the_runner_means_stop_now_and_leave_a_clean_folder(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    bench.good("keys", "--create", "op@lab", "--no-passphrase")
    verb = bench.start("ladder", lane, "--targets", "8000,1500", "--up", "--seal")
    folder = bench.wait_in_rung()
    os.kill(bench.pid("anvil_tui.campaigns.runner"), signal.SIGTERM)
    printed, _ = verb.communicate(timeout=15)
    assert "told to stop" in printed
    ended = bench.events(folder)[-1]
    assert isinstance(ended, RunnerEnded) and ended.ending == "stopped", "not sealed: it can be resumed"
    assert not folder.live.exists() and not folder.closed
    assert [run.state for run in bench.view(folder).runs] == ["interrupted", "skipped"]
    assert bench.json("lanes")["lanes"][-1]["state"] == "up"


@pytest.mark.slow
def test_asking_to_stop_lets_the_open_request_end(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "2500,1500", "--up")
    folder = bench.wait_in_rung()
    bench.good("stop", folder.id)
    verb.communicate(timeout=30)
    view = bench.view(folder)
    assert [run.state for run in view.runs] == ["passed", "skipped"]
    assert view.ending == "stopped"
    assert {"asked", "answered"} <= set(bench.kinds(folder))


@pytest.mark.slow
def test_the_runner_killed_while_the_lane_starts(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **{**SLOW, "startup_seconds": "6"})
    verb = bench.start("up", lane)
    until(lambda: bench._processes("anvil_tui.rehearsal.engine"), 20, "the engine")
    folder = bench.last
    _kill(bench, "anvil_tui.campaigns.runner")
    verb.communicate(timeout=20)
    again = bench.json("up", lane)
    assert again["standing"] == "complete" and again["startup_seconds"] is None
    assert bench.json("campaigns")["campaigns"][0]["campaign_id"] == folder.id


@pytest.mark.slow
def test_a_runner_that_does_not_answer_is_told_by_a_signal(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "9000,1500", "--up")
    folder = bench.wait_in_rung()
    runner = bench.pid("anvil_tui.campaigns.runner")
    os.kill(runner, signal.SIGSTOP)
    stop = bench.start("stop", folder.id)
    said = until(lambda: stop.stdout and stop.stdout.readline(), 10, "a word")
    assert "did not take the request within 3 s; it is sent SIGTERM" in said
    os.kill(runner, signal.SIGCONT)
    stop.communicate(timeout=20)
    verb.communicate(timeout=20)
    assert bench.view(folder).ending == "stopped"


@pytest.mark.slow
def test_an_interrupted_campaign_is_sealed_as_such(bench: Bench) -> None:
    lane = bench.rehearsal("slow", **SLOW)
    verb = bench.start("ladder", lane, "--targets", "1500,9000", "--up")
    folder = bench.wait_in_rung()
    until(lambda: bench.view(folder).runs[-1].target_tokens == 9000, 30, "the second rung")
    _kill(bench, "anvil_tui.campaigns.runner")
    verb.communicate(timeout=30)
    with folder.journal.open("ab") as journal:
        journal.write(b'{"seq":99,"torn')
    bench.good("seal", folder.id)
    manifest = json.loads((folder.path / "MANIFEST.json").read_bytes())
    assert manifest["status"] == "interrupted"
    assert [run["state"] for run in manifest["runs"]] == ["ok", "interrupted"]
    bench.good("keys", "--create", "op@lab", "--no-passphrase")
    bench.good("sign", folder.id)
    bench.good("verify", folder.id)


@pytest.mark.slow
def test_a_sealing_that_was_cut_off_can_only_be_completed(bench: Bench) -> None:
    lane = bench.rehearsal("practice")
    bench.good("ladder", lane, "--targets", "1500", "--up")
    folder = bench.last
    bench.good("seal", folder.id)
    folder.sums.unlink()
    assert "sealed" in bench.run("resume", folder.id).stderr
    text = bench.root / "text"
    text.write_text("too late")
    assert "sealed" in bench.run("decide", folder.id, "--text", str(text)).stderr
    bench.good("seal", folder.id)
    assert bench.run("verify", folder.id).returncode == 3
