"""Where a copied text goes: what is sent, what is answered, and what is written where neither can be."""

from __future__ import annotations

from pathlib import Path

import pytest

from anvil_tui.campaigns import hold
from anvil_tui.console import clipboard
from anvil_tui.console.clipboard import CAP_BYTES, Seat, look, send
from tests.unit.console.still import locations

CLIP = '#!/bin/sh\ncat > "$(dirname "$0")/took"\nexit {code}\n'


@pytest.fixture
def windows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path with a `clip.exe` that keeps what it was fed, under what looks like WSL."""
    monkeypatch.setattr(hold, "applies", lambda: True)
    folder = tmp_path / "windows"
    folder.mkdir()
    program(folder / "clip.exe", CLIP.format(code=0))
    return folder


def program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_windows_takes_utf_16_and_answers(windows: Path, tmp_path: Path) -> None:
    seat = look({"PATH": f"{windows}:/bin:/usr/bin", "TERM": "xterm-256color"})
    sent = send("größer als 3 GiB: 日本", locations(tmp_path), seat)
    assert (windows / "took").read_bytes().decode("utf-16-le") == "größer als 3 GiB: 日本"
    assert sent.words == "sent to the Windows clipboard by clip.exe (20 characters)" and not sent.by_terminal


def test_a_clip_exe_that_fails_is_told_and_the_terminal_is_next(windows: Path, tmp_path: Path) -> None:
    program(windows / "clip.exe", CLIP.format(code=7))
    sent = send("x", locations(tmp_path), look({"PATH": f"{windows}:/bin:/usr/bin"}))
    assert sent.words == "clip.exe ended with 7; sent to the terminal's clipboard (1 characters)" and sent.by_terminal
    sent = send("x", locations(tmp_path), look({"PATH": f"{windows}:/bin:/usr/bin", "TERM": "linux"}))
    (path,) = (tmp_path / "state").glob("copy-*.txt")
    assert path.read_text() == "x" and path.stat().st_mode & 0o777 == 0o600
    assert sent.words == f"in {path}, not on a clipboard: clip.exe ended with 7; a terminal of kind linux has none"


@pytest.mark.parametrize(
    ("env", "way"),
    [
        ({}, "clip"),
        ({"WT_SESSION": "1"}, "terminal"),
        ({"WT_SESSION": "1", "TMUX": "/tmp/tmux,1,0", "SET": "external"}, "clip"),
        ({"WT_SESSION": "1", "STY": "1.pts"}, "clip"),
        ({"SSH_CONNECTION": "a b"}, "terminal"),
        ({"SSH_TTY": "/dev/pts/1", "TMUX": "/tmp/tmux,1,0", "SET": "external"}, "file"),
        ({"SSH_TTY": "/dev/pts/1", "TMUX": "/tmp/tmux,1,0", "SET": "on"}, "terminal"),
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "WSL",
)  # fmt: skip
def test_the_way_under_wsl(env: dict[str, str], way: str, windows: Path, tmp_path: Path) -> None:
    program(windows / "tmux", f"#!/bin/sh\necho {env.get('SET', '')}\n")
    sent = send("text", locations(tmp_path), look(env | {"PATH": f"{windows}:/bin:/usr/bin"}))
    found = "clip" if (windows / "took").exists() else "terminal" if sent.by_terminal else "file"
    assert found == way
    assert "copied" not in sent.words


def test_elsewhere_the_terminal_is_the_way_unless_something_swallows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hold, "applies", lambda: False)
    assert look({"TERM": "xterm", "PATH": ""}) == Seat()
    assert look({"TERM": "dumb"}).swallows == "a terminal of kind dumb has none"
    assert look({"STY": "1"}).swallows == "screen does not pass it on"
    program(tmp_path / "tmux", "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    unknown = look({"TMUX": "x", "PATH": f"{tmp_path}:/bin:/usr/bin"})
    assert unknown.swallows == "tmux does not pass it on (set-clipboard is not known)"


def test_the_cap_is_one_of_bytes(tmp_path: Path) -> None:
    assert send("ä" * (CAP_BYTES // 2), locations(tmp_path), Seat()).by_terminal
    sent = send("ä" * (CAP_BYTES // 2) + "x", locations(tmp_path), Seat(clip="/nowhere/clip.exe"))
    assert not sent.by_terminal and "65,537 bytes, and a clipboard is trusted with 65,536" in sent.words
    failed = clipboard.send("x", locations(tmp_path), Seat(clip="/nowhere/clip.exe"))
    assert failed.words.startswith("clip.exe did not start: No such file or directory; sent to")
