"""What a user installs: the built wheel, in a clean environment outside the checkout, runs a rehearsal ladder."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.e2e.conftest import Bench, free_port
from tests.e2e.test_ladder import stock_verify

pytestmark = pytest.mark.slow


ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a wheel that was just built and installed; its dependencies are those of this environment."""
    folder = tmp_path_factory.mktemp("wheel")
    build = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
    subprocess.run([sys.executable, "-c", build, str(folder)], cwd=ROOT, check=True)
    (wheel,) = folder.glob("anvil_tui-*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    # Only the wheel itself is under test: what it depends on is borrowed, the checkout is not.
    borrowed = sysconfig.get_path("purelib")
    for entry in Path(borrowed).iterdir():
        if (
            not entry.name.startswith(("anvil_tui", "__editable__", "_anvil_tui"))
            and not (Path(site) / entry.name).exists()
        ):
            (Path(site) / entry.name).symlink_to(entry)
    return folder / "venv" / "bin" / "anvil-tui"


def test_a_rehearsal_ladder_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    bench = Bench(tmp_path, command=[str(installed)])
    try:
        where = subprocess.run(
            [str(installed.parent / "python"), "-P", "-c", "import anvil_tui; print(anvil_tui.__file__)"],
            capture_output=True, text=True, check=True, cwd=tmp_path,
        )  # fmt: skip
        assert str(installed.parent.parent) in where.stdout
        line = bench.good("keys", "--create", "op@lab", "--no-passphrase").rsplit("this line: ", 1)[1].strip()
        names = [lane["lane"] for lane in bench.json("lanes")["lanes"]]
        assert {"rehearsal-batch4096", "rehearsal-batch8192", "rehearsal-control", "rehearsal-dspark"} <= set(names)
        lane = bench.rehearsal("practice", base_url=f'"http://127.0.0.1:{free_port()}"')
        done = bench.json("ladder", lane, "--targets", "2000,6000,12000", "--up", "--seal")
        assert [run["state"] for run in done["runs"]] == ["passed"] * 3
        assert bench.json("verify", done["folder"])["rehearsal"] is True
        stock_verify(Path(done["folder"]), line)
    finally:
        bench.clean()
