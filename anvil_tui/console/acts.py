"""What the operator asks for, done in threads: begin, ask, stop, seal, sign, verify. The screen never waits.

What only acts need (the HTTP client, the bundles, the runner's control) is imported in their threads: it takes longer
than the screen itself.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from anvil_tui.console.messages import ActDone, Done
from anvil_tui.console.sources.source import Post
from anvil_tui.errors import AnvilError, CannotRun
from anvil_tui.locations import Locations

if TYPE_CHECKING:
    from anvil_tui.campaigns.store.folder import CampaignFolder
    from anvil_tui.lanes.profile import Lane
    from anvil_tui.records.bundle import SigningKey, Verification
    from anvil_tui.records.events import Ask
    from anvil_tui.records.plan import MeasurePlan

_WRITER_SECONDS = 60.0


class Acts:
    """One thread an act; each ends with one ActDone, which calls back on the event loop."""

    def __init__(self, locations: Locations, post: Post) -> None:
        self._locations = locations
        self._post = post
        self._open: set[str] = set()

    @property
    def open(self) -> frozenset[str]:
        """Acts that are not done yet."""
        return frozenset(self._open)

    def start(self, act: str, work: Callable[[Locations], Any], done: Done) -> None:
        """Do `work` in a thread and call `done` with its value or its refusal on the event loop."""
        self._open.add(act)
        threading.Thread(target=self._do, args=(act, work, done), name=act, daemon=True).start()

    def _do(self, act: str, work: Callable[[Locations], Any], done: Done) -> None:
        value, error = None, None
        try:
            value = work(self._locations)
        except AnvilError as refused:
            error = str(refused)
        except OSError as fault:
            error = f"{act}: {fault.strerror or fault}: {fault.filename or ''}"
        except Exception as fault:  # noqa: BLE001  an act of ours that fails must not look as if it were done
            error = f"{act}: a fault of ours: {type(fault).__name__}: {fault}"
        finally:
            self._open.discard(act)
        self._post(ActDone(act, done, value, error))


def hold_open(locations: Locations) -> None:
    """Hold the WSL distro open for as long as this process lives."""
    from anvil_tui.campaigns import hold

    # The console's lock is never given back: it ends with the process, and the hold after it.
    hold.console_lock()
    hold.start(locations)


def hold_words(locations: Locations) -> str:
    """What the quit dialog says of the distro."""
    from anvil_tui.campaigns import hold

    return hold.words(locations)


def begin_startup(lane: Lane) -> Callable[[Locations], str]:
    """Start a lane as a campaign of its own; the campaign's id."""

    def work(locations: Locations) -> str:
        from anvil_tui.campaigns import preflight
        from anvil_tui.campaigns.begin import begin

        preflight.check_up(lane, locations)
        return begin(locations, lane, up=True).folder.id

    return work


def begin_measuring(lane: Lane, plan: MeasurePlan, *, up: bool) -> Callable[[Locations], str]:
    """Check a plan for one lane and start it; the campaign's id."""

    def work(locations: Locations) -> str:
        from anvil_tui.campaigns import preflight
        from anvil_tui.campaigns.begin import begin

        preflight.check_measuring(lane, plan, locations, up=up)
        return begin(locations, lane, plan, up=up).folder.id

    return work


def resume(folder: CampaignFolder) -> Callable[[Locations], str]:
    """Start a new runner on a campaign that nobody writes; the campaign's id."""

    def work(locations: Locations) -> str:
        from anvil_tui.campaigns.begin import start_runner

        start_runner(folder, locations)
        return folder.id

    return work


def ask(folder: CampaignFolder, what: Ask) -> Callable[[Locations], str]:
    """Ask the runner; the name of the request."""

    def work(_: Locations) -> str:
        from anvil_tui.campaigns import control

        return control.ask(folder.inbox, control.Request(ask=what))

    return work


def signal_runner(folder: CampaignFolder, number: signal.Signals) -> Callable[[Locations], str]:
    """Send the runner a signal; what was done, in words."""

    def work(_: Locations) -> str:
        from anvil_tui.campaigns import control

        if not control.signal_runner(folder, number):
            raise CannotRun(f"{folder.id}: no runner lives")
        return f"{number.name} was sent to the runner"

    return work


def stop_lane(name: str) -> Callable[[Locations], str]:
    """Stop every load of a lane of which anything lives; what became of it, in words."""

    def work(locations: Locations) -> str:
        from anvil_tui.lanes.folder import loads
        from anvil_tui.lanes.stop import members, stop

        living = [load for load in loads(locations.lanes, name) if members(load)]
        left = [load.load_id for load in living if not stop(load)]
        if left:
            raise CannotRun(f"{name}: {', '.join(left)} did not end; see its processes")
        return f"{name} is stopped" if living else f"{name}: nothing of it runs"

    return work


@dataclass(frozen=True)
class Signing:
    """What must be known before a campaign is sealed: the key, if there is one, and whether a decision stands."""

    key: SigningKey | None
    principal: str
    decided: bool


def signing(folder: CampaignFolder) -> Callable[[Locations], Signing]:
    """Look at the keys and at the campaign's decision text."""

    def work(locations: Locations) -> Signing:
        from anvil_tui.bundles import trust
        from anvil_tui.campaigns import sealing

        decided = (folder.path / "decision.txt").exists()
        try:
            key = sealing.choose_key(locations)
        except CannotRun:
            key = None
        return Signing(key, key.principal or "" if key else trust.default_principal(), decided)

    return work


def await_writer(folder: CampaignFolder) -> None:
    """Wait for a writer of the journal, no longer than a minute: a runner that told its end still draws its report."""
    deadline = time.monotonic() + _WRITER_SECONDS
    while folder.running() and time.monotonic() < deadline:
        time.sleep(0.1)


def seal_and_sign(folder: CampaignFolder, principal: str, passphrase: bytes | None) -> Callable[[Locations], str]:
    """Seal where that is still to be done, and sign; a key is created where there is none. The sentence about it."""

    def work(locations: Locations) -> str:
        from anvil_tui.campaigns import sealing

        await_writer(folder)
        try:
            key = sealing.choose_key(locations)
        except CannotRun:
            key = sealing.create_key(locations, principal, passphrase)
        if not folder.sealed:
            sealing.seal_campaign(folder)
        report = sealing.sign_campaign(folder, key, passphrase)
        return f"sealed and signed as {key.principal}, root {report.root[:16]}…, {report.file} in {folder.path}"

    return work


def verify_bundle(folder: CampaignFolder) -> Callable[[Locations], Verification]:
    """Verify a bundle against the signers that this machine trusts."""

    def work(locations: Locations) -> Verification:
        from anvil_tui.bundles import trust
        from anvil_tui.bundles.verify import verify

        # A runner that seals and signs by itself is not through before it lets go of the journal.
        await_writer(folder)
        return verify(folder.path, trust.read(locations.allowed_signers))

    return work


def warm_up() -> None:
    """Import what acts need, in a thread, once the screen stands: the first act is as quick as the others."""
    names = ("anvil_tui.campaigns.preflight", "anvil_tui.campaigns.sealing", "anvil_tui.bundles.verify")
    threading.Thread(target=lambda: [import_module(name) for name in names], name="warm up", daemon=True).start()
