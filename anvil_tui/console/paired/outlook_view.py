"""Campaign files in a list, and what one of them will do, before anything begins."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from textual.content import Content

from anvil_tui.campaigns.pairs.outlook import DifferenceOutlook, LoadOutlook, Outlook, Part
from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign, arms_of
from anvil_tui.console.paired.words import MUTED, hanging, title
from anvil_tui.console.snapshot import Level
from anvil_tui.console.views.figures import STYLES, Row, count, fit, outside, pad, span
from anvil_tui.errors import BadInput

_NAME = 26
_STANDINGS: dict[str, tuple[str, Level]] = {
    "controlled": ("controlled", "good"),
    "named": ("named", "warn"),
    "undeclared": ("NOT DECLARED", "bad"),
}
_PARTS = {"gate": "gate", "capacity": "capacity", "ladder": "ladder", "post_gate": "gate after"}


def file_rows(files: Mapping[str, PlannedCampaign | BadInput], width: int) -> tuple[Row, ...]:
    """One row a campaign file, those that are valid here first."""
    rows = []
    for name, one in sorted(files.items(), key=lambda item: (isinstance(item[1], BadInput), item[0])):
        head = (pad(outside(name, 64), _NAME), "bold")
        if isinstance(one, BadInput):
            words = f"not valid here: {outside(str(one.faults[0]) if one.faults else str(one), 400)}"
            rows.append(Row(name, Content.assemble(head, (fit(words, width - _NAME), STYLES["bad"]))))
            continue
        order = f"{one.file.order or 'one arm'}, {len(one.loads)} {'load' if len(one.loads) == 1 else 'loads'}"
        label = "REHEARSAL " if one.rehearsal else ""
        words = fit(outside(one.file.name, 200).removeprefix("REHEARSAL: "), width - _NAME - 18 - len(label))
        rows.append(Row(name, Content.assemble(head, pad(order, 18), (label, "$text-warning"), words)))
    return tuple(rows)


def file_facts(one: PlannedCampaign | BadInput, width: int) -> Content:
    """The arms of a campaign file, or every fault that it has here."""
    lines = [Content("")]
    if isinstance(one, BadInput):
        lines.append(Content.styled(fit(outside(one.source, 400), width), MUTED))
        lines += [Content.styled(fit(outside(str(fault), 600), width), STYLES["bad"]) for fault in one.faults[:5]]
        if len(one.faults) > 5:
            lines.append(Content.styled(f"and {len(one.faults) - 5} more", STYLES["bad"]))
        return Content("\n").join(lines)
    about = textwrap.wrap(outside(one.file.about, 400), width)[:2]
    lines += [Content(line) for line in about]
    lines += [Content(fit(f"{role}: {outside(arm.lane, 64)}", width)) for role, arm in arms_of(one.file)]
    undeclared = [outside(each.field, 80) for each in one.undeclared]
    if undeclared:
        words = f"differences that nobody declared: {', '.join(undeclared)}"
        lines.append(Content.styled(fit(words, width), STYLES["warn"]))
    if one.shadows is not None:
        lines.append(Content.styled(fit("hides the shipped file of this name", width), MUTED))
    lines.append(Content.styled("enter shows what it will do; nothing starts yet", "bold $text-primary"))
    return Content("\n").join(lines)


def outlook_lines(outlook: Outlook, width: int) -> list[Content]:
    """What will run, if nothing fails: difference of the arms, loads in order, requests, time, conditions."""
    lines: list[Content] = []
    if outlook.rehearsal:
        lines.append(Content.styled("REHEARSAL: simulated lanes; never evidence", STYLES["warn"]))
    lines += [Content.styled(line, MUTED) for line in textwrap.wrap(outside(outlook.about, 600), width)]
    if len({load.arm for load in outlook.loads}) > 1:
        lines += [title("Arms differ in")]
        lines += [] if outlook.differences else [Content("nothing that decides behaviour")]
    else:
        lines += [title("One arm alone")]
    for one in outlook.differences:
        lines += difference_lines(one, width)
    if outlook.operational:
        words = ", ".join(outside(one.field, 60) for one in outlook.operational)
        lines.append(Content.styled(fit(f"operational only: {words}", width), MUTED))
    requests = "an unknown number of" if outlook.requests is None else count(outlook.requests)
    words = f"{_several(len(outlook.loads), 'load')}, {_several(outlook.runs, 'run')}, {requests} requests"
    lines += [title("In all"), Content(fit(words, width)), *_expected(outlook, width)]
    if outlook.acceptance:
        lines.append(title("Accepted if"))
        for text in outlook.acceptance:
            lines += hanging(f"· {text}", width, "", 2)
    ends = {"paired": "a paired comparison", "change": "a controlled change"}.get(outlook.document or "", "")
    lines.append(Content.styled(f"ends in {ends or 'its acceptance conditions'} and a report", MUTED))
    if outlook.closeout:
        lines.append(title("At closeout"))
        for text in outlook.closeout:
            lines += hanging(f"· {text}", width, "", 2)
    letters = " ".join(load.letter for load in outlook.loads)
    return [*lines, title(f"Loads in order  {letters}"), *_loads(outlook.loads, width)]


def difference_lines(one: DifferenceOutlook, width: int) -> list[Content]:
    """A functional difference, and who stands for it."""
    word, level = _STANDINGS[one.standing]
    field = outside(one.difference.field, 100)
    values = f"{_value(one.difference.baseline)} → {_value(one.difference.candidate)}"
    lines = [Content.assemble((pad(word, 14), STYLES[level]), (field, "bold"), f"  {values}")]
    if 14 + len(field) + 2 + len(values) > width:
        lines = [
            Content.assemble((pad(word, 14), STYLES[level]), (fit(field, width - 14), "bold")),
            Content(fit(" " * 14 + values, width)),
        ]
    if one.why:
        lines += hanging(f"{' ' * 14}because {one.why}", width, MUTED, 14)
    return lines


def why_label(one: DifferenceOutlook, width: int) -> Content:
    """What stands over the field in which an undeclared difference is named."""
    values = f"{_value(one.difference.baseline)} → {_value(one.difference.candidate)}"
    return Content.styled(fit(f"why may {outside(one.difference.field, 100)} differ ({values})?", width), STYLES["bad"])


def seal_line(sealer: str | None) -> Content:
    """What sealing at the end would mean, or why only `b` can do it."""
    words = (
        "b seals it afterwards: no key here signs without a passphrase"
        if sealer is None
        else f"Start and seal: no decision text, signed as {outside(sealer, 60)}"
    )
    return Content.styled(words, MUTED)


def _loads(loads: tuple[LoadOutlook, ...], width: int) -> Iterator[Content]:
    """Each arm's load once with all that runs on it, then each load's time in order."""
    told: set[str] = set()
    for load in loads:
        about = "" if load.expected_s is None else f", about {span(load.expected_s)}"
        words = f"{load.letter} block {load.block}: {outside(load.lane, 64)}{about}"
        yield Content.styled(fit(f"{load.number + 1:>3}  {words}", width), "bold")
        if load.arm in told:
            yield Content.styled(fit(f"     as load {_first(loads, load.arm).number + 1}", width), MUTED)
            continue
        told.add(load.arm)
        for part in load.parts:
            yield from _part(part, width)
        if not load.parts:
            yield Content.styled("     started and stopped, nothing is run on it", MUTED)


def _first(loads: tuple[LoadOutlook, ...], arm: str) -> LoadOutlook:
    return next(load for load in loads if load.arm == arm)


def _part(part: Part, width: int) -> Iterator[Content]:
    requests = "a search decides how many requests" if part.requests is None else _several(part.requests, "request")
    about = "" if part.expected_s is None else f", about {span(part.expected_s)}"
    words = f"{pad(_PARTS[part.what], 11)}{outside(part.words, 400)}; {requests}{about}"
    folded = textwrap.wrap(words, width, initial_indent=" " * 5, subsequent_indent=" " * 16)
    yield from map(Content, folded)


def _expected(outlook: Outlook, width: int) -> Iterator[Content]:
    if outlook.expected_s is None:
        yield from hanging("expected time: not known, these lanes were not measured here yet", width, "", 0)
        return
    about = f"about {span(outlook.expected_s)} by what these lanes did before, stops and closeout included"
    yield from hanging(about, width, "", 0)
    for words in outlook.assumed:
        yield from hanging(f"assumed: {words}", width, MUTED, 9)


def _several(number: int, noun: str) -> str:
    return f"{count(number)} {noun}" if number == 1 else f"{count(number)} {noun}s"


def _value(value: Any) -> str:
    return "not set" if value is None else outside(str(value), 60)
