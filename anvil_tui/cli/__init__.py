"""The verbs. Each lives in a module of its own kind and is imported only when it is called."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import signal
import sys
from importlib import import_module
from pathlib import Path

from anvil_tui import exit_codes
from anvil_tui.cli.output import Output
from anvil_tui.cli.parser import build_parser
from anvil_tui.errors import AnvilError, CannotRun
from anvil_tui.locations import Locations


def main(argv: list[str] | None = None) -> int:
    """Run one verb; returns its exit code. Errors of the operator's end as words on stderr."""
    signal.signal(signal.SIGTERM, _terminated)
    words = sys.argv[1:] if argv is None else argv
    output = Output(json="--json" in words)
    try:
        arguments = build_parser().parse_args(words)
        return _run(arguments, output)
    except AnvilError as error:
        output.error(str(error), error.exit_code)
        return error.exit_code
    except KeyboardInterrupt:
        output.error("interrupted", exit_codes.by_signal(signal.SIGINT))
        return exit_codes.by_signal(signal.SIGINT)
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be said to it.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_codes.by_signal(signal.SIGPIPE)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    state: Path | None = arguments.state
    locations = Locations.default(state=state, profiles=arguments.profiles)
    if arguments.verb is None:
        # Nothing that a start loads is garbage: looking for some takes a tenth of it. The console turns it on again.
        gc.disable()
        opened: int = import_module("anvil_tui.console.app").run_console(locations, read_only=arguments.read_only)
        return opened
    if arguments.read_only:
        raise CannotRun(f"--read-only is the console's; {arguments.verb} takes none")
    verb = getattr(import_module(f"anvil_tui.cli.{arguments.module}"), arguments.function)
    code: int = verb(arguments, locations, output)
    return code


def _terminated(number: int, _frame: object) -> None:
    raise SystemExit(exit_codes.by_signal(number))
