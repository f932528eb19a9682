"""A framed pane whose title changes often."""

from __future__ import annotations

from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget


class Titled(Widget):
    """A widget with a frame. Setting a title paints all of it, so that is done only where the title changed."""

    _title = Content("")
    _subtitle = Content("")

    def entitle(self, title: Content, subtitle: Content | None = None) -> None:
        """Show these words in the frame."""
        subtitle = Content("") if subtitle is None else subtitle
        if not title.is_same(self._title):
            self._title = title
            self.border_title = title
        if not subtitle.is_same(self._subtitle):
            self._subtitle = subtitle
            self.border_subtitle = subtitle


class Box(Titled, Vertical):
    """A framed column of widgets."""
