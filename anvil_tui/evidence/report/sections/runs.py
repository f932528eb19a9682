"""Runs: what each measured, its checks, its requests and its gate."""

from __future__ import annotations

from collections.abc import Sequence

from anvil_tui.evidence.report import figures
from anvil_tui.evidence.report.charts.requests import check_of
from anvil_tui.evidence.report.contents import Contents, Filed
from anvil_tui.evidence.report.markup import Cell, Column, Html, few_sources, joined, said, source, table, tag, verdict
from anvil_tui.evidence.run_metrics import COMPLETED, request_timing
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.request import RequestRecord

NOTHING = Html("–")
"""Where no figure can be: a gate has no target, a run that was not begun measured nothing."""
_ROWS = 200
"""Requests that are listed at most; the artifacts hold them all."""


def runs(contents: Contents) -> Html:
    """Every run that the journal or an artifact names: none is left out because it failed."""
    story = {one.run: one for one in contents.story.runs if one.run is not None}
    rows: list[Sequence[Cell]] = []
    for one in contents.runs:
        told = story.pop(one.record.run, None)
        state = told.state if told is not None else "not in the journal"
        if one.record.lane.load_id in contents.story.put_aside:
            state += ", not counted"
        rows.append(_run_row(one, state))
    for lost in story.values():
        rows.append(_bare_row(lost.run, lost.what, lost.target_tokens, lost.state))
    for skipped in contents.story.runs:
        if skipped.run is None:
            rows.append(_bare_row("not begun", skipped.what, skipped.target_tokens, skipped.state))
    if not rows:
        return tag("p", "No run was begun.", class_="quiet")
    columns = (
        Column("Run"),
        Column("What"),
        Column("Result"),
        Column("Reserve"),
        Column("Target", figure=True),
        Column("Prompt p50", figure=True),
        Column("Output", figure=True),
        Column("Cached", figure=True),
        Column("Completed", figure=True),
        Column("First output ms", figure=True),
        Column("TTFT ms", figure=True),
        Column("E2E ms", figure=True),
        Column("Prefill tok/s", figure=True),
        Column("Decode tok/s", figure=True),
        Column("Throughput tok/s", figure=True),
    )
    caption = joined(
        [
            "Medians (nearest rank) over the completed requests of a run, from ",
            source("runs/<run>.json"),
            ". Prompt and output tokens as the API counted them; output is the sum over the run. Failed runs are kept "
            "and never averaged in.",
        ]
    )
    return table(columns, rows, caption)


def _run_row(one: Filed[RunArtifact], state: str) -> Sequence[Cell]:
    run, metrics = one.record, one.record.metrics
    cached = [record.cached_tokens for record in run.requests]
    known = [count for count in cached if count is not None]
    head = (
        tag("span", run.run, class_="run", title=one.path),
        run.what,
        verdict(state),
        verdict(run.reserve.verdict if run.reserve is not None else None),
    )
    completed = f"{metrics.completed} of {metrics.requests}" if metrics else None
    if run.what == "gate":  # Its requests are unlike each other: a median of them says nothing.
        return (*head, *[NOTHING] * 4, completed, *[NOTHING] * 6)
    return (
        *head,
        figures.whole(run.target_tokens),
        figures.whole(metrics.prompt_tokens_p50 if metrics else None),
        figures.whole(metrics.output_tokens if metrics else None),
        figures.whole(sum(known) if known and len(known) == len(cached) else None),
        completed,
        figures.measured(metrics.time_to_first_output_p50_ms if metrics else None),
        figures.measured(metrics.ttft_p50_ms if metrics else None),
        figures.measured(metrics.e2e_p50_ms if metrics else None),
        figures.measured(metrics.effective_prefill_tok_s_p50 if metrics else None),
        figures.measured(metrics.decode_tok_s_p50 if metrics else None),
        figures.measured(metrics.throughput_tok_s if metrics else None),
    )


def _bare_row(run: str | None, what: str, target: int | None, state: str) -> Sequence[Cell]:
    """A run without an artifact has no figures. Its words stand among what went wrong."""
    return (run, what, verdict(state), NOTHING, NOTHING if target is None else figures.whole(target), *[NOTHING] * 10)


def checks(contents: Contents) -> Html:
    """The conditions of each run, one table; equal words of several runs in one row."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for one in contents.runs:
        for check in one.record.checks:
            passed = "passed" if check.passed else "failed" if check.passed is False else "not judged"
            rows.setdefault((check.name, passed, said(check.words)), []).append(one.path)
    if not rows:
        return tag("p", "No run has checks.", class_="quiet")
    names = list(dict.fromkeys(name for name, _, _ in rows))
    grouped = sorted(rows.items(), key=lambda row: names.index(row[0][0]))
    columns = (Column("Check"), Column("Result"), Column("In words"), Column("Source"))
    return table(
        columns, [(name, verdict(passed), words, few_sources(paths)) for (name, passed, words), paths in grouped]
    )


def requests(contents: Contents) -> Html:
    """Each request, with what it does not tell as n/a."""
    sent = [(one, record) for one in contents.runs for record in one.record.requests]
    if not sent:
        return Html("")
    columns = (
        Column("Request"),
        Column("Outcome"),
        Column("Prompt", figure=True),
        Column("Cached", figure=True),
        Column("Output", figure=True),
        Column("Reasoning", figure=True),
        Column("Connect ms", figure=True),
        Column("First output ms", figure=True),
        Column("TTFT ms", figure=True),
        Column("E2E ms", figure=True),
        Column("Longest gap ms", figure=True),
        Column("Prefill tok/s", figure=True),
        Column("Decode tok/s", figure=True),
        Column("Finish"),
        Column("Notes"),
    )
    warm = sum(len(one.record.warmup) for one in contents.runs)
    caption = joined(
        [
            "From ",
            source("runs/<run>.json"),
            f", in their order; {warm} warm-up requests are not listed and not scored."
            + (f" The first {_ROWS} of {len(sent):,}; the artifacts hold all." if len(sent) > _ROWS else ""),
        ]
    )
    return table(columns, [_request_row(one, record) for one, record in sent[:_ROWS]], caption)


def _name(run: RunArtifact, record: RequestRecord) -> str:
    check = check_of(run, record)
    return f"{run.run}{' ' if check else ''}{check} #{record.request_index + 1}"


def _request_row(one: Filed[RunArtifact], record: RequestRecord) -> Sequence[Cell]:
    timing = request_timing(record)
    good = record.outcome in COMPLETED
    return (
        tag("span", _name(one.record, record), class_="run", title=one.path),
        tag(
            "span",
            record.outcome.replace("_", " "),
            class_="verdict good" if record.outcome == "ok" else "verdict doubt" if good else "verdict bad",
        ),
        figures.whole(record.prompt_tokens),
        figures.whole(record.cached_tokens),
        figures.whole(record.output_tokens),
        figures.whole(record.reasoning_tokens),
        figures.measured(record.connect_ms),
        figures.measured(timing.time_to_first_output_ms),
        figures.measured(timing.ttft_ms),
        figures.measured(timing.e2e_ms),
        figures.measured(record.max_gap_ms),
        figures.measured(timing.effective_prefill_tok_s),
        figures.measured(timing.decode_tok_s),
        record.finish_reason,
        _notes(record),
    )


def _notes(record: RequestRecord) -> str:
    notes = [word.replace("_", " ") for word in record.warnings]
    if record.cached_tokens and record.time_to_first_output_ms is not None:
        notes.append(f"prefill over {record.cached_tokens:,} cached tokens")
    if record.timeout is not None:
        notes.append(f"timeout: {record.timeout.replace('_', ' ')}")
    if record.error is not None:
        notes.append(said(record.error.message, 300))
    if record.host_pauses:
        notes.append("host paused: " + "; ".join(map(said, record.host_pauses)))
    if record.needle is not None:
        found = {True: "found", False: "missed", None: "not answered"}[record.needle.found]
        notes.append(f"needle at {record.needle.depth:.0%}: {found}")
    return "; ".join(notes)


def gates(contents: Contents) -> Html:
    """Each functional gate, check by check."""
    parts: list[Html] = []
    for one in contents.runs:
        gate = one.record.gate
        if gate is None:
            continue
        rows = [
            (
                check.name,
                verdict("passed" if check.passed else "failed"),
                said(check.words),
                "; ".join(
                    f"#{seen.request_index + 1}: {said(seen.words, 200)}"
                    for seen in gate.observations
                    if seen.check == check.name and not seen.passed
                ),
            )
            for check in gate.checks
        ]
        errors = f" Policy broken: {'; '.join(map(said, gate.policy_errors))}." if gate.policy_errors else ""
        caption = joined(
            [
                f"{one.record.run}: effort {gate.reasoning_effort or 'n/a'}, up to {gate.budget.max_tokens:,} tokens "
                f"an answer, {gate.tool_batch} tool calls at once, reasoning {gate.policy.reasoning}.{errors} From ",
                source(one.path),
                ".",
            ]
        )
        columns = (Column("Check"), Column("Result"), Column("In words"), Column("Not as expected"))
        parts.append(table(columns, rows, caption))
    return joined(parts)
