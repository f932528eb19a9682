"""What all steps of one runner share: the folder, the journal, the figures of the moment, the interrupts."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import shutil
from typing import TypeVar

import msgspec
from msgspec import Struct

from anvil_tui import clock
from anvil_tui.campaigns import control
from anvil_tui.campaigns.running.interrupts import Interrupt, Interrupts
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.follow import LIVE_HZ
from anvil_tui.campaigns.store.journal import Journal
from anvil_tui.files import write_atomic, write_new
from anvil_tui.locations import Locations
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.events import AlarmRaised, Answered, Asked, Event
from anvil_tui.records.live import Live, LiveRun
from anvil_tui.records.plan import CampaignPlan
from anvil_tui.records.vram import VramSample

INBOX_HZ = 10.0
DISK_RESERVE_BYTES = 2 << 30
"""Below this much free disk the runner stops itself while it can still write."""

T = TypeVar("T")


class Session:
    """One runner at work. Steps write through it; nothing else writes the folder."""

    def __init__(self, folder: CampaignFolder, plan: CampaignPlan, journal: Journal, locations: Locations) -> None:
        self.folder = folder
        self.plan = plan
        self.journal = journal
        self.locations = locations
        self.interrupts = Interrupts()
        self.step = "starting"
        self.run: LiveRun | None = None
        self.sample: VramSample | None = None
        self.alarm: str | None = None
        self.lane_phase: str | None = None
        self.log_lines: int | None = None
        self.acceptance: tuple[ConditionState, ...] = ()

    def event(self, event: Event) -> None:
        """Journal one event; it is on disk when this returns."""
        self.journal.append(event)

    def raise_alarm(self, alarm: AlarmRaised) -> None:
        self.alarm = alarm.words
        self.event(alarm)

    def nonce(self, place: str) -> str:
        """The nonce of the request at this place of the plan: the same in both arms, never twice within a load."""
        return hmac.new(bytes.fromhex(self.plan.nonce_seed), place.encode(), hashlib.sha256).hexdigest()[:32]

    def write_artifact(self, path: str, record: Struct) -> tuple[str, int]:
        """Write a file of the campaign that must not exist yet; returns its SHA-256 and size."""
        return self.write_bytes(path, msgspec.json.format(msgspec.json.encode(record)) + b"\n")

    def write_bytes(self, path: str, raw: bytes) -> tuple[str, int]:
        """As `write_artifact`, for bytes."""
        write_new(self.folder.path / path, raw)
        return hashlib.sha256(raw).hexdigest(), len(raw)

    def free_name(self, path: str) -> str:
        """`path`, or with `-2`, `-3` … before its suffix where that name is taken: nothing is overwritten."""
        stem, dot, suffix = path.rpartition(".")
        name, number = path, 1
        while (self.folder.path / name).exists():
            number += 1
            name = f"{stem}-{number}{dot}{suffix}"
        return name

    async def keep_live(self) -> None:
        """Rewrite `live.json` at 5 Hz until cancelled."""
        while True:
            live = Live(
                mono_us=clock.mono_us(),
                at=clock.utc_now(),
                boot_id=clock.boot_id(),
                pid=os.getpid(),
                step=self.step,
                run=self.run,
                sample=self.sample,
                alarm=self.alarm,
                lane_phase=self.lane_phase,
                log_lines=self.log_lines,
                acceptance=self.acceptance,
            )
            write_atomic(self.folder.live, msgspec.json.encode(live), durable=False)
            await asyncio.sleep(1 / LIVE_HZ)

    async def serve_inbox(self) -> None:
        """Take what the operator asks for, ten times a second, until cancelled."""
        while True:
            for taken in control.take(self.folder.inbox):
                asked = taken.request.ask if taken.request else "unknown"
                text = taken.request.text if taken.request else taken.raw
                self.event(Asked(request=taken.name, ask=asked, text=text))
                self.event(Answered(request=taken.name, words=self._answer(taken.request)))
                taken.path.unlink(missing_ok=True)
            await asyncio.sleep(1 / INBOX_HZ)

    def _answer(self, request: control.Request | None) -> str:
        match request and request.ask:
            case "stop_now":
                self.interrupts.strike(Interrupt("stop_now", "the operator asked to stop now"))
                return "stopping now"
            case "stop_after_request":
                self.interrupts.stop_after_request = True
                return "stopping after the open request" if self.run else "stopping before the next request"
            case "skip_rung":
                if self.run is None:
                    return "no rung is open"
                self.interrupts.strike(Interrupt("skip_rung", "the operator skipped this rung"))
                return f"skipping {self.run.run}"
            case "acknowledge_alarm":
                words = f"acknowledged: {self.alarm}" if self.alarm else "no alarm stands"
                self.alarm = None
                return words
            case "note":
                return "noted"
        return "not understood; nothing was done"

    async def watch_disk(self) -> None:
        """Stop the campaign cleanly before the disk is full."""
        while True:
            free = shutil.disk_usage(self.folder.path).free
            if free < DISK_RESERVE_BYTES:
                words = (
                    f"{free / 2**30:.1f} GiB of disk left, below the 2 GiB kept free: stopping while all can be kept"
                )
                self.raise_alarm(AlarmRaised(alarm="disk", words=words))
                self.interrupts.strike(Interrupt("disk_full", words))
                return
            await asyncio.sleep(1.0)
