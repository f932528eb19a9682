"""The sampler child: `python -m anvil_tui.gpus.sampler --hz N` prints what NVML says as JSON lines (records/vram.py).

A process of its own, because NVML can hang and can crash its caller. It ends when its stdin closes or its parent dies.
"""

from __future__ import annotations

import argparse
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from anvil_tui import exit_codes
from anvil_tui.clock import mono_us, utc_now
from anvil_tui.files import write_all
from anvil_tui.gpus.nvml import CannotSample, Nvml
from anvil_tui.gpus.schedule import Schedule
from anvil_tui.records.vram import SamplerFailed, SamplerLine, VramSample

_SENSORS_US = 1_000_000
_PATIENCE_S = 0.5
"""How long a driver call may delay the end that was asked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the inventory, then samples until told to end. Exit code 2 after a `failed` line if NVML does not work."""
    parser = argparse.ArgumentParser(prog="python -m anvil_tui.gpus.sampler", description=__doc__)
    parser.add_argument("--hz", type=_hz, default=20.0, help="samples a second, up to 100 (default 20)")
    hz: float = parser.parse_args(arguments).hz
    print_line = _line_printer()
    ended = threading.Event()
    threading.Thread(target=_watch_parent, args=(os.getppid(), ended), daemon=True).start()
    try:
        _sample(round(1_000_000 / hz), print_line, ended)
    except CannotSample as error:
        print_line(SamplerFailed(mono_us=mono_us(), reason=error.reason, hint=error.hint))
        return exit_codes.BAD_INPUT
    except (BrokenPipeError, KeyboardInterrupt):
        pass
    return exit_codes.GOOD


def _sample(period_us: int, print_line: Callable[[SamplerLine], None], ended: threading.Event) -> None:
    """Sample every `period_us` until `ended`. Raises CannotSample where there is no session, or no GPU."""
    nvml = Nvml()
    inventory = nvml.inventory()
    if not inventory.gpus and not inventory.unreadable:
        raise CannotSample(f"NVML works ({inventory.library}), but it sees no GPU")
    print_line(inventory)
    due_us = sensors_us = mono_us()
    schedule = Schedule(due_us, period_us)
    while not ended.wait(max(0, due_us - mono_us()) / 1e6):
        began_us = mono_us()
        sensors = began_us >= sensors_us
        readings = nvml.read(sensors=sensors)
        call_us = mono_us() - began_us
        print_line(VramSample(mono_us=began_us, at=utc_now(), gpus=readings, call_us=call_us))
        schedule.spent(call_us)
        if sensors:
            sensors_us = began_us + _SENSORS_US
            if inventory.unreadable or nvml.count() not in (None, len(inventory.gpus)):
                found = nvml.inventory()
                if found != inventory:
                    inventory = found
                    print_line(inventory)
        due_us = schedule.next_us(mono_us())
    nvml.close()


def _line_printer() -> Callable[[SamplerLine], None]:
    """Printing to the stdout that we were given; whatever the driver's library prints there goes to stderr."""
    out = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    encoder = msgspec.json.Encoder()
    return lambda line: write_all(out, encoder.encode(line) + b"\n")


def _watch_parent(parent: int, ended: threading.Event) -> None:
    """Set `ended` when stdin closes or the parent dies; end the process outright where a driver call never returns."""
    stdin = select.poll()
    stdin.register(0, select.POLLIN | select.POLLHUP)
    while os.getppid() == parent:
        if stdin.poll(1000) and not os.read(0, 4096):
            break
    ended.set()
    time.sleep(_PATIENCE_S)
    os._exit(exit_codes.GOOD)


def _hz(text: str) -> float:
    value = float(text)
    if not 0.1 <= value <= 100:
        raise argparse.ArgumentTypeError(f"{text}: must lie between 0.1 and 100")
    return value


if __name__ == "__main__":
    sys.exit(main())
