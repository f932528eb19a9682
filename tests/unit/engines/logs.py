"""Reading a piece of a log in one go, for the tests of this folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anvil_tui.engines.startup_figures import flat
from anvil_tui.engines.startup_log import StartupLog
from anvil_tui.records.startup_report import StartupReport

DATA = Path(__file__).parents[2] / "data" / "logs"
CASES = sorted(path.stem for path in DATA.glob("*.json"))


def report(log: str | bytes, engine: str | None = None) -> StartupReport:
    """The report of the last attempt of a whole log."""
    reader = StartupLog(engine)
    reader.feed(log if isinstance(log, bytes) else log.encode())
    reader.finish()
    return reader.report()


def figures(log: str | bytes, engine: str | None = None) -> dict[str, Any]:
    """The flat figures of a whole log, without what it does not say."""
    return {name: value for name, value in flat(report(log, engine)).items() if value not in (None, {})}


def case(name: str) -> tuple[bytes, dict[str, Any]]:
    """A case's log and what must be read from it."""
    return (DATA / f"{name}.txt").read_bytes(), json.loads((DATA / f"{name}.json").read_bytes())
