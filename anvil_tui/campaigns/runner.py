"""The runner: the detached process that steers one campaign and alone writes its folder.

`python -m anvil_tui.campaigns.runner FOLDER --journal-fd N --state DIR` is started by `begin`, which hands down the
journal with its lock held. It starts the children that measure, sample and read logs, answers the operator, and ends
the campaign with a sentence, whatever happens.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import platform
import signal
import sys
from pathlib import Path

from anvil_tui import __version__, exit_codes
from anvil_tui.campaigns import reporting, sealing
from anvil_tui.campaigns.pairs.paired import run_paired
from anvil_tui.campaigns.running.interrupts import Interrupt
from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.steps.single import run_single
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal, read_journal
from anvil_tui.campaigns.store.recovery import recover
from anvil_tui.clock import ProcessIdentity
from anvil_tui.errors import AnvilError
from anvil_tui.locations import Locations
from anvil_tui.records.events import (
    CampaignPlanned,
    Ending,
    Event,
    RunnerEnded,
    RunnerStarted,
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m anvil_tui.campaigns.runner")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--journal-fd", type=int, required=True)
    parser.add_argument("--state", type=Path, required=True)
    arguments = parser.parse_args()
    os.set_inheritable(arguments.journal_fd, False)
    folder = CampaignFolder(arguments.folder)
    locations = Locations.default(state=arguments.state)
    with Journal(folder.journal, arguments.journal_fd) as journal:
        return asyncio.run(_run(Session(folder, folder.plan(), journal, locations)))


async def _run(session: Session) -> int:
    earlier = [event for _, event in read_journal(session.folder.journal) if event is not None]
    _begin(session, earlier)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        stop = Interrupt("stop_now", f"the runner was told to stop (signal {number})")
        loop.add_signal_handler(number, session.interrupts.strike, stop)
    keepers = [
        asyncio.create_task(keeper) for keeper in (session.serve_inbox(), session.keep_live(), session.watch_disk())
    ]
    try:
        ending, words, code = await _campaign(session, earlier)
    except OSError as error:
        # The disk is full or gone. The journal is whole up to the last event; resume takes it from there.
        print(f"cannot write {session.folder.path}: {error}", file=sys.stderr)  # noqa: T201  runner.log
        return exit_codes.CHECK_FAILED
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
    session.event(RunnerEnded(ending=ending, words=words, exit_code=code))
    if session.plan.kind == "paired":
        await asyncio.to_thread(reporting.write_held, session.folder, session.journal)
    session.folder.live.unlink(missing_ok=True)
    if session.plan.seal and ending != "stopped":
        # What was stopped can be resumed, until it is sealed. Whoever asked for the seal checked that a key is at hand;
        # what fails here is told by what is missing.
        key = sealing.choose_key(session.locations, unattended=True)
        _let_go_of_runner_log()
        sealing.seal_held(session.folder, session.journal)
        sealing.sign_campaign(session.folder, key, None)
    return code


def _begin(session: Session, earlier: list[Event]) -> None:
    """Say who writes now, and what an earlier writer left open."""
    resumed = any(isinstance(event, RunnerStarted) for event in earlier)
    own = ProcessIdentity.own()
    session.event(
        RunnerStarted(
            tool_version=__version__,
            python=platform.python_version(),
            pid=own.pid,
            start_ticks=own.ticks,
            boot_id=own.boot,
            resumed=resumed,
        )
    )
    if resumed:
        recover(session.folder, session.journal, earlier)
    if not any(isinstance(event, CampaignPlanned) for event in earlier):
        plan = session.plan
        sha256 = hashlib.sha256((session.folder.path / "plan.json").read_bytes()).hexdigest()
        session.event(
            CampaignPlanned(
                campaign_id=plan.campaign_id,
                campaign_kind=plan.kind,
                lanes=plan.lanes,
                plan_sha256=sha256,
                rehearsal=plan.rehearsal,
            )
        )


async def _campaign(session: Session, earlier: list[Event]) -> tuple[Ending, str, int]:
    """Do what the plan says. Returns how it ended, in a word, a sentence and an exit code."""
    run = run_paired if session.plan.kind == "paired" else run_single
    try:
        return await run(session, earlier)
    except Interrupt as interrupt:
        ending: Ending = "failed" if interrupt.kind == "lane_died" else "stopped"
        return ending, str(interrupt), exit_codes.CHECK_FAILED
    except AnvilError as refused:
        return "failed", str(refused), refused.exit_code


def _let_go_of_runner_log() -> None:
    """From here on nothing may be printed: `runner.log` becomes part of what is sealed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
