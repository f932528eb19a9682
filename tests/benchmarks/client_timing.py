"""How true the measuring client's times are, and what they cost, beside other clients of the same server.

    python tests/benchmarks/client_timing.py [--concurrency 1,64] [--beside COMMAND] [--json FILE]

A scripted server in a process of its own plays the same stream to each client: 200 ms of prefill, then 64 chunks, one
every 10 ms. The server keeps the moment at which it sent each chunk, and numbers its answers, so that each client's own
figures of a request are held against what truly happened. CPU is the difference between a long and a short run, so that
what a client spends on starting is left out. Peers are used where a virtual environment holds them:

    ANVIL_PEERS_VENV   aiperf
    ANVIL_VLLM_VENV    vLLM's own serve benchmark; ANVIL_VLLM_TOKENIZER names a tokenizer folder for it

`--beside` runs a command during every measurement, such as a console on a busy log.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import resource
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.scripted_server import Script, ScriptedServer, Step  # noqa: E402
from tests.unit.probes.scenarios import chunk, sse, usage  # noqa: E402

CHUNKS = 64
PREFILL_US = 200_000
GAP_US = 10_000
REQUESTS = {1: (4, 40), 64: (64, 1024)}
"""Requests of the short and of the long run, by concurrency."""


@dataclass(frozen=True)
class Measured:
    """What a client says of one request, in milliseconds from its own start; `number` is the server's."""

    number: int
    first_output_ms: float | None
    ttft_ms: float
    last_token_ms: float | None
    e2e_ms: float | None


@dataclass(frozen=True)
class Result:
    """Errors in milliseconds against the server's own stamps, decode in per cent; CPU of the client alone."""

    client: str
    concurrency: int
    requests: int
    errors: dict[str, tuple[float, float]]
    """Median and p99 by figure; a figure that the client does not tell is missing."""
    cpu_ms_per_1000_chunks: float


_FIGURES = ("TTFT ms", "first output ms", "E2E ms", "decode %")
HEAD = f"{'error of':<12} {'at once':>7}" + "".join(f"{figure:>16}" for figure in _FIGURES) + f"{'CPU ms/1000':>13}"
HEAD += f"\n{'':<20}" + f"{'p50':>8}{'p99':>8}" * len(_FIGURES)

Client = Callable[[ScriptedServer, int, int], tuple[list[Measured], float]]
"""Runs `requests` requests at `concurrency`; their figures, and CPU seconds spent."""


def plain() -> Script:
    """Role and first token together, then a token a chunk, the request's number as its prompt tokens."""
    last = PREFILL_US + (CHUNKS - 1) * GAP_US
    steps = [Step(PREFILL_US, "body", sse(chunk({"role": "assistant", "content": ""})))]
    steps += [Step(PREFILL_US + n * GAP_US, "body", sse(chunk({"content": f"token {n} "}))) for n in range(CHUNKS)]
    total = sse({"choices": [], "usage": usage(CHUNKS)}).replace(b'"prompt_tokens": 2960', b'"prompt_tokens": @NUMBER@')
    steps += [Step(last, "body", sse(chunk({}, finish="stop"))), Step(last, "body", total)]
    return Script(steps=(*steps, Step(last, "body", sse("[DONE]")), Step(last, "end")))


def ours(server: ScriptedServer, requests: int, concurrency: int) -> tuple[list[Measured], float]:
    """The probe child at a capacity run, asked as a runner asks it; CPU from the first scored request on."""
    child = subprocess.Popen(
        [sys.executable, "-m", "anvil_tui.probes"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert child.stdin and child.stdout
    process = psutil.Process(child.pid)
    target = {"base_url": server.base_url, "model": "plain"}
    ask: dict[str, Any] = {"do": "measure_capacity", "id": "run", "target": target, "nonce": "x", "limit_tokens": None}
    ask |= {"requests": requests, "concurrency": concurrency, "context_tokens": 256, "max_tokens": 256}
    child.stdin.write(json.dumps(ask).encode() + b"\n")
    child.stdin.flush()
    found: list[Measured] = []
    begun_s: float | None = None
    for raw in child.stdout:
        line = json.loads(raw)
        if line["kind"] == "running" and line["step"] == "measuring" and begun_s is None:
            begun_s = _cpu_s(process)
        elif line["kind"] == "measured":
            record = line["record"]
            assert record["outcome"] == "ok", record
            times = (record[name] for name in ("time_to_first_output_ms", "ttft_ms", "last_token_ms", "e2e_ms"))
            found.append(Measured(record["prompt_tokens"], *times))
        elif line["kind"] == "capacity":
            break
    assert begun_s is not None
    used_s = _cpu_s(process) - begun_s
    child.stdin.close()
    child.wait()
    child.stdout.close()
    return found, used_s


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def bare(server: ScriptedServer, requests: int, concurrency: int) -> tuple[list[Measured], float]:
    """A blocking socket a thread: stamp each read, look at the bytes afterwards. In a process of its own."""
    with tempfile.NamedTemporaryFile("r") as out:
        code = [sys.executable, __file__, "--bare", f"{server.port},{requests},{concurrency},{out.name}"]
        used = _run(code)
        return [Measured(**one) for one in json.load(out)], used


def _bare_process(port: int, requests: int, concurrency: int, out: str) -> None:
    body = json.dumps({"model": "plain", "stream": True, "messages": [{"role": "user", "content": "hello"}]}).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    found: list[Measured] = []
    left = iter(range(requests))

    def work() -> None:
        for _ in left:
            with socket.create_connection(("127.0.0.1", port)) as one:
                started = time.perf_counter_ns()
                one.sendall(head + body)
                reads: list[tuple[int, bytes]] = []
                while not reads or b"[DONE]" not in reads[-1][1]:
                    data = one.recv(65536)
                    reads.append((time.perf_counter_ns(), data))
            tokens = [at for at, data in reads if b'"content": "token' in data]
            number = int(b"".join(data for _, data in reads).split(b'"prompt_tokens": ')[1][:5])
            times = ((at - started) / 1e6 for at in (tokens[0], tokens[-1], reads[-1][0]))
            found.append(Measured(number, None, *times))

    threads = [threading.Thread(target=work) for _ in range(concurrency)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    Path(out).write_text(json.dumps([asdict(one) for one in found]))


def vllm_bench(server: ScriptedServer, requests: int, concurrency: int) -> tuple[list[Measured], float]:
    """vLLM's serve benchmark, with the results that it saves of each request."""
    code = (
        "import argparse; from vllm.benchmarks.serve import add_cli_args, main; p = argparse.ArgumentParser();"
        "add_cli_args(p); main(p.parse_args())"
    )
    with tempfile.NamedTemporaryFile("r", suffix=".json") as out:
        options = f"--backend openai-chat --base-url {server.base_url} --endpoint /v1/chat/completions --model plain"
        options += f" --tokenizer {os.environ['ANVIL_VLLM_TOKENIZER']} --dataset-name random --random-input-len 8"
        options += f" --random-output-len {CHUNKS} --num-prompts {requests} --max-concurrency {concurrency}"
        options += f" --save-result --save-detailed --result-filename {out.name} --disable-tqdm"
        options += " --ready-check-timeout-sec 0"
        used = _run([_python("ANVIL_VLLM_VENV"), "-c", code, *options.split()], HF_HUB_OFFLINE="1")
        saved = json.load(out)
    rows = zip(saved["input_lens"], saved["ttfts"], saved["itls"], strict=True)
    return [
        Measured(number, None, first * 1e3, (first + sum(gaps)) * 1e3, (first + sum(gaps)) * 1e3)
        for number, first, gaps in rows
    ], used


def aiperf(server: ScriptedServer, requests: int, concurrency: int) -> tuple[list[Measured], float]:
    """NVIDIA's aiperf, with the records that it exports of each request."""
    with tempfile.TemporaryDirectory() as folder:
        options = f"profile --model plain --url {server.base_url} --endpoint-type chat --streaming --ui none"
        options += f" --request-count {requests} --concurrency {concurrency} --output-artifact-dir {folder}"
        options += f" --tokenizer {os.environ['ANVIL_VLLM_TOKENIZER']} --use-server-token-count"
        options += " --synthetic-input-tokens-mean 8 --export-level records"
        used = _run([str(Path(_python("ANVIL_PEERS_VENV")).with_name("aiperf")), *options.split()])
        (export,) = Path(folder).rglob("profile_export.jsonl")
        rows = [json.loads(line)["metrics"] for line in export.read_text().splitlines()]

    def value(row: dict[str, Any], name: str) -> float:
        return float(row[name]["value"])

    return [
        Measured(
            round(value(row, "input_sequence_length")),
            None,
            value(row, "time_to_first_token"),
            value(row, "request_latency"),
            value(row, "request_latency"),
        )
        for row in rows
    ], used


def _python(variable: str) -> str:
    return str(Path(os.environ[variable]) / "bin/python")


def _run(command: list[str], **env: str) -> float:
    """Run to the end; CPU seconds of it and of its own children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[:3]} failed:\n{done.stdout.decode()[-2000:]}\n{done.stderr.decode()[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def clients() -> dict[str, Client]:
    found: dict[str, Client] = {"ours": ours, "bare socket": bare}
    if "ANVIL_VLLM_VENV" in os.environ and "ANVIL_VLLM_TOKENIZER" in os.environ:
        found["vllm bench"] = vllm_bench
        if "ANVIL_PEERS_VENV" in os.environ:
            found["aiperf"] = aiperf
    return found


def measure(name: str, client: Client, concurrency: int) -> Result:
    few, many = REQUESTS[concurrency]
    with ScriptedServer({"plain": plain()}) as server:
        _, short_cpu = client(server, few, concurrency)
        measured, long_cpu = client(server, many, concurrency)
        truth = {entry["number"]: entry for entry in server.log()}
    errors: dict[str, list[float]] = {figure: [] for figure in _FIGURES}
    for one in measured:
        entry = truth[one.number]
        # sent_ns: headers, role chunk, then the tokens, then finish, usage and [DONE].
        sent = [(at - entry["received_ns"]) / 1e6 for at in entry["sent_ns"]]
        errors["TTFT ms"].append(abs(one.ttft_ms - sent[2]))
        if one.first_output_ms is not None:
            errors["first output ms"].append(abs(one.first_output_ms - sent[2]))
        if one.e2e_ms is not None:
            errors["E2E ms"].append(abs(one.e2e_ms - sent[-1]))
        if one.last_token_ms is not None:
            window = one.last_token_ms - one.ttft_ms
            errors["decode %"].append(abs((sent[1 + CHUNKS] - sent[2]) / window - 1) * 100)
    return Result(
        client=name,
        concurrency=concurrency,
        requests=len(measured),
        errors={figure: (statistics.median(values), _p99(values)) for figure, values in errors.items() if values},
        cpu_ms_per_1000_chunks=(long_cpu - short_cpu) * 1e6 / ((many - few) * CHUNKS),
    )


def _p99(values: list[float]) -> float:
    """Nearest rank."""
    ordered = sorted(values)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]


def row(result: Result) -> str:
    """One line under HEAD."""
    pairs = [result.errors.get(figure) for figure in _FIGURES]
    cells = ["       -       -" if pair is None else f"{pair[0]:8.3f}{pair[1]:8.3f}" for pair in pairs]
    return f"{result.client:<12} {result.concurrency:>7}{''.join(cells)}{result.cpu_ms_per_1000_chunks:>13.1f}"


@contextlib.contextmanager
def beside(command: str | None) -> Iterator[None]:
    if command is None:
        yield
        return
    process = subprocess.Popen(shlex.split(command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", default="1,64", help="1, 64 or both")
    parser.add_argument("--only", help="names of clients, separated by commas")
    parser.add_argument("--beside", help="a command that runs during every measurement")
    parser.add_argument("--json", type=Path, help="file for the results")
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        port, requests, concurrency, out = options.bare.split(",")
        _bare_process(int(port), int(requests), int(concurrency), out)
        return
    results = []
    print(HEAD)
    with beside(options.beside):
        for concurrency in map(int, options.concurrency.split(",")):
            for name, client in clients().items():
                if options.only and name not in options.only.split(","):
                    continue
                result = measure(name, client, concurrency)
                results.append(result)
                print(row(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in results], indent=2))


if __name__ == "__main__":
    main()
