"""How fast a start-up log is read on one core, and how much memory a gigabyte of it takes.

`python -m tests.benchmarks.log_reading [GIB]` prints both; the log is made on the fly and never stored.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from anvil_tui.engines.startup_log import StartupLog

LOGS = Path(__file__).parent.parent / "data" / "logs"
CHUNK = 1 << 20


def running(number: int) -> bytes:
    """What a busy server writes: an access line for each request, a statistics line for every five hundred of them."""
    if number % 500 == 0:
        return (
            b"(APIServer pid=1) INFO 10-05 10:06:42 [loggers.py:314] Engine 000: Avg prompt throughput:"
            b" 9.8 tokens/s, Avg"
            b" generation throughput: 10.5 tokens/s, Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix"
            b" cache hit rate: 0.0%\n"
        )
    if number % 50 == 0:
        return b"(APIServer pid=1) INFO 10-05 10:06:42 [async_llm.py:271] Added request chatcmpl-%032x.\n" % number
    return b'(APIServer pid=1) INFO:     127.0.0.1:%05d - "POST /v1/chat/completions HTTP/1.1" 200 OK\n' % (
        10000 + number % 50000
    )


def chunks(size: int) -> Iterator[bytes]:
    """A real start-up and then a running server, `size` bytes in all, in chunks as a file would be read."""
    startup = (LOGS / "01-vllm032-cpu-ready.txt").read_bytes()
    yield startup
    written = len(startup)
    block = b"".join(running(number) for number in range(20_000))
    pieces = [block[at : at + CHUNK] for at in range(0, len(block), CHUNK)]
    while written < size:
        for piece in pieces:
            yield piece
            written += len(piece)


def main() -> None:
    size = int(float(sys.argv[1] if len(sys.argv) > 1 else "1") * (1 << 30))
    log = StartupLog("vllm")
    lines = spent = 0
    for chunk in chunks(size):
        began = time.perf_counter()
        log.feed(chunk)
        spent += time.perf_counter() - began
        lines += chunk.count(b"\n")
    log.finish()
    report = log.report()
    assert report.state == "ready" and report.lines == lines
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{report.bytes / (1 << 30):.2f} GiB, {lines:,} lines: {lines / spent:,.0f} lines/s, peak {peak:.0f} MiB")


if __name__ == "__main__":
    main()
