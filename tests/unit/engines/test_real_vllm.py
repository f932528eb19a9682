"""The real vLLM's log, read while the engine starts and stops, in every way in which it can log."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from anvil_tui.engines.startup_figures import flat
from anvil_tui.engines.startup_log import StartupLog
from tests.e2e.conftest import free_port
from tests.unit.engines.logs import report
from tests.vllm_engine import vllm_engine

pytestmark = pytest.mark.vllm

QUIET = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
DEADLINE_S = 300.0


@contextmanager
def serving(log: Path, arguments: list[str], variables: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The engine with its log in a file; gone with all its children at the end."""
    engine = vllm_engine()
    argv = [str(engine.python), "-m", "vllm.entrypoints.openai.api_server", "--model", str(engine.model)]
    argv += ["--load-format", "dummy", "--max-model-len", "16384", "--host", "127.0.0.1", "--port", str(free_port())]
    argv += ["--dtype", "float32", "--enforce-eager", "--served-model-name", "tiny", *arguments]
    env = {**os.environ, **QUIET, "VLLM_HOST_IP": "127.0.0.1", **variables}
    with log.open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=subprocess.STDOUT, env=env, start_new_session=True)
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.mark.parametrize(
    ("arguments", "variables"),
    [
        pytest.param([], {}, marks=pytest.mark.soak),
        (["--logging-config.formatter", "json"], {}),
        pytest.param([], {"VLLM_LOGGING_COLOR": "1"}, marks=pytest.mark.soak),
        pytest.param([], {"VLLM_LOGGING_PREFIX": "[lane-a] "}, marks=pytest.mark.soak),
        pytest.param([], {"VLLM_LOGGING_LEVEL": "DEBUG"}, marks=pytest.mark.soak),
    ],
    ids=["plain", "json", "colour", "prefix", "debug"],
)
def test_what_is_read_while_it_starts_is_what_the_file_says(
    tmp_path: Path, arguments: list[str], variables: dict[str, str]
) -> None:
    path = tmp_path / "lane.log"
    live = StartupLog("vllm")
    with serving(path, arguments, variables) as process, path.open("rb") as log:

        def read_until(done: str) -> None:
            deadline = time.monotonic() + DEADLINE_S
            while True:
                while chunk := log.read(777):
                    live.feed(chunk)
                if live.report().state == done or process.poll() is not None:
                    return
                assert time.monotonic() < deadline, live.report().last_phase
                time.sleep(0.1)

        read_until("ready")
        process.send_signal(signal.SIGINT)
        process.wait(60)
        read_until("never")
    live.finish()
    found = live.report()
    assert found == report(path.read_bytes())
    assert (found.state, found.failure, found.unread) == ("ready", None, ())
    figures = flat(found)
    assert [figures[name] for name in ("max_model_len", "kv_tokens", "max_concurrency", "ranks")] == [
        16384,
        524288,
        32.0,
        1,
    ]
    assert found.engine_version and found.engine_version.value == "0.32.0"
