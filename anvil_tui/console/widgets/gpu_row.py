"""The GPUs side by side, or why there is nothing to see of them."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content

from anvil_tui.console.snapshot import Desk, GpuSnapshot
from anvil_tui.console.views.figures import outside
from anvil_tui.console.widgets.gpu_panel import GpuPanel
from anvil_tui.console.widgets.line import Line

_LEAST_PANEL = 36
_BANDS, _GAUGES, _HEADS = 11, 5, 3
"""Height of a panel with its band, with its gauge, with its head line only."""


class GpuRow(Container, can_focus=True):
    """One panel a GPU; their number follows what the sampler finds."""

    zoomed = False
    """Whether the panels have the whole screen; their height is the style sheet's then."""

    def compose(self) -> ComposeResult:
        yield Line("no-gpus")

    def show_gpus(self, snapshot: GpuSnapshot, desk: Desk, now_us: int) -> None:
        """Show every GPU of the snapshot; panels come and go with them."""
        panels = list(self.query(GpuPanel))
        wanted = len(snapshot.gpus)
        self.set_class(wanted == 0, "-none")
        self.query_one(Line).say(Content.styled(none_words(snapshot, desk), "$foreground-muted"))
        if len(panels) != wanted:
            for panel in panels[wanted:]:
                panel.remove()
            added = [GpuPanel(place) for place in range(len(panels), wanted)]
            self.mount_all(added)
            panels = [*panels[:wanted], *added]
        across = max(1, min(wanted, self.size.width // _LEAST_PANEL))
        self.styles.grid_size_columns = across
        self.styles.height = self._height(-(-wanted // across)) if wanted and not self.zoomed else None
        for panel, gpu in zip(panels, snapshot.gpus, strict=True):
            panel.show_gpu(gpu, snapshot, now_us)

    def _height(self, rows: int) -> int:
        """Lines for so many rows of panels: bands where there is room, figures alone where there are many."""
        short = self.screen.has_class("-short")
        if rows == 1:
            return _GAUGES if short else _BANDS
        return rows * (_HEADS if short else _GAUGES)


def none_words(snapshot: GpuSnapshot, desk: Desk) -> str:
    """Why no GPU is shown."""
    if snapshot.failed is not None:
        return f"NO DATA  {outside(snapshot.failed)}. {outside(snapshot.hint)}"
    if desk.unread:
        return "the lanes are being read"
    lane = desk.lane.lane if desk.lane is not None else None
    if lane is None:
        return "no lane is shown yet; press u to pick one and start it"
    if lane.profile.gpus.source == "none":
        return f"{outside(lane.name, 64)} has no GPU source: its reserve is UNKNOWN"
    return "waiting for the first sample of the GPUs"
