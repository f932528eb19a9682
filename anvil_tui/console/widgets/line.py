"""Text of our own that changes often and keeps its size."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static


class Line(Static):
    """Shows one Content as it is, and paints only when it changed."""

    def __init__(self, id: str) -> None:
        super().__init__(Content(""), id=id, markup=False)
        self._said = Content("")

    def say(self, content: Content) -> None:
        """Show this."""
        if not content.is_same(self._said):
            self._said = content
            self.update(content, layout=False)
