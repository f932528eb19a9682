"""`report.html`: one self-contained file from what a campaign folder holds; no script, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anvil_tui.evidence.report.charts.effects import effects_chart
from anvil_tui.evidence.report.charts.ladder import ladder_chart
from anvil_tui.evidence.report.charts.memory import memory_chart
from anvil_tui.evidence.report.charts.phases import phases_chart
from anvil_tui.evidence.report.charts.requests import requests_chart
from anvil_tui.evidence.report.contents import Contents, read_contents
from anvil_tui.evidence.report.drawing import Drawings, draw
from anvil_tui.evidence.report.markup import Html, few_sources, joined, tag
from anvil_tui.evidence.report.sections import documents, memory, runs, startup, summary
from anvil_tui.evidence.report.style import CSS
from anvil_tui.evidence.report.trace import Trace
from anvil_tui.records.artifact import RunArtifact

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may do with this page: apply its own style sheet, fetch and run nothing."""
_DEFINITIONS = (
    ("First output", "first reasoning or content delta"),
    ("TTFT", "time to first token: first visible content"),
    ("E2E", "first byte sent to the end of the stream; connecting is counted apart"),
    ("Prefill", "effective: prompt tokens / time to first output"),
    ("Decode", "(completion tokens − 1) / (E2E − first output); reasoning tokens are completion tokens"),
    ("Throughput", "output tokens of the completed requests / wall time of the whole run"),
    ("Reserve", "judged by NVML free of every GPU in every sample of the request window, never by total − used"),
    ("n/a", "unknown: no artifact tells it. It is never shown as 0"),
)


@dataclass(frozen=True)
class Plot:
    """A chart with its place on the page and its sources."""

    name: str
    title: str
    words: str
    sources: tuple[str, ...]
    spec: dict[str, Any]


def write_report(folder: Path, *, charts: bool = True) -> bytes:
    """The report of a campaign folder as HTML, the same bytes for the same folder; the folder is only read.

    Without `charts`, or without the extra `report`, it holds tables only and says so. Raises CannotRun for a folder
    that is no campaign.
    """
    contents = read_contents(folder)
    plots = plots_of(contents) if charts else ()
    wanted = {plot.name: plot.spec for plot in plots}
    drawings = draw(wanted) if charts else Drawings(missing="plots were not asked for")
    return page(contents, plots, drawings).encode("utf-8")


def plots_of(contents: Contents) -> tuple[Plot, ...]:
    """Every plot that the folder has figures for: `effects-N`, `ladder`, `requests`, `memory-N`, `start-N`."""
    return tuple(_plots(contents))


def _plots(contents: Contents) -> Iterator[Plot]:
    records = [one.record for one in contents.runs]
    rehearsal = contents.rehearsal
    paths = tuple(one.path for one in contents.runs)
    for number, document in enumerate(contents.documents, 1):
        arms = documents.arms_of(document.record)
        if document.record.get("schema") == documents.PAIRED and arms is not None:
            spec = effects_chart(documents.effects_of(document.record), *arms, rehearsal=rehearsal)
            if spec is not None:
                words = "Thick: a confidence interval over blocks; thin: the range of run against run, which is none."
                yield Plot(f"effects-{number}", "Change of each metric", words, (document.path,), spec)
    counted = contents.counted
    ladder = ladder_chart([one.record for one in counted], contents.lanes, rehearsal=rehearsal)
    if ladder is not None:
        rungs = tuple(one.path for one in counted if one.record.what == "rung")
        words = "A point a request, at the prompt tokens that the API counted; a cross is a target whose rung failed."
        yield Plot("ladder", "Context ladder", words, rungs, ladder)
    requests = requests_chart(records, rehearsal=rehearsal)
    if requests is not None:
        yield Plot("requests", "Where the time of each request went", "Warm-up requests are left out.", paths, requests)
    for number, trace in enumerate(contents.traces, 1):
        mine = [record for record in records if _measured_on(record, trace)]
        spec = memory_chart(trace, mine, _reserves_mib(contents, mine), rehearsal=rehearsal)
        if spec is not None:
            words = (
                f"{trace.samples:,} samples reduced to the minimum (line) and maximum (band) a column; requests in "
                "flight are shaded; where the line breaks nothing was sampled."
            )
            if trace.doubtful:
                words += f" {trace.doubtful:,} readings without a credible figure are not drawn."
            yield Plot(
                f"memory-{number}",
                "Free GPU memory" + (f", boot {number} of {len(contents.traces)}" if len(contents.traces) > 1 else ""),
                words,
                (trace.path,),
                spec,
            )
    for number, load in enumerate(contents.story.loads, 1):
        spec = phases_chart(load, rehearsal=rehearsal)
        if spec is not None:
            words = f"Load {load.load_id}; a phase begins when the log first speaks of it, as the runner saw it."
            yield Plot(f"start-{number}", f"Start-up of {load.lane}", words, ("journal.jsonl",), spec)


def _measured_on(run: RunArtifact, trace: Trace) -> bool:
    """Whether a run used a GPU of the trace, as its verdict says; without a verdict it may have."""
    return run.reserve is None or any(gpu.uuid in trace.gpus for gpu in run.reserve.gpus)


def _reserves_mib(contents: Contents, runs: Sequence[RunArtifact]) -> list[int]:
    """The reserves that these runs were judged by; where none was, those that the profiles ask for."""
    judged = [run.reserve.reserve_mib for run in runs if run.reserve is not None]
    return judged or [one.record.gpus.reserve_mib for one in contents.profiles if one.record.gpus.policy != "off"]


def page(contents: Contents, plots: tuple[Plot, ...], drawings: Drawings) -> Html:
    """The whole page; a part without content is left out, and the index names those that are there."""

    def drawn(prefix: str) -> Html:
        return joined(_figure(plot, drawings) for plot in plots if plot.name.startswith(prefix))

    parts = (
        ("troubles", "Failures and interruptions", summary.troubles(contents)),
        (
            "conclusions",
            "Conclusions",
            joined([drawn("effects"), documents.documents(contents), documents.decision(contents)]),
        ),
        ("runs", "Runs", joined([drawn("ladder"), runs.runs(contents), _titled("Gate", runs.gates(contents))])),
        ("checks", "Checks", runs.checks(contents)),
        ("requests", "Requests", joined([drawn("requests"), runs.requests(contents)])),
        (
            "memory",
            "GPU memory and reserve",
            joined([drawn("memory"), memory.reserves(contents), memory.gpus(contents)]),
        ),
        (
            "startup",
            "Start-up",
            joined([startup.loads(contents), drawn("start"), startup.starts(contents), startup.phases(contents)]),
        ),
        ("kv", "KV cache", startup.kv(contents)),
        ("lanes", "Lanes", summary.identity(contents)),
        ("plan", "Plan", summary.plan(contents)),
        ("definitions", "Definitions", _definitions()),
    )
    there = [(name, title, part) for name, title, part in parts if part]
    title = f"{'REHEARSAL: ' if contents.rehearsal else ''}{contents.kind} of {', '.join(contents.lanes)}"
    missing = tag("p", f"{drawings.missing}.", class_="quiet", role="note") if drawings.missing else Html("")
    body = tag(
        "body",
        summary.banner(contents),
        summary.heading(contents),
        summary.key_figures(contents),
        missing,
        tag("nav", *(tag("a", title, href=f"#{name}") for name, title, _ in there)),
        *(tag("section", tag("h2", title), part, id=name) for name, title, part in there),
        _redacted(contents),
    )
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("title", title),
            Html(f"<style>{CSS}</style>"),
        ]
    )
    return Html(f'<!doctype html>\n<html lang="en"><head>{head}</head>\n{body}</html>\n')


def _figure(plot: Plot, drawings: Drawings) -> Html:
    svg = drawings.svg.get(plot.name)
    if svg is None:
        return Html("")
    words = tag("figcaption", tag("b", plot.title), f"{plot.words} From ", few_sources(plot.sources), ".")
    return tag("figure", words, svg, id=f"plot-{plot.name}")


def _titled(title: str, part: Html) -> Html:
    return joined([tag("h3", title), part]) if part else part


def _definitions() -> Html:
    return tag("dl", *(joined([tag("dt", name), tag("dd", words)]) for name, words in _DEFINITIONS))


def _redacted(contents: Contents) -> Html:
    counts = contents.story.redactions
    if not counts:
        return Html("")
    words = ", ".join(f"{rule} {count}" for rule, count in sorted(counts.items()))
    return tag("p", f"Secrets that were redacted from the logs: {words}.", class_="quiet")
