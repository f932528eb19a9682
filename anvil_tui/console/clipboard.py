"""Where a copied text goes: the terminal's clipboard, that of Windows, or a file. It says which, and claims no more.

A terminal takes a text by an escape sequence (OSC 52) and never answers. `clip.exe` answers by its exit code, so it
goes first under WSL, unless the terminal is known to take the sequence (Windows Terminal, with nothing between) or the
operator sits elsewhere (SSH). Where the sequence is known not to arrive, and above the cap, the text goes into a file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from anvil_tui.console.saved import save, told
from anvil_tui.locations import Locations

CAP_BYTES = 64 << 10
"""Terminals differ in how much of one OSC 52 they take; more than this none is trusted with."""
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True)
class Sent:
    """Where a text went, in words. `by_terminal`: it is still to be written to the terminal, by the event loop."""

    words: str
    by_terminal: bool = False


@dataclass(frozen=True)
class Seat:
    """What stands between the console and the clipboard of whoever sits before it."""

    clip: str | None = None
    """Path of `clip.exe`, where the Windows behind it is the operator's own."""
    windows_terminal: bool = False
    multiplexer: str = ""
    """`tmux`, `screen` or an empty text."""
    swallows: str = ""
    """Why OSC 52 does not reach the clipboard; empty where nothing is known to stop it."""


def look(env: Mapping[str, str]) -> Seat:
    """The seat by the environment; asks tmux for its setting, so it may take a moment."""
    # Only now: the first frame copies nothing.
    from anvil_tui.campaigns import hold

    multiplexer = "tmux" if env.get("TMUX") else "screen" if env.get("STY") else ""
    far = bool(env.get("SSH_CONNECTION") or env.get("SSH_TTY"))
    return Seat(
        clip=shutil.which("clip.exe", path=env.get("PATH")) if hold.applies() and not far else None,
        windows_terminal=bool(env.get("WT_SESSION")),
        multiplexer=multiplexer,
        swallows=_swallows(multiplexer, env),
    )


def send(text: str, locations: Locations, seat: Seat | None = None) -> Sent:
    """Send a text on its way. Waits for tmux and `clip.exe`: not for the event loop.

    Raises OSError where it must go into a file that cannot be written.
    """
    seat = look(os.environ) if seat is None else seat
    size, failed = len(text.encode("utf-8", "replace")), ""
    if size > CAP_BYTES:
        return _to_file(text, locations, f"{size:,} bytes, and a clipboard is trusted with {CAP_BYTES:,}")
    if seat.clip is not None and (seat.multiplexer or not seat.windows_terminal):
        failed = _by_clip(seat.clip, text)
        if not failed:
            return Sent(f"sent to the Windows clipboard by clip.exe ({len(text):,} characters)")
    if seat.swallows:
        return _to_file(text, locations, f"{failed}; {seat.swallows}" if failed else seat.swallows)
    through = " through tmux" if seat.multiplexer else ""
    words = f"sent to the terminal's clipboard{through} ({len(text):,} characters)"
    return Sent(f"{failed}; {words}" if failed else words, by_terminal=True)


def _to_file(text: str, locations: Locations, why: str) -> Sent:
    path = save(locations, "copy", "txt", text.encode("utf-8", "replace"))
    return Sent(f"in {told(path)}, not on a clipboard: {why}")


def _by_clip(clip: str, text: str) -> str:
    """Feed `clip.exe`, which reads UTF-16LE; why it did not take the text, or an empty text."""
    try:
        done = subprocess.run(
            [clip],
            input=text.encode("utf-16-le", "replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            timeout=_ANSWER_SECONDS,
            start_new_session=True,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"clip.exe did not answer for {_ANSWER_SECONDS:g} s"
    except OSError as error:
        return f"clip.exe did not start: {error.strerror or error}"
    return f"clip.exe ended with {done.returncode}" if done.returncode else ""


def _swallows(multiplexer: str, env: Mapping[str, str]) -> str:
    if multiplexer == "screen":
        return "screen does not pass it on"
    if multiplexer == "tmux":
        setting = _tmux_setting(env)
        return "" if setting == "on" else f"tmux does not pass it on (set-clipboard is {setting or 'not known'})"
    term = env.get("TERM", "")
    return f"a terminal of kind {term} has none" if term in ("linux", "dumb") else ""


def _tmux_setting(env: Mapping[str, str]) -> str:
    """tmux's `set-clipboard`: only `on` lets a program inside set the clipboard; empty where it does not say."""
    try:
        done = subprocess.run(
            ["tmux", "show-options", "-sv", "set-clipboard"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(env),
            text=True,
            timeout=_ANSWER_SECONDS,
            start_new_session=True,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()[:20]
