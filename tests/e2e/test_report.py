"""The report of real rehearsal campaigns, opened in a headless browser: its figures are found, its picture is taken."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from anvil_tui.evidence.report.report import write_report
from tests.e2e.conftest import Bench

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        CHROMIUM is None or importlib.util.find_spec("vl_convert") is None,
        reason="needs chromium and the extra `report`",
    ),
]
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip


def browse(home: Path, report: Path, *words: str) -> str:
    """Open a report in a browser of its own; what it prints."""
    done = subprocess.run(
        [str(CHROMIUM), *FLAGS, f"--user-data-dir={home}", *words, report.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout


def pixels(png: Path) -> tuple[int, int, set[bytes]]:
    """Width, height and the distinct colours of a screenshot (8-bit RGB or RGBA, filtered rows undone)."""
    raw = png.read_bytes()
    width, height, depth, kind = struct.unpack(">IIBB", raw[16:26])
    assert depth == 8 and kind in (2, 6)
    size = 3 if kind == 2 else 4
    data, at = b"", 8
    while at < len(raw):
        (length,) = struct.unpack(">I", raw[at : at + 4])
        if raw[at + 4 : at + 8] == b"IDAT":
            data += raw[at + 8 : at + 8 + length]
        at += 12 + length
    rows = zlib.decompress(data)
    stride = width * size
    previous, colours = bytearray(stride), set()
    for row in range(height):
        start = row * (stride + 1)
        rule, line = rows[start], bytearray(rows[start + 1 : start + 1 + stride])
        for place in range(stride):
            left = line[place - size] if place >= size else 0
            up = previous[place]
            corner = previous[place - size] if place >= size else 0
            line[place] = (line[place] + (0, left, up, (left + up) // 2, _paeth(left, up, corner))[rule]) & 255
        colours |= {bytes(line[place : place + 3]) for place in range(0, stride, size)}
        previous = line
    return width, height, colours


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda one: abs(guess - one))


def test_the_report_of_a_ladder_in_a_browser(bench: Bench, tmp_path: Path) -> None:
    lane = bench.rehearsal("practice", time_scale="20")
    bench.good("ladder", lane, "--targets", "2000,9000", "--up")
    folder = bench.last.path
    report = tmp_path / "report.html"
    report.write_bytes(write_report(folder))
    assert report.read_bytes() == write_report(folder)

    dom = browse(tmp_path / "chrome", report, "--dump-dom")
    assert "REHEARSAL" in dom and dom.count("<svg ") == 4 and "<script" not in dom
    for run, target in (("practice-r1", 2000), ("practice-r2", 9000)):
        request = json.loads((folder / "runs" / f"{run}.json").read_bytes())["requests"][0]
        assert request["prompt_tokens"] == target and f">{target:,}</td>" in dom
        drawn = re.findall(r'aria-label="[^"]*prompt tokens: ([^;"]+)[^"]*"', dom)
        assert f"{target // 1000}k" in drawn
        first = request["time_to_first_output_ms"]
        assert f">{first:,.{0 if first >= 1000 else 1 if first >= 10 else 2}f}</td>" in dom

    shot = tmp_path / "report.png"
    browse(
        tmp_path / "chrome", report, f"--screenshot={shot}", "--window-size=760,2600", "--force-device-scale-factor=0.5"
    )
    width, height, colours = pixels(shot)
    assert (width, height) == (380, 1300)
    assert bytes.fromhex("b3261e") in colours or bytes.fromhex("ff8a80") in colours, "REHEARSAL is not drawn"
    assert bytes.fromhex("1f6fb4") in colours or bytes.fromhex("5ba4e6") in colours, "no series is drawn"
