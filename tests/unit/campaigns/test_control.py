"""Asking a runner by files."""

from __future__ import annotations

from pathlib import Path

from anvil_tui.campaigns import control
from anvil_tui.campaigns.control import Request


def test_requests_are_taken_in_order(tmp_path: Path) -> None:
    names = [control.ask(tmp_path, Request(ask=ask)) for ask in ("skip_rung", "stop_now")]
    taken = control.take(tmp_path)
    assert [one.name for one in taken] == names
    assert [one.request.ask for one in taken if one.request] == ["skip_rung", "stop_now"]


def test_nonsense_is_taken_too_and_told(tmp_path: Path) -> None:
    (tmp_path / "1-1.json").write_bytes(b'{"ask": "explode"}')
    (tmp_path / ".2-1.json.tmp").write_bytes(b"half")
    (tmp_path / "notes.json").write_bytes(b"{}")
    (taken,) = control.take(tmp_path)
    assert taken.request is None and "explode" in taken.raw
