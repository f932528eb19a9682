"""The top of the page: what was done, how it ended, the figures that count, and what went wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from anvil_tui.evidence.report import figures
from anvil_tui.evidence.report.contents import Contents, Filed
from anvil_tui.evidence.report.markup import NA, Column, Html, facts, joined, said, shown, source, table, tag, verdict
from anvil_tui.evidence.run_metrics import request_timing
from anvil_tui.records.artifact import RunArtifact
from anvil_tui.records.lane import RehearsalLaunch
from anvil_tui.records.vram import MIB

_CAPACITY = (
    ("TTFT", "ttft_p50_ms", "ms"),
    ("prefill", "effective_prefill_tok_s_p50", "tok/s"),
    ("decode", "decode_tok_s_p50", "tok/s"),
    ("throughput", "throughput_tok_s", "tok/s"),
)
_WORST_FIRST = ("FAIL", "UNKNOWN", "INCOMPLETE", "PASS (spill not checked)", "PASS")


def banner(contents: Contents) -> Html:
    """REHEARSAL, in large letters; nothing for a real campaign."""
    if not contents.rehearsal:
        return Html("")
    scales = sorted(
        {
            f"{engine.time_scale:g} times (start-up {engine.startup_time_scale or engine.time_scale:g} times)"
            for one in contents.profiles
            if isinstance(one.record.launch, RehearsalLaunch)
            for engine in (one.record.launch.engine,)
        }
    )
    words = "A simulated engine and simulated GPUs made this. It is a demonstration and never evidence of anything."
    if scales:
        words += f" Its time runs {', '.join(scales)} as fast as a clock, and its rates read as much too high."
    return tag("div", tag("strong", "REHEARSAL"), tag("span", words), class_="rehearsal", role="note")


def heading(contents: Contents) -> Html:
    """Title, end and time."""
    story = contents.story
    began, ended, took = figures.moment(story.began_at), figures.moment(story.ended_at), figures.seconds(story.seconds)
    times = joined([began, " to ", ended, ", ", took]) if story.ending else joined(["Began ", began])
    ending = story.ending.ending if story.ending is not None else "not ended"
    words = story.ending.words if story.ending is not None else "The journal holds no end of the runner."
    return tag(
        "header",
        tag("p", f"{contents.kind} campaign", class_="kind"),
        tag("h1", " against ".join(reversed(contents.lanes)) or contents.name),
        tag("p", verdict(ending), " ", said(words), class_="ending"),
        tag(
            "p",
            tag("code", contents.name),
            Html("<br>"),
            times,
            ". anvil-tui ",
            story.tool_version,
            ".",
            class_="quiet",
        ),
    )


@dataclass(frozen=True)
class KeyFigure:
    """A figure that counts, of one lane, and the artifact that tells it."""

    label: str
    value: Html
    path: str


def key_figures(contents: Contents) -> Html:
    """What counts at a glance: tiles for one lane, side by side in a table for several."""
    lanes = contents.lanes
    told = {lane: list(_key_figures(contents, lane)) for lane in lanes}
    if len(lanes) < 2:
        tiles = [_tile(one) for one in told.get(lanes[0], ())] if lanes else []
        return tag("div", *tiles, class_="tiles") if tiles else Html("")
    labels = dict.fromkeys(one.label for of_lane in told.values() for one in of_lane)
    rows = [(tag("b", label), *(_side(told[lane], label) for lane in lanes)) for label in labels]
    return table((Column("Key figures"), *(Column(lane) for lane in lanes)), rows) if rows else Html("")


def _tile(one: KeyFigure) -> Html:
    return tag("div", tag("span", one.label), tag("b", one.value), source(one.path), class_="tile")


def _side(told: Sequence[KeyFigure], label: str) -> Html | None:
    """The figure of one lane, its artifact below it."""
    one = next((one for one in told if one.label == label), None)
    return None if one is None else tag("div", tag("b", one.value), tag("small", source(one.path)), class_="key")


def _key_figures(contents: Contents, lane: str) -> Iterator[KeyFigure]:
    runs = [one for one in contents.counted if one.record.lane.lane == lane]
    starts = [
        load.ready.startup_seconds
        for load in contents.story.loads
        if load.lane == lane and load.started_us is not None and load.ready is not None
    ]
    if starts:
        yield KeyFigure("start-up", _median(starts, figures.seconds, "loads"), "journal.jsonl")
    yield from _of_rungs([one for one in runs if one.record.what == "rung" and one.record.passed])
    yield from _of_capacity([one for one in runs if one.record.what == "capacity"])
    for number, one in enumerate((one for one in runs if one.record.what == "gate"), 1):
        passed = sum(check.passed is True for check in one.record.checks)
        label = "gate" if number == 1 else f"gate {number}"
        yield KeyFigure(label, shown(f"{passed} of {len(one.record.checks)} checks"), one.path)
    yield from _of_reserve(runs)


def _of_rungs(rungs: Sequence[Filed[RunArtifact]]) -> Iterator[KeyFigure]:
    """Of the longest prompt that was served; the first of equal ones."""
    sized = [
        (record.prompt_tokens, one.path, record)
        for one in rungs
        for record in one.record.requests
        if record.prompt_tokens is not None
    ]
    if not sized:
        return
    tokens, path, record = max(sized, key=lambda row: row[0])
    timing = request_timing(record)
    ttft = None if timing.ttft_ms is None else timing.ttft_ms / 1000
    at = f"at {tokens:,} tokens"
    yield KeyFigure("longest prompt served", figures.whole(tokens, "tokens"), path)
    yield KeyFigure(f"TTFT {at}", figures.measured(ttft, "s"), path)
    yield KeyFigure(f"prefill {at}", figures.measured(timing.effective_prefill_tok_s, "tok/s"), path)
    yield KeyFigure(f"decode {at}", figures.measured(timing.decode_tok_s, "tok/s"), path)


def _of_capacity(runs: Sequence[Filed[RunArtifact]]) -> Iterator[KeyFigure]:
    """Medians of each passed run's p50, by what the runs were: prompt tokens and concurrency."""
    protocols = sorted({(one.record.target_tokens or 0, _concurrency(one.record)) for one in runs})
    for tokens, concurrency in protocols:
        mine = [
            one for one in runs if (one.record.target_tokens or 0, _concurrency(one.record)) == (tokens, concurrency)
        ]
        scored = [one.record.metrics for one in mine if one.record.passed and one.record.metrics is not None]
        where = mine[0].path if len(mine) == 1 else f"{mine[0].path} and {len(mine) - 1} more"
        of = "" if len(protocols) == 1 else f" ({tokens:,} tokens × {concurrency})"
        completed = sum(one.record.metrics.completed for one in mine if one.record.metrics is not None)
        total = sum(len(one.record.requests) for one in mine)
        yield KeyFigure(f"requests completed{of}", shown(f"{completed:,} of {total:,}"), where)
        for name, field, unit in _CAPACITY:
            value = _median([getattr(one, field) for one in scored], partial(figures.measured, unit=unit), "runs")
            yield KeyFigure(f"{name}{of}", value, where)


def _median(values: Sequence[float | None], write: Callable[[float | None], Html], of: str) -> Html:
    """The median of what is known, and of how many."""
    known = [value for value in values if value is not None]
    words = tag("small", f" median of {len(known)} {of}") if len(known) > 1 else ""
    return joined([write(median(known) if known else None), words])


def _concurrency(run: RunArtifact) -> int:
    return run.capacity.concurrency if run.capacity is not None else 1


def _of_reserve(runs: Sequence[Filed[RunArtifact]]) -> Iterator[KeyFigure]:
    """The worst verdict, and the least margin of any GPU in any run."""
    judged = [(one.record.reserve, one.path) for one in runs if one.record.reserve is not None]
    if not judged:
        return
    worst, path = min(judged, key=lambda row: _WORST_FIRST.index(row[0].verdict))
    waived = "" if worst.policy == "enforce" else f" ({worst.policy})"
    yield KeyFigure(f"VRAM reserve{waived}", verdict(worst.verdict), path)
    margins = [
        (gpu.margin_bytes, where) for reserve, where in judged for gpu in reserve.gpus if gpu.margin_bytes is not None
    ]
    if margins:
        least, where = min(margins)
        yield KeyFigure(f"least margin to {worst.reserve_mib:,} MiB", shown(f"{least // MIB:+,} MiB"), where)


def troubles(contents: Contents) -> Html:
    """Failures, interruptions, alarms and what could not be read; said also where there are none."""
    story = contents.story
    rows: list[tuple[Html | str, str, str]] = [
        (figures.moment(one.at), one.kind, said(one.words)) for one in story.troubles
    ]
    rows += [
        (NA, "unknown event", f"{kind}, {count} times: written by another version")
        for kind, count in story.unknown.items()
    ]
    rows += [(NA, "cannot be read", said(words)) for words in contents.faults]
    if not rows:
        return tag("p", "Nothing failed, was interrupted or raised an alarm, as the journal tells it.", class_="quiet")
    columns = (Column("When"), Column("What"), Column("In words"))
    return table(columns, rows, joined(["From ", source("journal.jsonl"), "."]))


def identity(contents: Contents) -> Html:
    """What was measured, as declared and as observed, one column a lane."""
    lanes = contents.lanes
    rows: list[tuple[str, list[Html | str | None]]] = [
        ("Declared in", [source(f"lanes/{lane}.toml") if contents.profile(lane) else None for lane in lanes])
    ]
    declared = [_declared(contents, lane) for lane in lanes]
    names = list(dict.fromkeys(name for one in declared for name in one))
    rows += [(name, [one.get(name) for one in declared]) for name in names]
    seen = [_observed(contents, lane) for lane in lanes]
    rows += [(name, [one.get(name) for one in seen]) for name in dict.fromkeys(name for one in seen for name in one)]
    columns = (Column("Lane"), *(Column(lane) for lane in lanes))
    return table(columns, [(tag("b", name), *values) for name, values in rows])


def _declared(contents: Contents, lane: str) -> dict[str, Html | str | None]:
    profile = contents.profile(lane)
    if profile is None:
        return {}
    recipe = profile.recipe
    told: dict[str, Any] = {field: getattr(profile.identity, field) for field in profile.identity.__struct_fields__}
    told |= {
        field: getattr(recipe, field) for field in recipe.__struct_fields__ if field not in ("speculation", "engine")
    }
    if recipe.speculation is not None:
        told["speculation"] = f"{recipe.speculation.method}, {recipe.speculation.tokens} tokens"
    told |= {f"engine.{name}": value for name, value in recipe.engine.items()}
    told["max_tokens"] = profile.endpoint.max_tokens
    told["reasoning_effort"] = profile.endpoint.reasoning_effort
    gpus = profile.gpus
    told["VRAM reserve"] = f"{gpus.reserve_mib:,} MiB a GPU, {gpus.policy}" + (
        f": {gpus.reason}" if gpus.reason else ""
    )
    return {name: _value(value) for name, value in told.items() if value is not None}


def _observed(contents: Contents, lane: str) -> dict[str, Html | str | None]:
    """What the lane itself said when it was measured."""
    ready = next((one.ready for one in reversed(contents.story.loads) if one.lane == lane and one.ready), None)
    run = next((one for one in contents.runs if one.record.lane.lane == lane), None)
    if run is not None:
        seen = run.record.lane
        return {
            "Observed in": source(run.path),
            "served name": seen.served_name,
            "max_model_len, served": _value(seen.max_model_len),
            "engine version": seen.engine_version,
            "load": seen.load_id,
        }
    if ready is None:
        return {}
    return {
        "Observed in": source("journal.jsonl"),
        "served name": ready.served_name,
        "max_model_len, served": _value(ready.max_model_len),
        "engine version": ready.engine_version,
        "load": ready.load_id,
    }


def plan(contents: Contents) -> Html:
    """The plan as it was hashed before the first load, field by field."""
    rows = [(name, _value(value)) for name, value in flat(contents.plan) if name not in ("schema", "nonce_seed")]
    hashed = contents.story.plan_sha256
    words = joined(
        ["From ", source("plan.json"), ", SHA-256 in the journal before the first load: ", tag("code", hashed)]
    )
    return facts(rows, words)


def flat(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """A JSON value as key paths and plain values; lists of plain values stay together, null is left out."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(item, f"{place}.{key}" if place else str(key))
    elif isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        for index, item in enumerate(value):
            yield from flat(item, f"{place}[{index}]")
    elif isinstance(value, list):
        yield place, ", ".join(plain(item) for item in value) or "none"
    elif value is not None:
        yield place, value


def plain(value: Any) -> str:
    """A plain JSON value as words."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _value(value: Any) -> str | None:
    return None if value is None else said(plain(value))
