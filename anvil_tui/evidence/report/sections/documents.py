"""Conclusions: comparison documents with their metrics, invariants, claims and caveats, and the decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from anvil_tui.evidence.report import figures
from anvil_tui.evidence.report.contents import Contents, Filed
from anvil_tui.evidence.report.markup import (
    Cell,
    Column,
    Html,
    facts,
    few_sources,
    joined,
    paragraphs,
    said,
    source,
    table,
    tag,
    verdict,
)
from anvil_tui.evidence.report.sections.summary import flat, plain
from anvil_tui.records.acceptance import ConditionState
from anvil_tui.records.claim import Claim
from anvil_tui.records.comparison import Caveat, Effect

T = TypeVar("T")
PAIRED, CHANGE, ACCEPTANCE = "paired-capacity-comparison/v1", "controlled-change/v1", "anvil-acceptance/v1"
_TITLES = {PAIRED: "Paired comparison", CHANGE: "Controlled change", ACCEPTANCE: "Acceptance conditions"}
_BESIDE = {"startup_measurements": "Start-up", "matched_context_ladder": "Matched ladder, largest request"}
"""Parts of a controlled change that hold both arms."""
_ROWS = 300
"""Fields of a document that are listed at most; its file holds all."""
_OWN_TABLES = frozenset(
    {
        "schema",
        "schema_version",
        "metrics",
        "metrics_by_protocol",
        "invariants",
        "claims",
        "interpretation",
        "caveats",
        "decision",
        "unknown",
        "raw_artifact_hashes_sha256",
        "private_raw_artifact_hashes_sha256",
        "kv_explanation",
        "conditions",
        "rehearsal",
    }
)
"""Parts that stand in tables of their own, elsewhere on the page or only in the file."""


def documents(contents: Contents) -> Html:
    """Each document of the folder."""
    return joined(_document(one) for one in contents.documents)


def _document(one: Filed[dict[str, Any]]) -> Html:
    document = one.record
    schema = document.get("schema")
    title = _TITLES.get(str(schema), said(str(schema or one.path)))
    parts: list[Html] = [tag("h3", title), tag("p", "From ", source(one.path), ".", class_="quiet")]
    if schema == PAIRED:
        parts.append(_metrics(document))
    if schema == CHANGE:
        parts += [_side_by_side(title, document.get(field)) for field, title in _BESIDE.items()]
    parts += [_conditions(document), _claims(document), _caveats(document), _invariants(document)]
    hidden = (
        {"schema"} | (_OWN_TABLES if schema in _TITLES else set()) | ({"campaign"} if schema == ACCEPTANCE else set())
    )
    rows = [(name, said(plain(value))) for name, value in flat({k: v for k, v in document.items() if k not in hidden})]
    if rows:
        rest = f" The first {_ROWS} of {len(rows):,}." if len(rows) > _ROWS else ""
        parts.append(facts(rows[:_ROWS], joined(["Its other fields, from ", source(one.path), f".{rest}"])))
    parts.append(_unknown(document))
    if isinstance(decision := document.get("decision"), str):
        parts.append(tag("blockquote", said(decision, 4000)))
    return tag("section", *parts)


def arms_of(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """Candidate and baseline of a paired comparison, as `success` names them; None where it does not name two."""
    success = document.get("success")
    names = list(success) if isinstance(success, dict) else []
    return (names[0], names[1]) if len(names) == 2 else None


def effects_of(document: Mapping[str, Any]) -> dict[str, Effect]:
    """The effect of each metric of a paired comparison that can be read."""
    metrics = document.get("metrics")
    told = (
        {name: one.get("effect") for name, one in metrics.items() if isinstance(one, dict)}
        if isinstance(metrics, dict)
        else {}
    )
    return {name: effect for name, one in told.items() if (effect := _as(Effect, one)) is not None}


def _metrics(document: Mapping[str, Any]) -> Html:
    """Values, medians, change and verdict of each metric; one table a protocol."""
    arms = arms_of(document)
    if arms is None:
        return Html("")
    candidate, baseline = arms
    by_protocol = document.get("metrics_by_protocol")
    groups = by_protocol if isinstance(by_protocol, dict) and by_protocol else {"": document.get("metrics")}
    return joined(_metric_table(name, group, baseline, candidate) for name, group in groups.items())


def _metric_table(protocol: str, group: object, baseline: str, candidate: str) -> Html:
    columns = (
        Column("Metric, median of the runs' p50"),
        Column(baseline, figure=True),
        Column(candidate, figure=True),
        Column("Change", figure=True),
        Column("Interval", figure=True),
        Column("Blocks", figure=True),
        Column("Verdict"),
    )
    rows: list[Sequence[Cell]] = []
    for name, metric in group.items() if isinstance(group, dict) else ():
        if not isinstance(metric, dict):
            continue
        effect = _as(Effect, metric.get("effect"))
        rows.append(
            (
                name,
                *(figures.measured(_number(metric.get(f"{arm}_median"))) for arm in (baseline, candidate)),
                figures.percent(effect.estimate_percent if effect else None),
                figures.interval(effect.low_percent, effect.high_percent) if effect else None,
                figures.whole(effect.blocks if effect else None),
                verdict(effect.verdict if effect else None),
            )
        )
    if not rows:
        return Html("")
    words = f"Prompt tokens × concurrency: {protocol}. " if protocol else ""
    return table(columns, rows, f"{words}Change and interval are of {candidate} against {baseline}.")


def _side_by_side(title: str, part: object) -> Html:
    """The fields of `baseline_…` and `candidate_…` in two columns, with the document's own difference of them."""
    if not isinstance(part, dict):
        return Html("")
    arms = [next((name for name in part if name.startswith(role)), "") for role in ("baseline_", "candidate_")]
    baseline, candidate = (_scalars(part.get(name)) for name in arms)
    if not baseline and not candidate:
        return Html("")
    name, told = next(
        ((name, told) for name, told in part.items() if "candidate_minus_baseline" in name and isinstance(told, dict)),
        ("", {}),
    )
    unit = " %" if name.endswith("percent") else ""
    rows: list[Sequence[Cell]] = []
    for field in dict.fromkeys([*baseline, *candidate]):
        change = _number(told.get(field, told.get(field.removeprefix("largest_").removesuffix("_ms"))))
        cells = [_scalar(one.get(field)) for one in (baseline, candidate)]
        rows.append((field.replace("_", " "), *cells, "" if change is None else f"{change:+,g}{unit}"))
    arm_names = [name.partition("_")[2] for name in arms]
    return table((Column(title), *(Column(name, figure=True) for name in (*arm_names, "Change"))), rows)


def _scalars(arm: object) -> dict[str, Any]:
    """The plain fields of an arm, null ones too."""
    told = arm.items() if isinstance(arm, dict) else ()
    return {name: value for name, value in told if not isinstance(value, dict | list) and name != "source"}


def _scalar(value: object) -> Cell:
    """A field of a document in a table: figures with six digits, null as n/a."""
    if value is None or isinstance(value, str):
        return value
    return f"{value:,.6g}" if isinstance(value, float) else plain(value)


def _conditions(document: Mapping[str, Any]) -> Html:
    """Each acceptance condition, how it stands and what it rests on."""
    rows = [
        (said(state.text), verdict(state.state), said(state.words), few_sources(state.evidence, most=1))
        for one in _list(document.get("conditions", "rehearsal"))
        if (state := _as(ConditionState, one)) is not None
    ]
    columns = (Column("Condition"), Column("State"), Column("In words"), Column("Evidence"))
    return table(columns, rows) if rows else Html("")


def _invariants(document: Mapping[str, Any]) -> Html:
    """What had to be the same, and how that was established."""
    rows: list[Sequence[Cell]] = []
    for one in _list(document.get("invariants")):
        if isinstance(one, dict):
            values = [
                f"{k}: {plain(v)}" for k, v in one.items() if k not in ("text", "status", "evidence") and v is not None
            ]
            rows.append(
                (said(str(one.get("text"))), verdict(str(one.get("status"))), said("; ".join(values)), _evidence(one))
            )
    columns = (Column("Invariant"), Column("Established"), Column("Values"), Column("Evidence"))
    return table(columns, rows) if rows else Html("")


def _claims(document: Mapping[str, Any]) -> Html:
    """Claims, the proven ones first; a claim that is not proven says what is missing."""
    part = document.get("claims") or document.get("interpretation")
    rows: list[Sequence[Cell]] = []
    for key in ("proven", "not_proven"):
        for one in _list(part.get(key) if isinstance(part, dict) else None):
            claim = _as(Claim, one)
            if claim is not None:
                words = (
                    said(claim.text)
                    if not claim.missing
                    else joined([said(claim.text), " Missing: ", said(claim.missing)])
                )
                rows.append((words, verdict(claim.status), few_sources(claim.evidence, most=1)))
    columns = (Column("Claim"), Column("Status"), Column("Evidence"))
    return table(columns, rows) if rows else Html("")


def _caveats(document: Mapping[str, Any]) -> Html:
    rows = [
        (caveat.rule.replace("_", " "), said(caveat.text, 2000), few_sources(caveat.evidence, most=1))
        for one in _list(document.get("caveats"))
        if (caveat := _as(Caveat, one)) is not None
    ]
    columns = (Column("Caveat"), Column("What a reader must know"), Column("Evidence"))
    return table(columns, rows) if rows else Html("")


def _unknown(document: Mapping[str, Any]) -> Html:
    """Fields without evidence, and why."""
    told = document.get("unknown")
    rows = (
        [(tag("code", str(name)), said(str(reason))) for name, reason in told.items()] if isinstance(told, dict) else []
    )
    return table((Column("Unknown field"), Column("Why")), rows) if rows else Html("")


def decision(contents: Contents) -> Html:
    """The operator's own text."""
    if contents.decision is None:
        return tag("p", "No decision was put into this campaign.", class_="quiet")
    text = contents.decision
    return joined(
        [tag("blockquote", paragraphs(text.record)), tag("p", "From ", source(text.path), ".", class_="quiet")]
    )


def _evidence(one: Mapping[str, Any]) -> Html:
    return few_sources([str(path) for path in _list(one.get("evidence"))], most=1)


def _list(value: object) -> Iterator[Any]:
    """The items of a list, nothing of anything else: a document may come from another version."""
    yield from value if isinstance(value, list) else ()


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _as(record: type[T], value: object) -> T | None:
    """A part of a document as a record; None where it is none."""
    try:
        return msgspec.convert(value, record)
    except msgspec.ValidationError:
        return None
