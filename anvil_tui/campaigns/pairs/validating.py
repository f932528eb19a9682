"""Commands that a campaign file names: run at closeout, their output and exit code kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
from pathlib import Path

from anvil_tui.campaigns.running.session import Session
from anvil_tui.lanes import recipe
from anvil_tui.records.campaign_file import Validation
from anvil_tui.records.events import Validated
from anvil_tui.text import redact

_OUTPUT_LIMIT = 1 << 20


async def validate(session: Session, one: Validation, base: Path, site: dict[str, str]) -> None:
    """Run one command to its end or its time-out and keep what it printed, secrets redacted."""
    session.step = f"validating: {one.name}"
    known = {f"site.{name}": value for name, value in site.items()}
    argv = [recipe.render(word, known) for word in one.command]
    code: int | None = None
    try:
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=base / recipe.render(one.directory, known),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = await asyncio.wait_for(process.communicate(), one.timeout_s)
            code = process.returncode
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            output = f"no end within {one.timeout_s:g} s; it was killed".encode()
    except OSError as error:
        output = f"{argv[0]}: {error.strerror}".encode()
    clean, _ = redact(output[-_OUTPUT_LIMIT:])
    stem = re.sub(r"[^A-Za-z0-9._-]", "-", one.name).strip("-.") or "validation"
    path = session.free_name(f"documents/validation-{stem[:60]}.txt")
    sha256, _ = session.write_bytes(path, clean)
    session.event(Validated(name=one.name, exit_code=code, path=path, sha256=sha256))
