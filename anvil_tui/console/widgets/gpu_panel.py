"""One GPU's panel: figures above, the band of its free memory below as far as there is room."""

from __future__ import annotations

from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Region
from textual.strip import Strip
from textual.visual import Visual

from anvil_tui.console.snapshot import GpuNow, GpuSnapshot
from anvil_tui.console.views import gpu_view
from anvil_tui.console.widgets.box import Titled


class GpuPanel(Titled, can_focus=False):
    """Paints from one snapshot; the screen feeds it twice a second."""

    def __init__(self, place: int) -> None:
        super().__init__(id=f"gpu-{place}")
        self._lines: list[Content] = []
        self._shown: tuple[GpuNow, GpuSnapshot, int] | None = None

    def show_gpu(self, gpu: GpuNow, snapshot: GpuSnapshot, now_us: int) -> None:
        """Show this GPU as it is at `now_us`."""
        self._shown = gpu, snapshot, now_us
        width, height = self.content_size
        state = gpu_view.gpu_state(gpu, snapshot, now_us)
        lines = [gpu_view.head_line(state, snapshot, width)]
        rest = height - 2
        if rest >= 3:
            lines += gpu_view.band(gpu, snapshot, now_us, width, rest)
        elif rest >= 1:
            lines.append(gpu_view.gauge(snapshot, state, width))
        lines.append(gpu_view.foot_line(gpu, state, width))
        lines = lines[: max(1, height)]
        self.entitle(gpu_view.title(gpu, width - 2), gpu_view.subtitle(state, snapshot))
        self.set_class(state.word in ("ALARM", "NO DATA"), "-alarm")
        self.set_class(state.word in ("STALE", "WAIVED", "NEAR"), "-warn")
        old, self._lines = self._lines, lines
        if len(lines) != len(old):
            self.refresh()
        elif changed := [y for y, (new, was) in enumerate(zip(lines, old, strict=True)) if not new.is_same(was)]:
            self.refresh(*(Region(0, y, width, 1) for y in changed))

    def on_resize(self) -> None:
        if self._shown is not None:
            self.show_gpu(*self._shown)

    def render_line(self, y: int) -> Strip:
        if self.text_selection is not None or y >= len(self._lines):
            return super().render_line(y)
        # The line alone: it is asked for when it changed, and the whole panel would take ten times as long.
        return Visual.to_strips(self, self._lines[y], self.size.width, 1, self.visual_style)[0]

    def render(self) -> RenderResult:
        return Content("\n").join(self._lines)
