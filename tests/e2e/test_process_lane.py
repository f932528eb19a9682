"""A process lane of the operator's own: its log byte-exact, its end known, its secrets kept out of what is shown."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import Bench, free_port, until

pytestmark = pytest.mark.slow

SERVER = r"""
import http.server, json, os, sys
sys.stdout.buffer.write(b"raw \xff bytes\r\x1b[31mred\x1b[0m no newline" + os.environ["SECRET_TOKEN"].encode() + b"\n")
sys.stdout.buffer.write(b"INFO 12-01 03:47:53 [api.py:1] HF_TOKEN=hf_abcdefghijklmnopqrstuv\n")
sys.stdout.flush()
if os.fork() == 0:
    os.setsid()
    import time
    time.sleep(600)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": sys.argv[2], "max_model_len": 4096}]}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def server_lane(bench: Bench, served: str = "m", port: int | None = None) -> int:
    script = bench.root / "server.py"
    script.write_text(SERVER)
    port = port or free_port()
    (bench.own_lanes / "mine.toml").write_text(f"""
[identity]
model = "m"
engine = "vllm"
[launch]
kind = "process"
argv = ["{sys.executable}", "{script}", "{{endpoint.port}}", "{served}"]
env_from = ["SECRET_TOKEN"]
[endpoint]
base_url = "http://127.0.0.1:{port}"
served_name = "m"
startup_timeout_s = 5
[gpus]
source = "none"
""")
    bench.lanes.append("mine")
    return port


def test_log_secrets_and_the_whole_group(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    server_lane(bench)
    env = bench.env | {"SECRET_TOKEN": "swordfish-sw0rdfish"}
    monkeypatch.setattr(Bench, "env", property(lambda self: env))
    bench.good("up", "mine")
    load = next((bench.state / "lanes" / "mine").iterdir())
    log = (load / "lane.log").read_bytes()
    assert log.startswith(b"raw \xff bytes\r\x1b[31mred\x1b[0m no newlineswordfish-sw0rdfish\n")
    for path in load.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.name == "lane.log" or b"swordfish" not in path.read_bytes()
    children = [pid for pid in psutil.pids() if _carries(pid, load.name)]
    assert len(children) == 2
    bench.good("down", "mine")
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists() and _state(pid) != "Z"]
    exited = json.loads((load / "exit.json").read_text())
    assert exited["signal"] == signal.SIGTERM and (load / "stop_asked.json").exists()
    copied = b"".join(path.read_bytes() for path in (bench.last.path / "logs").iterdir())
    assert b"hf_abcdef" not in copied and b"[redacted]" in copied


def test_ready_only_with_the_served_name(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    server_lane(bench, served="another")
    env = bench.env | {"SECRET_TOKEN": "x"}
    monkeypatch.setattr(Bench, "env", property(lambda self: env))
    done = bench.run("up", "mine")
    assert done.returncode == 1
    assert "the endpoint serves another, not m" in done.stdout
    assert "did not come up within 5 s" in done.stdout


def test_a_lane_that_ends_at_once_is_said_at_once(bench: Bench) -> None:
    (bench.own_lanes / "mine.toml").write_text(f"""
[identity]
model = "m"
engine = "vllm"
[launch]
kind = "process"
argv = ["{sys.executable}", "-c", "raise SystemExit('torch.OutOfMemoryError: CUDA out of memory')"]
[endpoint]
base_url = "http://127.0.0.1:{free_port()}"
served_name = "m"
[gpus]
source = "none"
""")
    done = bench.run("up", "mine", timeout=20)
    assert done.returncode == 1
    assert "mine did not come up: it ended by itself with exit code 1" in done.stdout
    assert bench.view().ending == "failed"


def test_an_attached_lane_is_measured_and_never_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    lane = bench.rehearsal("engine")
    bench.good("up", lane)
    toml = (bench.own_lanes / "engine.toml").read_text()
    url = next(line for line in toml.splitlines() if line.startswith("base_url"))
    served = next(line for line in toml.splitlines() if line.startswith("served_name"))
    (bench.own_lanes / "theirs.toml").write_text(f"""
[identity]
model = "m"
engine = "vllm"
[launch]
kind = "attach"
[endpoint]
{url}
{served}
[gpus]
source = "none"
""")
    document = bench.json("ladder", "theirs", "--targets", "2000", "--max-tokens", "1024")
    assert document["runs"][0]["state"] == "passed"
    assert document["startup_seconds"] is None and document["runs"][0]["reserve"] is None
    assert "someone else" in bench.run("up", "theirs").stderr or "whoever runs it" in bench.run("up", "theirs").stderr
    bench.good("down", "theirs")
    assert bench.json("ladder", lane, "--targets", "2000")["runs"][0]["state"] == "passed"


def _carries(pid: int, load_id: str) -> bool:
    try:
        process = psutil.Process(pid)
        marked = process.environ().get("ANVIL_TUI_LOAD") == load_id
        return marked and any(word.endswith("server.py") for word in process.cmdline())
    except psutil.Error:
        return False


def _state(pid: int) -> str:
    return until(lambda: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0], 1)


def test_a_lane_whose_gpus_are_taken_says_by_whom_and_is_not_up(bench: Bench) -> None:
    one, other = bench.rehearsal("one"), bench.rehearsal("other", shipped="rehearsal-control")
    bench.good("up", one)
    refused = bench.run("up", other)
    assert refused.returncode == 2
    assert "GPU-rehearsal-0-0000-0000-0000-000000000000 is held by lane one" in refused.stdout
    states = {lane["lane"]: lane["state"] for lane in bench.json("lanes")["lanes"]}
    assert (states["one"], states["other"]) == ("up", "gone")
