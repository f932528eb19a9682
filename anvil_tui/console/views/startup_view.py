"""A start: its phases while it comes up, then what the engine reported of KV and memory, each with its log line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.content import Content

from anvil_tui.console.snapshot import Desk, LaneRow
from anvil_tui.console.views.figures import STYLES, Row, count, fit, outside, pad, span

if TYPE_CHECKING:
    from anvil_tui.records.startup_report import Figure, Source, StartupReport

_LABEL = 17
_RANKED = (
    ("KV available", "kv_available_gib"),
    ("KV pool", "kv_pool_gib"),
    ("Weights", "weights_gib"),
    ("Weights + other", "consumed_gib"),
    ("Peak activation", "peak_activation_gib"),
    ("Non-torch", "non_torch_gib"),
    ("CUDA graphs", "cuda_graph_gib"),
)


def startup_rows(lane: LaneRow | None, report: StartupReport | None, now_us: int, width: int) -> tuple[Row, ...]:
    """The rows of the panel; a row that came from the log is known by `offset:N`, the byte where its line begins."""
    rows = [Row("state", state_line(lane, report, now_us, width), choice=False)]
    if report is None:
        return tuple(rows)
    if report.failure is not None:
        words = f"{report.failure.kind}: {report.failure.message}"
        rows.append(
            _source_row("failure", Content.styled(fit(outside(words), width), STYLES["bad"]), report.failure.source)
        )
    loading = report.state == "loading"
    figures, phases = _figures(report, width), _phases(report, width)
    rows += [*phases[-1:], *figures, *phases[:-1]] if loading else [*figures, *phases]
    if report.unread_count:
        text = f"{report.unread_count} lines with figures were not understood"
        rows.append(Row("unread", Content.styled(fit(text, width), STYLES["warn"]), choice=False))
    return _unique(rows)


def state_line(lane: LaneRow | None, report: StartupReport | None, now_us: int, width: int) -> Content:
    """What the lane does, in a line."""
    if lane is None:
        return Content.styled(fit("no lane was started yet: u starts one", width), "$foreground-muted")
    engine = ""
    if report is not None and report.engine != "unknown":
        version = f" {outside(report.engine_version.value, 20)}" if report.engine_version else ""
        engine = f"  {outside(report.engine, 20)}{version}"
    return Content.assemble((fit(lane_words(lane, now_us) + engine, width), lane_style(lane)))


def lane_words(lane: LaneRow, now_us: int) -> str:
    """A lane's state with its age or its start-up time."""
    since = "" if lane.launched_us is None else f" {span((now_us - lane.launched_us) / 1e6)}"
    match lane.state:
        case "launching" | "starting":
            return f"STARTING{since}"
        case "up":
            took = lane.ready.startup_seconds if lane.ready is not None else None
            return "UP" if took is None else f"UP, came up in {span(took)}"
        case "exited" | "gone":
            return "DIED" if lane.state == "exited" else "GONE"
        case "attached":
            return "ATTACHED"
        case "refused":
            return "PROFILE REFUSED"
    return "DOWN"


def lane_style(lane: LaneRow) -> str:
    """How that is coloured."""
    match lane.state:
        case "up" | "attached":
            return STYLES["good"]
        case "exited" | "gone" | "refused":
            return STYLES["bad"]
        case "launching" | "starting":
            return "$text-primary"
    return "$foreground-muted"


def _figures(report: StartupReport, width: int) -> list[Row]:
    rows: list[Row] = []
    if report.kv_tokens is not None:
        rows.append(_figure("KV tokens", count(report.kv_tokens.value), report.kv_tokens, width))
    if report.max_concurrency is not None:
        at = f" at {count(report.max_model_len.value)}" if report.max_model_len is not None else ""
        rows.append(_figure("Concurrency", f"{report.max_concurrency.value:g}x{at}", report.max_concurrency, width))
    for label, name in _RANKED:
        by_rank: Mapping[str, Figure] = getattr(report, name)
        if by_rank:
            rows.append(
                _figure(label, f"{_ranks(by_rank)} GiB", min(by_rank.values(), key=lambda one: one.value), width)
            )
    return rows


def _ranks(by_rank: Mapping[str, Figure]) -> str:
    """One figure where the ranks agree, each where there are two, else the least and the most."""
    values = [f"{figure.value:.2f}" for _, figure in sorted(by_rank.items())]
    if len(set(values)) == 1:
        return values[0]
    if len(values) == 2:
        return " / ".join(values)
    ordered = sorted(values, key=float)
    return f"{ordered[0]} to {ordered[-1]}"


def _phases(report: StartupReport, width: int) -> list[Row]:
    rows = []
    for phase in report.phases:
        took = "" if phase.seconds is None else f"{phase.seconds:.1f} s"
        now = report.state == "loading" and phase is report.phases[-1]
        text = f"{pad(outside(phase.name, 30), _LABEL)}{took}"
        content = Content.styled(
            fit(("▸ " if now else "· ") + text, width), "$text-primary" if now else "$foreground-muted"
        )
        rows.append(_source_row("phase", content, phase.source))
    return rows


def _figure(label: str, value: str, figure: Figure, width: int) -> Row:
    room = max(0, width - _LABEL)
    content = Content.assemble((pad(label, min(_LABEL, width)), "$foreground-muted"), (fit(value, room), ""))
    return _source_row(label, content, figure.source)


def _source_row(what: str, content: Content, source: Source) -> Row:
    return Row(f"offset:{source.offset}:{what}", content)


def _unique(rows: list[Row]) -> tuple[Row, ...]:
    """Rows whose ids differ; two facts of one line are told apart by a number."""
    seen: dict[str, int] = {}
    unique = []
    for row in rows:
        seen[row.id] = seen.get(row.id, 0) + 1
        unique.append(row if seen[row.id] == 1 else Row(f"{row.id}:{seen[row.id]}", row.content, row.choice))
    return tuple(unique)


def offset_of(row_id: str) -> int | None:
    """The byte of the log that a row came from."""
    what, _, rest = row_id.partition(":")
    return int(rest.partition(":")[0]) if what == "offset" else None


def first_step(desk: Desk) -> Content:
    """What stands where no rungs are: what to do next."""
    if desk.unread:
        return Content.styled("Lanes and campaigns are being read.", "$foreground-muted")
    lane = desk.lane
    lines: list[Content] = []
    if lane is None:
        rehearsal = any(row.lane is not None and row.lane.rehearsal for row in desk.lanes)
        lines = [
            Content.styled("Nothing was started here yet.", "bold"),
            Content(""),
            Content.assemble(("u", "bold $text-primary"), "  pick a lane and start it"),
        ]
        if rehearsal:
            lines.append(
                Content.styled(
                    "   the REHEARSAL lanes need no GPU: simulated engine, simulated cards", "$foreground-muted"
                )
            )
        lines.append(Content.assemble(("?", "bold $text-primary"), "  every key"))
    elif lane.state in ("up", "attached"):
        lines = [
            Content.assemble(
                ("l", "bold $text-primary"), f"  climb a ladder of prompt lengths on {outside(lane.name, 64)}"
            )
        ]
        if desk.shown is not None and desk.shown.row.standing not in ("running", "sealed"):
            lines.append(Content.assemble(("b", "bold $text-primary"), "  seal and sign this campaign"))
    elif lane.state in ("launching", "starting"):
        lines = [Content("The lane is coming up; its phases stand in the start-up report (3).")]
    else:
        lines = [
            Content.assemble(("u", "bold $text-primary"), f"  start {outside(lane.name, 64)} again, or another lane")
        ]
        if lane.words:
            lines.append(Content.styled(outside(lane.words, 300), "$foreground-muted"))
    return Content("\n").join(lines)
