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


BELOW = {"campaigns", "lanes", "gpus", "probes", "bundles", "evidence", "engines", "rehearsal"}
HEAVY = {"httpx", "h11", "cryptography", "bcrypt", "jsonschema", "vl_convert", "scipy", "psutil", "pynvml", "starlette"}


def test_the_console_paints_before_any_room_below_is_loaded() -> None:
    loaded = _loaded_after("import anvil_tui.console.app")
    assert "anvil_tui.console.screens.live" in loaded
    assert not {name.split(".")[1] for name in loaded if name.startswith("anvil_tui.")} & BELOW
    assert not {name.split(".")[0] for name in loaded} & HEAVY


def test_help_loads_no_room_and_no_screen() -> None:
    program = (
        "import contextlib, os, sys\n"
        "from anvil_tui import cli\n"
        "with contextlib.suppress(SystemExit), contextlib.redirect_stdout(open(os.devnull, 'w')):\n"
        "    cli.main(['ladder', '--help'])"
    )
    loaded = _loaded_after(program)
    assert "anvil_tui.cli.parser" in loaded
    assert not {name.split(".")[1] for name in loaded if name.startswith("anvil_tui.")} & BELOW
    assert not {name.split(".")[0] for name in loaded} & {*HEAVY, "textual", "rich"}


def test_the_holder_is_standard_library_only() -> None:
    loaded = _loaded_after("import anvil_tui.lanes.holder")
    assert not {name for name in loaded if name.split(".")[0] in ("msgspec", "httpx", "psutil", "platformdirs")}
