"""The probe child as its runner sees it: lines in, lines out, and an end when nobody is left."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.scripted_server import Script, ScriptedServer, Step
from tests.unit.probes.scenarios import chunk, sse, tokens, usage

ANSWER = [
    *tokens(20, counted=True),
    Step(500_000, "body", sse(chunk({}, finish="stop"))),
    Step(
        500_000,
        "body",
        sse({"choices": [], "usage": usage(20)}).replace(b'"prompt_tokens": 2960', b'"prompt_tokens": @PROMPT@'),
    ),
    Step(500_000, "body", sse("[DONE]")),
    Step(500_000, "end"),
]
QUICK = [Step(at_us=step.at_us // 10, do=step.do, data=step.data) for step in ANSWER]
METRICS = "vllm:prompt_tokens_total 5\nvllm:num_requests_running 0\n"


class Child:
    def __init__(self, **env: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "anvil_tui.probes"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **env},
        )
        assert self.process.stdin and self.process.stdout
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def ask(self, do: str, **fields: Any) -> None:
        self.stdin.write(json.dumps({"do": do, **fields}).encode() + b"\n")
        self.stdin.flush()

    def next(self) -> dict[str, Any]:
        return json.loads(self.stdout.readline())

    def until(self, *kinds: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The first line of one of `kinds`, and the lines before it."""
        before = []
        while (line := self.next())["kind"] not in kinds:
            before.append(line)
        return line, before

    def end(self) -> int:
        self.stdin.close()
        code = self.process.wait(timeout=10)
        self.stdout.close()
        return code


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedServer]:
    scripts = {
        "m": Script(steps=tuple(ANSWER)),
        "quick": Script(steps=tuple(QUICK)),
        "silent": Script(steps=()),
        "stops": Script(steps=tuple(tokens(5))),
    }
    with ScriptedServer(scripts, routes={"/metrics": (200, "text/plain", METRICS)}) as one:
        yield one


@pytest.fixture
def child() -> Iterator[Child]:
    one = Child()
    assert one.next()["kind"] == "ready"
    yield one
    if one.process.poll() is None:
        assert one.end() == 0


def rung(server: ScriptedServer, **fields: Any) -> dict[str, Any]:
    asked = {
        "id": "a",
        "target": {"base_url": server.base_url, "model": "m"},
        "request_index": 3,
        "target_tokens": 1500,
        "max_tokens": 64,
        "limit_tokens": 2000,
        "nonce": "0f",
    }
    return {**asked, **fields}


def test_a_rung_is_sized_exactly_and_measured(child: Child, server: ScriptedServer) -> None:
    child.ask("measure_rung", **rung(server))
    finished, before = child.until("finished")
    sized = next(line for line in before if line["kind"] == "sized")
    assert sized["sizing"]["counted_tokens"] == 1500
    record = finished["record"]
    assert (record["outcome"], record["prompt_tokens"], record["output_tokens"]) == ("ok", 1500, 20)
    assert (record["request_index"], record["nonce"], record["cache_salt"]) == (3, "0f", True)
    progress = [line for line in before if line["kind"] == "progress"]
    assert {line["phase"] for line in progress} >= {"prefill", "answer"}
    assert progress[-1]["tokens"] > 1
    stamps = [line["mono_us"] for line in progress]
    assert all(after - earlier > 90_000 for earlier, after in itertools.pairwise(stamps))


def test_a_prompt_above_the_limit_is_not_sent(child: Child, server: ScriptedServer) -> None:
    before = len(server.log())
    child.ask("measure_rung", **rung(server, limit_tokens=1499))
    finished, _ = child.until("finished")
    assert finished["record"]["outcome"] == "not_sent"
    assert "1,499" in finished["record"]["error"]["message"]
    assert len(server.log()) == before


def test_a_needle_is_scored_apart(child: Child, server: ScriptedServer) -> None:
    child.ask("measure_rung", **rung(server, needle_depth=0.5))
    finished, _ = child.until("finished")
    assert finished["record"]["outcome"] == "ok"
    assert finished["record"]["needle"]["found"] is False


def test_a_lane_that_is_gone(child: Child) -> None:
    child.ask("measure_rung", **rung(server=ScriptedServer({}, port=1)))
    finished, _ = child.until("finished")
    assert finished["record"]["outcome"] == "not_sent"
    assert "cannot connect" in finished["record"]["sizing"]["error"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"nonsense", "malformed"),
        (b'{"do": "dance", "id": "a"}', "dance"),
        (b'{"do": "measure_rung", "id": "a"}', "missing required field"),
        (b'{"do": "cancel", "id": "x"}', "no such request"),
        (b"\xff\xfe", "malformed"),
    ],
)
def test_asks_that_are_none_are_refused(child: Child, line: bytes, words: str) -> None:
    child.stdin.write(line + b"\n\n")
    child.stdin.flush()
    refused, _ = child.until("refused")
    assert words in refused["words"]


def test_a_missing_key_is_refused_in_words(child: Child, server: ScriptedServer) -> None:
    target = {"base_url": server.base_url, "model": "m", "api_key_env": "NOT_SET_HERE"}
    child.ask("measure_rung", **rung(server, target=target))
    refused, _ = child.until("refused")
    assert "NOT_SET_HERE is not set" in refused["words"]


def test_cancelling_and_two_asks_of_one_id(child: Child, server: ScriptedServer) -> None:
    target = {"base_url": server.base_url, "model": "stops"}
    child.ask("probe_url", id="a", target=target, nonce="x")
    child.until("progress")
    child.ask("probe_url", id="a", target=target, nonce="x")
    refused, _ = child.until("refused")
    assert "is open" in refused["words"]
    child.ask("cancel", id="a")
    finished, _ = child.until("finished")
    assert finished["record"]["outcome"] == "cancelled"


def test_any_server_can_be_probed(child: Child, server: ScriptedServer) -> None:
    target = {"base_url": server.base_url + "/v1", "model": "m"}
    child.ask("probe_url", id="u", target=target, nonce="x", max_tokens=99)
    finished, _ = child.until("finished")
    assert finished["record"]["outcome"] == "ok"
    assert finished["record"]["sizing"] is None
    child.ask("probe_url", id="u", target=target, nonce="x", prompt_tokens=777)
    finished, _ = child.until("finished")
    assert finished["record"]["prompt_tokens"] == 777


@pytest.mark.parametrize("prefix", ["nonce", "shared"])
def test_capacity(child: Child, server: ScriptedServer, prefix: str) -> None:
    first = len(server.log())
    child.ask(
        "measure_capacity",
        id="c",
        target={"base_url": server.base_url, "model": "quick"},
        requests=12,
        concurrency=4,
        context_tokens=300,
        max_tokens=20,
        limit_tokens=None,
        warmup_requests=2,
        prefix=prefix,
        shared_prefix_tokens=150 if prefix == "shared" else 0,
        output_length="fixed",
        nonce="run",
    )
    ended, before = child.until("capacity")
    measured = [line for line in before if line["kind"] == "measured"]
    assert [line["warmup"] for line in measured].count(True) == 2
    scored = [line["record"] for line in measured if not line["warmup"]]
    assert sorted(record["request_index"] for record in scored) == list(range(12))
    assert all(record["outcome"] == "ok" and record["prompt_tokens"] == 300 for record in scored)
    nonces = {record["nonce"] for record in scored}
    assert len(nonces) == (12 if prefix == "nonce" else 1)
    assert ended["counters_before"]["values"]["prompt_tokens"] == 5
    assert ended["wall_clock_ms"] > 3 * 45
    assert not ended["cancelled"]
    played = server.log()[first:]
    assert len(played) == 14
    salts = {entry["body"]["cache_salt"] for entry in played}
    assert len(salts) == (14 if prefix == "nonce" else 1)
    in_flight = sorted(event for record in scored for event in ((record["sent_us"], 1), (record["ended_us"], -1)))
    level, highest = 0, 0
    for _, step in in_flight:
        level += step
        highest = max(highest, level)
    assert highest == 4


def test_capacity_at_a_fixed_rate_of_arrivals(child: Child, server: ScriptedServer) -> None:
    target = {"base_url": server.base_url, "model": "quick"}
    child.ask(
        "measure_capacity", id="c", target=target, requests=6, concurrency=6, context_tokens=200, max_tokens=64,
        limit_tokens=None, nonce="rate", arrivals_per_s=20,
    )  # fmt: skip
    _, before = child.until("capacity")
    sent = sorted(line["record"]["sent_us"] for line in before if line["kind"] == "measured")
    gaps = [after - earlier for earlier, after in itertools.pairwise(sent)]
    assert sum(gaps) / len(gaps) == pytest.approx(50_000, rel=0.3)


def test_a_cancelled_capacity_run_closes_everything(child: Child, server: ScriptedServer) -> None:
    target = {"base_url": server.base_url, "model": "stops"}
    child.ask(
        "measure_capacity", id="c", target=target, requests=9, concurrency=3, context_tokens=200, max_tokens=64,
        limit_tokens=None, nonce="stop",
    )  # fmt: skip
    while True:
        line, _ = child.until("running")
        if line["tokens"] or line["open"] == 3:
            break
    child.ask("cancel", id="c")
    ended, before = child.until("capacity")
    assert ended["cancelled"]
    measured = [line["record"]["outcome"] for line in before if line["kind"] == "measured"]
    assert measured == ["cancelled"] * 3


def test_capacity_above_the_limit_sends_nothing(child: Child, server: ScriptedServer) -> None:
    first = len(server.log())
    child.ask(
        "measure_capacity", id="c", target={"base_url": server.base_url, "model": "m"}, requests=3, concurrency=2,
        context_tokens=300, max_tokens=20, limit_tokens=299, nonce="run",
    )  # fmt: skip
    ended, before = child.until("capacity")
    assert [line["record"]["outcome"] for line in before if line["kind"] == "measured"] == ["not_sent"] * 3
    assert ended["wall_clock_ms"] is None
    assert len(server.log()) == first


def test_a_gate_reports_each_observation(child: Child, server: ScriptedServer) -> None:
    target = {"base_url": server.base_url, "model": "m"}
    child.ask("measure_gate", id="g", target=target, checks=["smoke", "streaming-tools"], nonce="x")
    gated, before = child.until("gated")
    assert len([line for line in before if line["kind"] == "observed"]) == 2
    assert gated["result"]["passed"] is False


def gone(server: ScriptedServer, index: int) -> bool:
    return "closed_ns" in server.log()[index]


def wait(holds: Any, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_ends_with_its_stdin_and_drops_open_requests(server: ScriptedServer) -> None:
    child = Child()
    index = len(server.log())
    child.ask("probe_url", id="a", target={"base_url": server.base_url, "model": "stops"}, nonce="x")
    wait(lambda: len(server.log()) > index)
    started = time.monotonic()
    assert child.end() == 0
    assert time.monotonic() - started < 3
    wait(lambda: gone(server, index))


def test_it_ends_when_its_parent_dies(server: ScriptedServer) -> None:
    """The pipe stays open in this process; only the parent goes."""
    reading, writing = os.pipe()
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-m', 'anvil_tui.probes'], stdin=int(sys.argv[1]),"
        " stdout=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\ntime.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code, str(reading)], stdout=subprocess.PIPE, pass_fds=[reading])
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    index = len(server.log())
    target = {"base_url": server.base_url, "model": "stops"}
    os.write(writing, json.dumps({"do": "probe_url", "id": "a", "target": target, "nonce": "x"}).encode() + b"\n")
    wait(lambda: len(server.log()) > index)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    wait(lambda: gone(server, index))
    os.close(reading)
    os.close(writing)


def test_a_reader_that_stalls_holds_nothing_up(server: ScriptedServer) -> None:
    """Far more lines than a pipe holds, and nobody reads them for a while."""
    child = Child()
    target = {"base_url": server.base_url, "model": "quick"}
    first = len(server.log())
    for number in range(150):
        child.ask("probe_url", id=f"{number}", target=target, nonce="x", max_tokens=64)
    wait(lambda: len([one for one in server.log()[first:] if len(one["sent_ns"]) >= 23]) == 150, 20)
    records = []
    while len(records) < 150:
        line, _ = child.until("finished")
        records.append(line["record"])
    assert {record["outcome"] for record in records} == {"ok"}
    assert child.end() == 0


def test_it_obeys_a_signal() -> None:
    child = Child()
    assert child.next()["kind"] == "ready"
    with contextlib.suppress(ProcessLookupError):
        child.process.send_signal(signal.SIGTERM)
    assert child.process.wait(timeout=5) == -signal.SIGTERM
    child.stdin.close()
    child.stdout.close()
