"""The runner: the detached process that steers one campaign and alone writes its folder.

`python -m anvil_tui.campaigns.runner FOLDER --journal-fd N --state DIR` is started by `begin`, which hands down the
journal with its lock held. It starts the children that measure, sample and read logs, answers the operator, and ends
the campaign with a sentence, whatever happens.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import os
import platform
import signal
import sys
from pathlib import Path

from anvil_tui import __version__, exit_codes
from anvil_tui.campaigns import closeout, sealing
from anvil_tui.campaigns.capacity import run_capacity
from anvil_tui.campaigns.folder import CampaignFolder
from anvil_tui.campaigns.gate import run_gate
from anvil_tui.campaigns.interrupts import Interrupt
from anvil_tui.campaigns.journal import Journal, read_journal
from anvil_tui.campaigns.ladder import Ladder
from anvil_tui.campaigns.load import Load, take_load, watch_load
from anvil_tui.campaigns.measuring import Measuring
from anvil_tui.campaigns.recovery import recover, runs_before
from anvil_tui.campaigns.session import Session
from anvil_tui.campaigns.vram import VramWatch
from anvil_tui.clock import ProcessIdentity
from anvil_tui.errors import AnvilError, CannotRun
from anvil_tui.files import Lock
from anvil_tui.lanes import locks
from anvil_tui.lanes.profile import Lane, find_lane
from anvil_tui.locations import Locations
from anvil_tui.records.events import (
    CampaignPlanned,
    Ending,
    Event,
    RunnerEnded,
    RunnerStarted,
)
from anvil_tui.records.plan import CampaignPlan


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
    session.folder.live.unlink(missing_ok=True)
    if session.plan.seal:
        # The verb that asked for it checked that a key is at hand; what fails here is told by what is missing.
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
    plan = session.plan
    lane = find_lane(str(session.folder.lane_profile(plan.lanes[0])), session.locations)
    measuring = Lock.take(locks.measuring_lock(lane), plan.campaign_id)
    if measuring is None:
        return "failed", f"another campaign measures {lane.name}", exit_codes.BAD_INPUT
    vram: VramWatch | None = None
    load: Load | None = None
    startup_bytes: int | None = None
    try:
        vram = await VramWatch.start(session, lane)
        load = await take_load(session, lane, vram, os.environ)
        startup_bytes = _log_size(load) if load.log_from == 0 else None
        return await _measure(session, plan, lane, load, vram, earlier)
    except Interrupt as interrupt:
        failed = interrupt.kind == "lane_died"
        return "failed" if failed else "stopped", str(interrupt), exit_codes.CHECK_FAILED
    except AnvilError as refused:
        return "failed", str(refused), refused.exit_code
    finally:
        session.step = "closing"
        if load is not None:
            await asyncio.to_thread(closeout.copy_logs, session, load, startup_bytes)
            await load.endpoint.__aexit__()
        if vram is not None:
            await vram.stop()
        measuring.release()


async def _measure(
    session: Session, plan: CampaignPlan, lane: Lane, load: Load, vram: VramWatch | None, earlier: list[Event]
) -> tuple[Ending, str, int]:
    """The part of the campaign that its kind decides."""
    if plan.kind == "startup":
        return "complete", startup_words(load), exit_codes.GOOD
    before = runs_before(earlier)
    measuring = Measuring(session, load, vram, number=len(before))
    watching = asyncio.create_task(watch_load(session, load))
    try:
        await measuring.prober.start()
        if plan.ladder is not None:
            done = sum(run.what == "rung" for run in before)
            passed = await Ladder(measuring, plan.ladder).climb(done) and all(run.passed for run in before)
        elif plan.capacity is not None:
            earlier_runs = [run.passed for run in before if run.what == "capacity"]
            passed = await run_capacity(measuring, plan.capacity, earlier_runs)
        elif plan.gate is not None:
            passed = await run_gate(measuring, plan.gate)
        else:
            raise CannotRun(f"{plan.kind}: this version runs no such campaign")
    finally:
        await measuring.prober.end()
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    words = f"{plan.kind} on {lane.name} is done: " + ("all passed" if passed else "not all passed")
    return "complete", words, exit_codes.GOOD if passed else exit_codes.CHECK_FAILED


def startup_words(load: Load) -> str:
    """The sentence about a lane that came up."""
    ready = load.folder.ready()
    seconds = ready.startup_seconds if ready is not None else None
    how = "is up" if seconds is None else f"came up in {seconds:.1f} s"
    length = load.answer.max_model_len
    return f"{load.lane.name} {how}" + (f" with max_model_len {length:,}" if length is not None else "")


def _let_go_of_runner_log() -> None:
    """From here on nothing may be printed: `runner.log` becomes part of what is sealed."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def _log_size(load: Load) -> int | None:
    path = load.folder.log
    return path.stat().st_size if path is not None and path.exists() else None


if __name__ == "__main__":
    sys.exit(main())
