"""What the operator does with the rows of a pane: go through them, open one."""

from __future__ import annotations

from textual import on

from anvil_tui.console.screens.log_keys import LogScreen
from anvil_tui.console.screens.text import TextScreen
from anvil_tui.console.views import rungs_view, startup_view
from anvil_tui.console.views.figures import outside
from anvil_tui.console.widgets.row_list import RowList


class RowScreen(LogScreen):
    """The keys of rows, beside those of the log."""

    @property
    def _list(self) -> RowList | None:
        """The list that has the focus."""
        return self.focused if isinstance(self.focused, RowList) else None

    def action_move(self, by: int) -> None:
        """Move the cursor of the focused list, else that of the log."""
        if self._list is not None:
            self._list.action_cursor_down() if by > 0 else self._list.action_cursor_up()
        else:
            self.log_pane.action_scroll_down() if by > 0 else self.log_pane.action_scroll_up()
        self.paint()

    def action_page(self, by: int) -> None:
        """The same by a page."""
        one = self._list or self.log_pane
        one.action_page_down() if by > 0 else one.action_page_up()
        self.paint()

    def action_open(self) -> None:
        """Open the row under the cursor."""
        if self._list is not None:
            self._list.action_select()
        else:
            self.open_log_line()

    @on(RowList.Chosen)
    def use_row(self, event: RowList.Chosen) -> None:
        if event.list_id == "startup":
            self._jump_to_line(event.row.id)
        else:
            self._show_run(event.row.id)

    def _jump_to_line(self, row_id: str) -> None:
        offset = startup_view.offset_of(row_id)
        if offset is not None:
            self._close_filter(clear=True)
            self.console_app.log_source.jump(offset)

    def _show_run(self, run_id: str) -> None:
        shown = self.desk.shown
        run = next((run for run in shown.row.view.runs if run.run == run_id), None) if shown else None
        if shown is not None and run is not None:
            detail = rungs_view.run_detail(run, shown.figures.get(run_id))
            self.app.push_screen(TextScreen(outside(run_id, 100), detail))
