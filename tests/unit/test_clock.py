"""Time and process identity."""

from __future__ import annotations

import os
import subprocess
import sys

from anvil_tui import clock
from anvil_tui.clock import ProcessIdentity


def test_own_identity_is_alive() -> None:
    assert ProcessIdentity.own().alive()
    assert ProcessIdentity.own().pid == os.getpid()


def test_a_process_that_ended_is_gone_also_as_a_zombie() -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"], stdout=subprocess.PIPE)
    identity = ProcessIdentity.of(child.pid)
    assert child.stdout is not None
    child.stdout.read()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert clock.start_ticks(child.pid) is None
    assert identity is None or not identity.alive()
    child.wait()
    assert ProcessIdentity.of(child.pid) is None


def test_the_same_pid_at_another_time_or_boot_is_another_process() -> None:
    own = ProcessIdentity.own()
    assert not ProcessIdentity(own.boot, own.pid, own.ticks - 1).alive()
    assert not ProcessIdentity("another boot", own.pid, own.ticks).alive()


def test_utc_has_milliseconds_and_z() -> None:
    now = clock.utc_now()
    assert len(now) == len("2026-12-01T03:23:55.123Z") and now.endswith("Z")
