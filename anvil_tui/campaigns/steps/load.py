"""Bringing a load up, or adopting one that is up, and keeping an eye on it while it is measured."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from anvil_tui import clock
from anvil_tui.campaigns.running.children import JsonLinesChild
from anvil_tui.campaigns.running.interrupts import Interrupt
from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.running.vram import VramWatch
from anvil_tui.engines.endpoint import EndpointClient
from anvil_tui.errors import CannotRun, CheckFailed
from anvil_tui.lanes import launch, locks, readiness, stop
from anvil_tui.lanes.folder import LaneFolder, exit_words, living_load
from anvil_tui.lanes.log_reader import LogRead
from anvil_tui.lanes.profile import Lane
from anvil_tui.lanes.readiness import Answer
from anvil_tui.records.artifact import LaneObserved
from anvil_tui.records.events import (
    AlarmRaised,
    LoadAdopted,
    LoadFailed,
    LoadReady,
    LoadStarted,
    PhaseReached,
    StartupReported,
)
from anvil_tui.records.lane import AttachLaunch
from anvil_tui.records.load import Ready
from anvil_tui.records.startup_report import StartupReport

_POLL_SECONDS = 0.25
_SETTLE_SECONDS = 5.0
"""How long the log may lag behind the endpoint's first answer: engines merge two streams out of order."""


@dataclass(frozen=True)
class Load:
    """A load that is ready to be measured."""

    lane: Lane
    folder: LaneFolder
    endpoint: EndpointClient
    answer: Answer
    log_from: int
    """Size of the lane's log when this campaign took the load: its own window begins there."""

    def observed(self) -> LaneObserved:
        return LaneObserved(
            lane=self.lane.name,
            load_id=self.folder.load_id,
            model=self.lane.profile.identity.model,
            served_name=self.lane.profile.endpoint.served_name,
            max_model_len=self.answer.max_model_len,
            engine=self.lane.profile.identity.engine,
            engine_version=self.answer.engine_version,
            rehearsal=self.lane.rehearsal,
        )


def endpoint_of(lane: Lane) -> EndpointClient:
    """A client of the lane's endpoint."""
    settings = lane.profile.endpoint
    return EndpointClient(settings.base_url, api_key_env=settings.api_key_env)


async def take_load(session: Session, lane: Lane, vram: VramWatch | None, environment: Mapping[str, str]) -> Load:
    """The lane's load: the one that is up, or where the plan says `up`, a new one.

    Raises CannotRun where the lane is down and may not be started, CheckFailed where it did not come up.
    """
    endpoint = endpoint_of(lane)
    if isinstance(lane.profile.launch, AttachLaunch):
        return await _attach(session, lane, endpoint, environment)
    living = living_load(session.locations.lanes, lane.name)
    if living is not None:
        return await _adopt(session, lane, living, endpoint)
    if not session.plan.up:
        raise CannotRun(f"{lane.name} is down; start it with `anvil-tui up {lane.name}`, or add --up")
    if vram is not None:
        vram.mark_baseline()
    return await _bring_up(session, lane, endpoint, vram.uuids if vram is not None else (), environment)


async def _attach(session: Session, lane: Lane, endpoint: EndpointClient, environment: Mapping[str, str]) -> Load:
    session.step = f"asking {lane.profile.endpoint.base_url}"
    answer = await readiness.ask(endpoint, lane.profile.endpoint.served_name)
    if not answer.ready:
        raise CannotRun(f"{lane.name}: {answer.words}")
    folder = launch.prepare(lane, (), session.locations, environment)
    session.event(LoadAdopted(lane=lane.name, load_id=folder.load_id, launch="attach"))
    _ready(session, lane, folder, answer, None)
    return Load(lane, folder, endpoint, answer, _size(folder))


async def _adopt(session: Session, lane: Lane, folder: LaneFolder, endpoint: EndpointClient) -> Load:
    launched = folder.launched()
    assert launched is not None, "a living load was launched"
    session.event(LoadAdopted(lane=lane.name, load_id=folder.load_id, launch=launched.kind))
    size = _size(folder)
    if folder.ready() is None:
        # Its runner died while it came up. When it became ready, nobody saw: its start-up time stays unknown.
        answer = await _watch_start(session, lane, folder, endpoint, startup_known=False)
    else:
        answer = await readiness.ask(endpoint, lane.profile.endpoint.served_name)
        if not answer.ready:
            raise CheckFailed(f"{lane.name}: its process runs, but {answer.words}")
        _ready(session, lane, folder, answer, None)
    report = folder.report()
    if report is not None:
        _copy_report(session, folder, report)
    return Load(lane, folder, endpoint, answer, size)


async def _bring_up(
    session: Session, lane: Lane, endpoint: EndpointClient, gpu_uuids: tuple[str, ...], environment: Mapping[str, str]
) -> Load:
    session.step = f"starting {lane.name}"
    launch.check(lane, environment)
    folder = launch.prepare(lane, locks.lane_locks(lane, gpu_uuids), session.locations, environment)
    pid = await asyncio.to_thread(launch.start, folder, environment)
    session.event(LoadStarted(lane=lane.name, load_id=folder.load_id, launch=lane.kind, pid=pid))
    try:
        answer = await _watch_start(session, lane, folder, endpoint, startup_known=True)
    except Interrupt as interrupt:
        await asyncio.to_thread(stop.stop, folder)
        words = f"{interrupt.words} while {lane.name} came up; the lane was stopped"
        session.event(LoadFailed(lane=lane.name, load_id=folder.load_id, words=words))
        raise
    return Load(lane, folder, endpoint, answer, 0)


async def _watch_start(
    session: Session, lane: Lane, folder: LaneFolder, endpoint: EndpointClient, *, startup_known: bool
) -> Answer:
    """Follow the log and ask the endpoint until it answers, the process ends or the time is out."""
    session.step = f"{lane.name} is coming up"
    async with _StartupLog.open(session, lane, folder) as log:
        waiting = asyncio.ensure_future(_until_ready(lane, folder, endpoint, stays=session.plan.kind != "paired"))
        try:
            await session.interrupts.until(waiting)
            answer, at_us = waiting.result()
        except Interrupt:
            waiting.cancel()
            raise
        except CheckFailed as failed:
            await log.settle(lambda report: report.failure is not None)
            _report_failure(session, folder, log.report, failed)
            raise
        launched = folder.launched()
        assert launched is not None, "a load that starts was launched"
        seconds = (at_us - launched.mono_us) / 1e6 if startup_known else None
        await log.settle(lambda report: report.state == "ready")
        if log.report is not None:
            folder.write(log.report)
            _copy_report(session, folder, log.report)
    _ready(session, lane, folder, answer, seconds)
    return answer


async def _until_ready(lane: Lane, folder: LaneFolder, endpoint: EndpointClient, *, stays: bool) -> tuple[Answer, int]:
    """The first good answer and its monotonic time in µs. Raises CheckFailed where there will be none.

    `stays`: a lane that came up too late is left to the operator.
    """
    settings = lane.profile.endpoint
    process, began = folder.process(), clock.mono_us()
    assert process is not None, "the holder wrote started.json before it said so"
    while True:
        answer = await readiness.ask(endpoint, settings.served_name)
        if answer.ready and process.alive():
            return answer, clock.mono_us()
        if not process.alive():
            await _exit_recorded(folder)
            raise CheckFailed(f"{lane.name} did not come up: {exit_words(folder)}")
        waited = (clock.mono_us() - began) / 1e6
        if waited > settings.startup_timeout_s:
            words = f"{lane.name} did not come up within {settings.startup_timeout_s:g} s: {answer.words}"
            raise CheckFailed(f"{words}; it still runs: `anvil-tui down {lane.name}` stops it" if stays else words)
        await asyncio.sleep(_POLL_SECONDS)


async def watch_load(session: Session, load: Load) -> None:
    """Strike an interrupt when the lane dies; returns then. An attached lane is watched by its own answers."""
    process = load.folder.process()
    if process is None:
        return
    while process.alive():
        await asyncio.sleep(_POLL_SECONDS)
    await _exit_recorded(load.folder)
    words = f"{load.lane.name} died: {exit_words(load.folder)}"
    exited = load.folder.exited()
    session.event(
        LoadFailed(
            lane=load.lane.name,
            load_id=load.folder.load_id,
            words=words,
            exit_code=exited.code if exited else None,
            signal=exited.signal if exited else None,
        )
    )
    session.raise_alarm(AlarmRaised(alarm="lane", words=words))
    session.interrupts.strike(Interrupt("lane_died", words))


async def lane_gone(load: Load) -> bool:
    """Whether the lane's process is gone, now or within a second: its sockets close before it is."""
    process = load.folder.process()
    for _ in range(20):
        if process is None or not process.alive():
            break
        await asyncio.sleep(0.05)
    return process is not None and not process.alive()


async def _exit_recorded(folder: LaneFolder) -> None:
    """Give the holder a moment to write the exit; a killed holder never will."""
    for _ in range(20):
        if folder.exited() is not None:
            return
        await asyncio.sleep(0.05)


class _StartupLog:
    """The log reader child of a lane that comes up: its report grows, its new phases are journalled."""

    def __init__(self, session: Session, lane: Lane) -> None:
        self._session = session
        self._lane = lane
        self.report: StartupReport | None = None

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, session: Session, lane: Lane, folder: LaneFolder) -> AsyncIterator[_StartupLog]:
        log = cls(session, lane)
        path = folder.log
        if path is None:
            yield log
            return
        child = await JsonLinesChild.start(
            "anvil_tui.lanes.log_reader", str(path), "--engine", lane.profile.identity.engine, stderr=2
        )
        reading = asyncio.ensure_future(log._read(child))
        try:
            yield log
        finally:
            await child.end()
            await reading

    async def _read(self, child: JsonLinesChild) -> None:
        told = 0
        async for line in child.lines():
            self.report = report = msgspec.json.decode(line, type=LogRead).report
            self._session.log_lines = report.lines
            for phase in report.phases[told:]:
                self._session.lane_phase = phase.name
                self._session.event(PhaseReached(lane=self._lane.name, phase=phase.name, line=phase.source.line))
            told = max(told, len(report.phases))

    async def settle(self, enough: Callable[[StartupReport], bool]) -> None:
        """Wait until the report has what is expected of it, or for as long as a log may lag."""
        deadline = clock.mono_us() + _SETTLE_SECONDS * 1e6
        while clock.mono_us() < deadline and not (self.report is not None and enough(self.report)):
            await asyncio.sleep(0.05)


def _report_failure(session: Session, folder: LaneFolder, report: StartupReport | None, failed: CheckFailed) -> None:
    exited = folder.exited()
    cause = report.failure.message if report is not None and report.failure is not None else None
    session.event(
        LoadFailed(
            lane=folder.lane,
            load_id=folder.load_id,
            words=str(failed),
            exit_code=exited.code if exited else None,
            signal=exited.signal if exited else None,
            cause=cause,
        )
    )
    if report is not None:
        folder.write(report)
        _copy_report(session, folder, report)


def _ready(session: Session, lane: Lane, folder: LaneFolder, answer: Answer, seconds: float | None) -> None:
    ready = folder.ready()
    if ready is None:
        ready = Ready(
            at=clock.utc_now(),
            mono_us=clock.mono_us(),
            startup_seconds=seconds,
            served_name=lane.profile.endpoint.served_name,
            max_model_len=answer.max_model_len,
            engine_version=answer.engine_version,
        )
        folder.write(ready)
    session.lane_phase = "ready"
    session.event(
        LoadReady(
            lane=lane.name,
            load_id=folder.load_id,
            startup_seconds=ready.startup_seconds,
            served_name=ready.served_name,
            max_model_len=answer.max_model_len,
            engine_version=answer.engine_version,
        )
    )


def _copy_report(session: Session, folder: LaneFolder, report: StartupReport) -> None:
    path = session.free_name(f"startup/{folder.lane}-{folder.load_id}.json")
    sha256, _ = session.write_artifact(path, report)
    session.event(StartupReported(lane=folder.lane, load_id=folder.load_id, path=path, sha256=sha256))


def _size(folder: LaneFolder) -> int:
    path: Path | None = folder.log
    try:
        return path.stat().st_size if path is not None else 0
    except FileNotFoundError:
        return 0
