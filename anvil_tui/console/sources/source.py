"""A thread that looks again and again, and says so when it cannot."""

from __future__ import annotations

import threading
from collections.abc import Callable

from textual.message import Message

from anvil_tui.console.messages import SourceFailed
from anvil_tui.text import sanitise

_PAUSE_SECONDS = 1.0

Post = Callable[[Message], object]


class Source(threading.Thread):
    """Calls `look` every `period_s` seconds, or at once when poked, until stopped. A fault is told and outlived."""

    def __init__(self, name: str, period_s: float, post: Post) -> None:
        super().__init__(name=name, daemon=True)
        self._period_s = period_s
        self._post = post
        self._poked = threading.Event()
        self._stopping = threading.Event()
        self._told: Message | None = None

    def look(self) -> None:
        """Read what there is now and `publish` it. Runs in this thread only."""
        raise AssertionError("each source looks at something")

    def leave(self) -> None:
        """Give back what the thread holds, at its end."""

    def publish(self, message: Message) -> None:
        """Post a message, unless it says what the last one said."""
        if message != self._told:
            self._told = message
            self._post(message)

    def poke(self) -> None:
        """Look now rather than when the period is over."""
        self._poked.set()

    def stop(self) -> None:
        """Ask the thread to end; `join` waits for it."""
        self._stopping.set()
        self._poked.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                pause = self._period_s
                try:
                    self.look()
                except Exception as error:  # noqa: BLE001  whatever it is, the operator must see that figures are old
                    self._post(SourceFailed(self.name, sanitise(f"{type(error).__name__}: {error}", 300)))
                    pause = max(pause, _PAUSE_SECONDS)
                self._poked.wait(pause)
                self._poked.clear()
        finally:
            self.leave()
