"""The house: each room stands on what is below it, and nothing below the console loads a screen."""

from __future__ import annotations

import subprocess
import sys

import pytest

ROOMS = ["records", "engines", "evidence", "lanes", "gpus", "probes", "bundles", "campaigns", "cli", "rehearsal"]
CHILDREN = [
    "anvil_tui.campaigns.runner",
    "anvil_tui.lanes.holder",
    "anvil_tui.lanes.log_reader",
    "anvil_tui.probes.child",
    "anvil_tui.gpus.sampler",
]


def _loaded_after(program: str) -> set[str]:
    code = f"{program}\nimport sys\nprint(' '.join(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_loads_no_screen(room: str) -> None:
    program = (
        "import importlib, pkgutil\n"
        f"room = importlib.import_module('anvil_tui.{room}')\n"
        "for one in pkgutil.walk_packages(room.__path__, room.__name__ + '.'):\n"
        "    if not one.name.endswith('__main__'):\n"
        "        importlib.import_module(one.name)"
    )
    loaded = _loaded_after(program)
    assert f"anvil_tui.{room}" in loaded
    assert not {name for name in loaded if name.split(".")[0] == "textual"}


@pytest.mark.parametrize("child", CHILDREN)
def test_a_child_loads_no_screen_and_no_other_child(child: str) -> None:
    loaded = _loaded_after(f"import {child}")
    assert not {name for name in loaded if name.split(".")[0] in ("textual", "starlette", "uvicorn")}


def test_the_holder_is_standard_library_only() -> None:
    loaded = _loaded_after("import anvil_tui.lanes.holder")
    assert not {name for name in loaded if name.split(".")[0] in ("msgspec", "httpx", "psutil", "platformdirs")}
