"""Starts: how long, what the log reported of memory and KV, and why the KV figure is what it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anvil_tui.evidence.kv.change import explain_change
from anvil_tui.evidence.kv.explanation import explain
from anvil_tui.evidence.kv.reports import report_of_start
from anvil_tui.evidence.report import figures
from anvil_tui.evidence.report.contents import Contents, Filed
from anvil_tui.evidence.report.markup import NA, Cell, Column, Html, joined, said, source, table, tag, verdict
from anvil_tui.evidence.report.story import BlockLoad
from anvil_tui.records.startup_report import Figure, StartupReport

_RANKED = (
    ("KV cache memory GiB", "kv_available_gib"),
    ("KV cache in use GiB", "kv_in_use_gib"),
    ("KV pool GiB", "kv_pool_gib"),
    ("Weights GiB", "weights_gib"),
    ("Consumed GiB", "consumed_gib"),
    ("Peak activation GiB", "peak_activation_gib"),
    ("Non-torch GiB", "non_torch_gib"),
    ("CUDA graphs GiB", "cuda_graph_gib"),
    ("Weights loading s", "weights_load_seconds"),
    ("Model loading s", "model_load_seconds"),
)
_SINGLE = (
    ("KV tokens, reported", "kv_tokens"),
    ("Full-length requests at once", "max_concurrency"),
    ("max_model_len", "max_model_len"),
    ("Engine init s", "engine_init_seconds"),
    ("Compile s", "compile_seconds"),
)


def loads(contents: Contents) -> Html:
    """The loads of a paired campaign in their order; those that were cut short are kept and not counted."""
    rows = [
        (
            str(one.begun.number + 1),
            f"{one.begun.block}{' (replay)' if one.begun.replay else ''}",
            one.begun.arm,
            one.begun.lane,
            one.load_id,
            verdict(_state(one)),
            said(one.ended.health) if one.ended is not None else None,
            said(one.ended.words) if one.ended is not None else None,
        )
        for one in contents.story.blocks
    ]
    titles = ("Load", "Block", "Arm", "Lane", "Load id", "State", "Health at the end", "In words")
    caption = joined(["A block is one load of each arm. From ", source("journal.jsonl"), "."])
    return table([Column(title) for title in titles], rows, caption) if rows else Html("")


def _state(load: BlockLoad) -> str:
    state = "not ended" if load.ended is None else "whole" if load.ended.whole else "cut short"
    return f"{state}, not counted" if load.put_aside else state


def starts(contents: Contents) -> Html:
    """Each start-up report, one column a start; ranks apart where they differ, each figure with its log line."""
    reports = contents.starts
    if not reports:
        return tag("p", "No start-up report: this campaign saw no start, or the lane has no log.", class_="quiet")
    rows: list[Sequence[Cell]] = [
        ("Source", *(source(one.path) for one in reports)),
        ("State", *(verdict(one.record.state) for one in reports)),
        ("Launch to first good answer", *(_startup_seconds(contents, one.path) for one in reports)),
        ("Engine", *(_engine(one.record) for one in reports)),
    ]
    for title, field in _SINGLE:
        rows.append((title, *(_figure(getattr(one.record, field)) for one in reports)))
    for title, field in _RANKED:
        told = [getattr(one.record, field) for one in reports]
        if any(told):
            rows.append((title, *map(_ranks, told)))
    failures = [one.record.failure for one in reports]
    if any(failures):
        rows.append(
            ("Failure", *(f"{said(one.kind)}: {said(one.message)}" if one is not None else "none" for one in failures))
        )
    rows.append(("Sums that must hold", *(_sums(one.record) for one in reports)))
    rows.append(
        ("Lines with figures that matched no shape", *(figures.whole(one.record.unread_count) for one in reports))
    )
    columns = (Column("Start"), *(Column(contents.lane_of_start(one.path)) for one in reports))
    words = "As the engine's log tells it; the small number is the line of the log."
    return table(columns, [(tag("b", row[0]), *row[1:]) for row in rows], words)


def _startup_seconds(contents: Contents, path: str) -> Html:
    told = next((one for one in contents.story.reports if one.path == path), None)
    load = contents.story.load(told.load_id) if told is not None else None
    return figures.seconds(load.ready.startup_seconds if load is not None and load.ready is not None else None)


def _engine(report: StartupReport) -> str:
    return f"{report.engine} {report.engine_version.value if report.engine_version else '(version not said)'}"


def _figure(figure: Figure | None) -> Html:
    return NA if figure is None else joined([figures.as_told(figure.value), _line(figure)])


def _line(figure: Figure) -> Html:
    return tag("sup", str(figure.source.line), title=f"line {figure.source.line} of the log")


def _ranks(told: Mapping[str, Figure]) -> Html:
    """One figure where all ranks agree, else each rank's own."""
    if not told:
        return NA
    if len({figure.value for figure in told.values()}) == 1 and len(told) > 1:
        return joined([_figure(next(iter(told.values()))), f" on each of {len(told)} ranks"])
    return joined((joined([f"{rank} ", _figure(figure)]) for rank, figure in sorted(told.items())), ", ")


def _sums(report: StartupReport) -> Html | str:
    broken = [check for check in report.checks if not check.holds]
    if not report.checks:
        return "none known for this log"
    if not broken:
        return f"{len(report.checks)} hold"
    return "; ".join(f"{check.rule} on {check.rank}: {check.left:g} ≠ {check.right:g}" for check in broken)


def phases(contents: Contents) -> Html:
    """Phases of each start, where the log says how long they took."""
    columns = (
        Column("Lane"),
        Column("Phase"),
        Column("Log line", figure=True),
        Column("Log time"),
        Column("Took s", figure=True),
    )
    rows = [
        (
            contents.lane_of_start(one.path),
            phase.name,
            figures.whole(phase.source.line),
            phase.at,
            figures.measured(phase.seconds),
        )
        for one in contents.starts
        for phase in one.record.phases
    ]
    if not rows:
        return Html("")
    paths = source(*(one.path for one in contents.starts))
    words = joined(
        ["Phases in the order in which the log first spoke of them; seconds where the log says so. From ", paths, "."]
    )
    return table(columns, rows, words)


def kv(contents: Contents) -> Html:
    """The reported KV tokens explained, or said not to be; and why two starts report different ones."""
    explained = [
        explain(report_of_start(one.path, one.record, contents.profile(contents.lane_of_start(one.path))))
        for one in contents.starts
        if _reports_kv(one)
    ]
    if not explained:
        return Html("")
    columns = (
        Column("Lane"),
        Column("KV tokens", figure=True),
        Column("Blocks", figure=True),
        Column("Blocks a full request", figure=True),
        Column("Explanation"),
        Column("Source"),
    )
    rows = [
        (
            contents.lane_of_start(one.report.path),
            figures.whole(one.report.tokens),
            figures.whole(one.blocks),
            figures.whole(one.blocks_per_request),
            joined([verdict(one.status), " ", said(one.words)]),
            source(one.report.path),
        )
        for one in explained
    ]
    changes = [
        tag("p", tag("b", f"{contents.lane_of_start(one.candidate)}: "), said(one.words))
        for one in (explain_change(explained[0], other) for other in explained[1:])
        if one.tokens_percent
    ]
    return joined([table(columns, rows), *changes])


def _reports_kv(one: Filed[StartupReport]) -> bool:
    report = one.record
    return report.kv_tokens is not None or report.max_concurrency is not None or bool(report.kv_available_gib)
