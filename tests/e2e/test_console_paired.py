"""A paired campaign by keys alone in a real terminal: started, watched, compared, decided, sealed, verified."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator

import pytest

from anvil_tui.records.events import Decided
from tests.e2e.conftest import Bench
from tests.e2e.test_console_tmux import Terminal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed"),
]


@pytest.fixture
def desk(bench: Bench) -> Iterator[Terminal]:
    """A console over the shipped rehearsals, their lanes on ports of their own."""
    for lane in ("rehearsal-batch8192", "rehearsal-batch4096", "rehearsal-393k"):
        bench.rehearsal(lane, shipped=lane)
    found = Terminal(bench)
    try:
        yield found
    finally:
        found.close()


def test_seed004_by_keys(bench: Bench, desk: Terminal) -> None:
    desk.open()
    desk.see("Nothing was started here yet")
    desk.type("p")
    desk.see(r"rehearsal-seed004 +ABA, 3 loads")
    desk.type("Down", "Down", "Down")
    desk.see("candidate: rehearsal-batch4096")
    desk.type("Enter")
    form = desk.see(r"Loads in order  A B A'")
    assert "controlled    recipe.max_num_batched_tokens  8192 → 4096" in form and "11 runs, 42 requests" in form
    assert not (bench.state / "campaigns").exists(), "nothing runs before Start"
    desk.type("Enter")
    desk.see(r"RUN paired 1/3")
    desk.see(r"A  block 1  rehearsal-batch8192  came up in", 60)
    folder = bench.last
    desk.type("C")
    desk.see(r"Acceptance  \d of 6 met", 30)
    desk.see(r"B +1 +[0-9.]+ s +553,243 +15\.99 [^\n]*\n│ +▸", 90)
    desk.see(r"met +candidate: healthy start", 30)
    desk.see(r"open +candidate: an actual prompt above 119,000 tokens", 5)
    desk.see(r"met +candidate: the functional gate passes  1 gate", 60)
    desk.resize(80, 24)
    desk.see(r"A' +1 [^\n]*(▸|\n│ +▸)", 90)
    desk.see(r"worst free [0-9,]+ MiB on GPU\d")
    desk.type("2")
    desk.see(r"119,500 tokens +A 8192 +B 4096")
    desk.type("1")
    desk.resize(120, 40)
    desk.see(r"Acceptance  6 of 6 met", 90)
    done = desk.see(r"complete +\d\d:\d\d:\d\d", 30)
    desk.type("4")
    plots = desk.see(r"TTFT s")
    assert "Start-up phases" in plots and "load_weights" in plots
    desk.type("1")
    assert "documents/comparison.json" in desk.see(r"Result  documents") and "REHEARSAL" in done
    desk.type("3")
    desk.see(r"Not proven  6")
    desk.type("d")
    desk.see(r"Changed: max_num_batched_tokens 8192 → 4096")
    desk.type("Enter", "We keep 4096.")
    desk.type("C-s")
    desk.see(r"the decision stands in decision\.txt")
    desk.type("b")
    desk.see("You have no signing key yet")
    desk.type("open sesame", "Enter")
    desk.see(r"▸ Once more")
    desk.type("open sesame", "Enter")
    desk.see("sealed and signed as", 60)
    desk.see(r"sealed +\d\d:\d\d:\d\d")
    desk.type("v")
    desk.see("VALID: intact and signed by a trusted key")
    desk.type("Escape")
    desk.type("Escape")
    desk.see("paired sealed, signed")
    assert bench.json("verify", str(folder.path))["exit_code"] == 0
    assert any(isinstance(event, Decided) for event in bench.events(folder))
    assert "We keep 4096." in (folder.path / "decision.txt").read_text()
    assert "We keep 4096." in (folder.path / "report-2.html").read_text(), "sealing tells the decision"
    desk.type("q")
    desk.restored(0)


def test_the_next_test_from_one_key_to_a_sealed_bundle_by_a_crash(bench: Bench, desk: Terminal) -> None:
    bench.good("keys", "--create", "op@lab", "--no-passphrase")
    desk.open()
    desk.see("Nothing was started here yet")
    desk.type("p")
    desk.see(r"rehearsal-next-test +one arm, 1 load ")
    desk.type("Down")
    desk.see("candidate: rehearsal-393k")
    desk.type("Enter")
    form = desk.see("One arm alone")
    assert "Start and seal: no decision text, signed as op@lab" in form and "expected time: not known" in form
    desk.type("Tab", "Enter")
    desk.see(r"RUN paired 1/1")
    folder = bench.last
    desk.type("C")
    desk.see(r"open +candidate: healthy start", 30)
    desk.see(r"▸ 301,000 tokens", 60)
    os.kill(bench.pid("anvil_tui.campaigns.runner"), signal.SIGKILL)
    broken = desk.see(r"interrupted: r goes on with it")
    assert "met      candidate: healthy start" in broken, "what is known is told without a runner"
    desk.type("r")
    desk.see("its open block is redone whole")
    desk.type("y")
    desk.see(r"put aside, redone", 60)
    desk.see(r"Acceptance  6 of 6 met", 120)
    desk.see(r"REHEARSAL +sealed", 60)
    desk.type("Escape")
    desk.see("paired sealed, signed")
    desk.type("v")
    desk.see("VALID: intact and signed by a trusted key")
    desk.type("Escape")
    desk.gone("esc closes")
    desk.type("o")
    desk.see(r"report\.html")
    assert bench.json("verify", str(folder.path))["exit_code"] == 0
    assert bench.view(folder).sealed and bench.view(folder).ending == "complete"
    # The same again is expected to take what it took: every figure of it was measured.
    outlook = bench.json("plans", "rehearsal-next-test")["plan"]
    assert outlook["assumed"] == [] and 5 < outlook["expected_s"] < 120
    desk.type("Escape")
    desk.gone("esc closes")
    desk.type("q")
    desk.type("q")
    desk.restored(0)
