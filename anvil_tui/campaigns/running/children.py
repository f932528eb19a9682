"""Children of the runner that speak JSON lines: started in their own session, read in chunks, ended with the runner."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Mapping

_CHUNK = 1 << 16
_LINE_LIMIT = 64 << 20
"""A line longer than this is a fault of the child: it is dropped and the child ended."""


class JsonLinesChild:
    """One child. Lines written to it go to its stdin; closing that is how it is told to end."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.pid = process.pid

    @classmethod
    async def start(
        cls, module: str, *arguments: str, stderr: int, env: Mapping[str, str] | None = None
    ) -> JsonLinesChild:
        """Start `python -m module`; its stderr goes to the descriptor `stderr`."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", module, *arguments,
            stdin=PIPE, stdout=PIPE, stderr=stderr, env=env, start_new_session=True,
        )  # fmt: skip
        return cls(process)

    async def send(self, line: bytes) -> None:
        """Write one line. A child that is gone is noticed where its output ends, not here."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._process.stdin.write(line + b"\n")
            await self._process.stdin.drain()

    async def lines(self) -> AsyncIterator[bytes]:
        """Whole lines as they come, until the child's stdout ends."""
        assert self._process.stdout is not None
        pending = bytearray()
        while chunk := await self._process.stdout.read(_CHUNK):
            pending += chunk
            if len(pending) > _LINE_LIMIT:
                self.kill()
                return
            *whole, rest = pending.split(b"\n")
            pending = bytearray(rest)
            for line in whole:
                yield bytes(line)

    def kill(self) -> None:
        """End the child's whole session at once."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def end(self, seconds: float = 3.0) -> int:
        """Close the child's stdin, wait, and kill what is left. Returns its exit code, negative for a signal."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), seconds)
        except TimeoutError:
            self.kill()
        return await self._process.wait()

    async def ended(self) -> str:
        """Wait for the child to end; how it did, in words."""
        code = await self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"
