"""Who has the mouse: the console, or the terminal for its own selection."""

from __future__ import annotations

from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver

_MODES = (1000, 1003, 1015, 1006)
"""As Textual's driver sets them: clicks, every movement, and two ways of writing where."""
_PIXELS = 1016


def report_mouse(driver: Driver | None, wanted: bool) -> None:
    """Let the terminal report the mouse to us, or leave it to the terminal."""
    if not isinstance(driver, LinuxDriver):
        return
    # Last, where the driver has turned it on: the newest of these modes decides how places are written.
    modes = (*_MODES, _PIXELS) if driver._mouse_pixels else _MODES
    driver.write("".join(f"\x1b[?{mode}{'h' if wanted else 'l'}" for mode in modes))
    driver.flush()
