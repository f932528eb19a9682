"""A load: one start of a lane, from launch to stop, as the files of its lane folder tell it."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from anvil_tui.records.lane import LaunchKind


class Launched(Struct, frozen=True, kw_only=True):
    """`launch.json`: what was asked for. Written before anything starts; holds no secret value."""

    schema: Literal["anvil-launch/v1"] = "anvil-launch/v1"
    lane: str
    load_id: str
    kind: LaunchKind
    engine: str
    at: str
    mono_us: int
    boot_id: str
    argv: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_from: tuple[str, ...] = ()
    cwd: str | None = None
    locks: tuple[str, ...] = ()
    """Lock files that the lane holds while it lives."""
    base_url: str
    served_name: str
    log: str | None = None
    """The lane's log: `lane.log` in this folder, or an attached lane's own file; null where there is none."""


class Refused(Struct, frozen=True, kw_only=True):
    """`refused.json`: nothing was started, and why."""

    words: str
    at: str


class Started(Struct, frozen=True, kw_only=True):
    """`started.json`: the lane's process, written by the holder."""

    pid: int
    start_ticks: int
    boot_id: str
    at: str
    mono_us: int
    holder_pid: int
    holder_start_ticks: int


class Exited(Struct, frozen=True, kw_only=True):
    """`exit.json`: how the lane's process ended. Absent where its holder was killed: the exit is then unknown."""

    code: int | None
    """The exit code; null where a signal ended it."""
    signal: int | None
    at: str
    mono_us: int


class StopAsked(Struct, frozen=True, kw_only=True):
    """`stop_asked.json`: an operator asked for the end. Without it every exit is a failure, whatever its code."""

    at: str
    by_pid: int


class Ready(Struct, frozen=True, kw_only=True):
    """`ready.json`: the endpoint's own first good answer, with the served name in it."""

    at: str
    mono_us: int
    startup_seconds: float | None
    """Launch to first good answer; null for a lane that was already up."""
    served_name: str
    max_model_len: int | None
    engine_version: str | None
