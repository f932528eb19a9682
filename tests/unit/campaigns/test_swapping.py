"""Memory must come back before the next lane starts."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from anvil_tui.campaigns.pairs import swapping
from anvil_tui.errors import CheckFailed
from anvil_tui.records.events import Event, MemoryReturned
from anvil_tui.records.vram import MIB


class Recorder:
    """A session that only remembers its events."""

    step = ""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def event(self, event: Event) -> None:
        self.events.append(event)


class Free:
    """GPUs whose free memory is told beforehand, look by look."""

    def __init__(self, *looks: dict[str, int]) -> None:
        self.looks = list(looks)

    def free_now(self) -> dict[str, int]:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]


def _wait(*looks: dict[str, int], patience: float, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    monkeypatch.setattr(swapping, "PATIENCE_SECONDS", patience)
    session = Recorder()
    asyncio.run(swapping.await_memory(cast(Any, session), cast(Any, Free(*looks)), {"a": 1000 * MIB, "b": 2000 * MIB}))
    return session


def test_it_waits_until_every_gpu_has_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    full = {"a": 800 * MIB, "b": 2100 * MIB}
    session = _wait({"a": 10 * MIB, "b": 2000 * MIB}, full, patience=5, monkeypatch=monkeypatch)
    (event,) = session.events
    assert isinstance(event, MemoryReturned) and event.returned


@pytest.mark.parametrize(
    ("free", "words"),
    [
        ({"a": 1000 * MIB, "b": 1000 * MIB}, "b: 1,000 MiB less free than before the first load"),
        ({"a": 1000 * MIB}, "b: no figure"),
    ],
)
def test_it_says_which_gpu_lacks_how_much(free: dict[str, int], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CheckFailed, match=words):
        _wait(free, patience=0, monkeypatch=monkeypatch)
