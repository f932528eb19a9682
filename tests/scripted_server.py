"""An HTTP server with known truth: plays scripts to the microsecond, in a process of its own.

A request names its script by the `model` in its body. Steps are sent at their time after the request came in (as the
kernel stamped it), by a busy wait, and each actual moment of sending is kept (CLOCK_MONOTONIC, which compares across
processes): `log()` tells them.
`/tokenize`, `/v1/models`, `/metrics` and `/health` answer too, so that a whole lane can be played.

    with ScriptedServer({"plain": Script(steps=…)}) as server:
        server.base_url
"""

from __future__ import annotations

import base64
import contextlib
import heapq
import json
import re
import selectors
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self
from urllib.request import urlopen

_SPIN_NS = 2_000_000
_SEND_NS = 200_000
_SO_TIMESTAMPNS = 35
_TEMPLATE_TOKENS = 7


@dataclass(frozen=True)
class Step:
    """At `at_us` after the request: send `data` as body (framed as the script says) or raw, close, or reset."""

    at_us: int
    do: Literal["body", "raw", "end", "close", "reset"] = "body"
    data: bytes = b""


@dataclass(frozen=True)
class Script:
    """What the server does with one request.

    In a body `@PROMPT@` stands for the prompt tokens that the server counted, and `@NUMBER@` for the number under which
    the log keeps the request.
    """

    steps: tuple[Step, ...]
    status: int = 200
    content_type: str = "text/event-stream; charset=utf-8"
    framing: Literal["chunked", "close", "length"] = "chunked"
    headers_at_us: int = 2000
    refuses: tuple[str, ...] = ()
    """Body fields that are answered with 400 that names them."""
    length: int = 0
    """Content-Length where framing is "length"."""


@dataclass
class ScriptedServer:
    """The server as a context manager. `routes` are further answers by path: (status, content type, body)."""

    scripts: dict[str, Script]
    routes: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(_dump(self.scripts, self.routes) + b"\n")
        self._process.stdin.flush()
        self.port = int(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    pipe.close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def log(self) -> list[dict[str, Any]]:
        """Each request played: model, body, received_ns, sent_ns of every step, closed_ns by the client if it did."""
        with urlopen(f"{self.base_url}/log", timeout=10) as answer:
            return json.loads(answer.read())


def _dump(scripts: dict[str, Script], routes: dict[str, tuple[int, str, str]]) -> bytes:
    plain = {
        name: {
            **{key: value for key, value in script.__dict__.items() if key != "steps"},
            "steps": [[step.at_us, step.do, base64.b64encode(step.data).decode()] for step in script.steps],
        }
        for name, script in scripts.items()
    }
    return json.dumps({"scripts": plain, "routes": routes}).encode()


def _load(line: bytes) -> tuple[dict[str, Script], dict[str, tuple[int, str, str]]]:
    raw = json.loads(line)
    scripts = {}
    for name, one in raw["scripts"].items():
        steps = tuple(Step(at, do, base64.b64decode(data)) for at, do, data in one.pop("steps"))
        scripts[name] = Script(steps=steps, **{**one, "refuses": tuple(one["refuses"])})
    return scripts, {path: tuple(answer) for path, answer in raw["routes"].items()}


def token_texts(text: str) -> list[str]:
    """A toy tokenizer: words in pieces of up to five letters with the blank before them, digits one by one."""
    return re.findall(r" ?[A-Za-z]{1,5}|\d|\n+|[^A-Za-z\d\n]", text)


def count_messages(messages: list[dict[str, Any]]) -> list[str]:
    texts = ["<|t|>"] * (_TEMPLATE_TOKENS - 1)
    for message in messages:
        content = message.get("content")
        texts += token_texts(content if isinstance(content, str) else json.dumps(content))
    return [*texts, "<|a|>"]


def _both_clocks() -> tuple[int, int]:
    """The monotonic and the wall clock at one moment, not across an interruption."""
    for _ in range(8):
        now, wall = time.perf_counter_ns(), time.time_ns()
        if time.perf_counter_ns() - now < 20_000:
            break
    return now, wall


class _Connection:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.entry: dict[str, Any] | None = None


class _Server:
    def __init__(self, scripts: dict[str, Script], routes: dict[str, tuple[int, str, str]]) -> None:
        self.scripts, self.routes = scripts, routes
        self.selector = selectors.DefaultSelector()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        with contextlib.suppress(OSError):
            self.listener.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self.selector.register(self.listener, selectors.EVENT_READ, None)
        self.due: list[tuple[int, int, _Connection, Script, Step, dict[str, Any]]] = []
        self.number = 0
        self.entries: list[dict[str, Any]] = []

    def run(self) -> None:
        while True:
            wait_ns = self.due[0][0] - time.perf_counter_ns() if self.due else 10**9
            timeout = max(0.0, (wait_ns - _SPIN_NS) / 1e9)
            for key, mask in self.selector.select(timeout):
                if key.data is None:
                    self._accept()
                elif mask & selectors.EVENT_READ:
                    self._read(key.data)
                elif mask & selectors.EVENT_WRITE:
                    self._flush(key.data)
            while self.due and self.due[0][0] <= time.perf_counter_ns():
                _, _, connection, script, step, entry = heapq.heappop(self.due)
                self._play(connection, script, step, entry)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                sock, _ = self.listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.selector.register(sock, selectors.EVENT_READ, _Connection(sock))

    def _read(self, connection: _Connection) -> None:
        try:
            data, notes, _, _ = connection.sock.recvmsg(1 << 16, 64)
        except BlockingIOError:
            return
        except OSError:
            data, notes = b"", []
        now, wall = _both_clocks()
        for _, kind, stamp in notes:
            if kind == _SO_TIMESTAMPNS:
                seconds, nanoseconds = struct.unpack("qq", stamp[:16])
                now -= wall - (seconds * 1_000_000_000 + nanoseconds)
        if not data:
            if connection.entry is not None:
                connection.entry["closed_ns"] = now
            self._drop(connection)
            return
        connection.incoming += data
        head, blank, rest = connection.incoming.partition(b"\r\n\r\n")
        if not blank:
            return
        found = re.search(rb"(?i)content-length:\s*(\d+)", head)
        length = int(found[1]) if found else 0
        if len(rest) >= length:
            connection.incoming = bytearray(rest[length:])
            self._serve(connection, head.split(b" ", 2)[1].decode(), bytes(rest[:length]), now)

    def _serve(self, connection: _Connection, path: str, raw: bytes, now: int) -> None:
        body = json.loads(raw) if raw[:1] == b"{" else {}
        if path in self.routes:
            status, kind, text = self.routes[path]
            self._answer(connection, status, text.encode(), kind)
        elif path == "/log":
            self._answer(connection, 200, json.dumps(self.entries).encode())
        elif path == "/tokenize" and "messages" in body:
            texts = count_messages(body["messages"])
            strs = texts if body.get("return_token_strs") else None
            self._answer(connection, 200, json.dumps({"count": len(texts), "token_strs": strs}).encode())
        elif path == "/v1/models":
            data = [{"id": name, "max_model_len": 1 << 20} for name in self.scripts]
            self._answer(connection, 200, json.dumps({"data": data}).encode())
        elif path == "/health":
            self._answer(connection, 200, b"")
        elif path == "/v1/chat/completions" and body.get("model") in self.scripts:
            self._start(connection, self.scripts[body["model"]], body, now)
        else:
            self._answer(connection, 404, b'{"detail":"Not Found"}')

    def _start(self, connection: _Connection, script: Script, body: dict[str, Any], now: int) -> None:
        prompt = len(count_messages(body["messages"]))
        kept = body if len(json.dumps(body)) < 20_000 else {**body, "messages": "…"}
        entry: dict[str, Any] = {"model": body["model"], "body": kept, "received_ns": now, "sent_ns": []}
        entry["number"] = 10_000 + len(self.entries)
        self.entries.append(entry)
        if not body.get("stream"):
            answer = {"choices": [{"index": 0, "message": {"content": "x"}}]}
            answer["usage"] = {"prompt_tokens": prompt, "completion_tokens": 1}
            self._answer(connection, 200, json.dumps(answer).encode())
            return
        fields = {*body, *body.get("stream_options", {})}
        refused = next((name for name in script.refuses if name in fields), None)
        if refused is not None:
            error = {"message": f"Unknown parameter: {refused}", "type": "invalid_request_error", "param": refused}
            self._answer(connection, 400, json.dumps({"error": error}).encode())
            return
        connection.entry = entry
        head = f"HTTP/1.1 {script.status} X\r\nContent-Type: {script.content_type}\r\n"
        head += {
            "chunked": "Transfer-Encoding: chunked\r\n",
            "close": "Connection: close\r\n",
            "length": f"Content-Length: {script.length}\r\n",
        }[script.framing]
        steps = [Step(script.headers_at_us, "raw", head.encode() + b"\r\n"), *script.steps]
        for step in steps:
            self.number += 1
            filled = step
            if b"@" in step.data:
                data = step.data.replace(b"@PROMPT@", b"%d" % prompt).replace(b"@NUMBER@", b"%d" % entry["number"])
                filled = Step(step.at_us, step.do, data)
            heapq.heappush(self.due, (now + filled.at_us * 1000, self.number, connection, script, filled, entry))

    def _play(self, connection: _Connection, script: Script, step: Step, entry: dict[str, Any]) -> None:
        if connection.sock.fileno() < 0:
            return
        if step.do == "reset":
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if step.do in ("reset", "close"):
            self._drop(connection)
            return
        if step.do == "end":
            self._send(connection, b"0\r\n\r\n" if script.framing == "chunked" else b"")
            if script.framing == "close":
                self._drop(connection)
            return
        data = step.data
        if step.do == "body" and script.framing == "chunked":
            data = b"%x\r\n%b\r\n" % (len(data), data)
        began = time.perf_counter_ns()
        self._send(connection, data)
        ended = time.perf_counter_ns()
        # Who was woken by it may take this core before the send returns: then the beginning is nearer the truth.
        entry["sent_ns"].append(ended if ended - began < _SEND_NS else began)

    def _answer(self, connection: _Connection, status: int, body: bytes, kind: str = "application/json") -> None:
        head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        self._send(connection, head.encode() + body)

    def _send(self, connection: _Connection, data: bytes) -> None:
        connection.outgoing += data
        self._flush(connection)

    def _flush(self, connection: _Connection) -> None:
        try:
            while connection.outgoing:
                del connection.outgoing[: connection.sock.send(connection.outgoing)]
        except BlockingIOError:
            both = selectors.EVENT_READ | selectors.EVENT_WRITE
            self.selector.modify(connection.sock, both, connection)
            return
        except OSError:
            self._drop(connection)
            return
        self.selector.modify(connection.sock, selectors.EVENT_READ, connection)

    def _drop(self, connection: _Connection) -> None:
        if connection.sock.fileno() >= 0:
            self.selector.unregister(connection.sock)
            connection.sock.close()


if __name__ == "__main__":
    server = _Server(*_load(sys.stdin.buffer.readline()))
    print(server.listener.getsockname()[1], flush=True)
    server.run()
