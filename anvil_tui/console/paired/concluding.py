"""Conclusions of a paired campaign from its folder: from its artifacts as they come, from its document at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import read_journal
from anvil_tui.campaigns.store.view import CampaignView
from anvil_tui.console.paired.comparison import ByLoad, Claim, Conclusions, Metric, Protocol, StartFigures
from anvil_tui.console.paired.plotted import plotted
from anvil_tui.console.paired.reserves import reserve_so_far
from anvil_tui.errors import AnvilError
from anvil_tui.evidence.arms.inputs import read_campaign_arms
from anvil_tui.evidence.arms.invariants import SAME_PROMPTS
from anvil_tui.evidence.arms.runs import common_clock, compared_runs, loads, protocols, scored
from anvil_tui.evidence.arms.starts import kv_figures, peak_activation
from anvil_tui.evidence.documents.change import change_document
from anvil_tui.evidence.documents.metrics import Group, metrics_part
from anvil_tui.evidence.documents.paired import paired_document
from anvil_tui.evidence.report.story import Story, tell
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.arm import Arm, LoadStart, MeasuredRun
from anvil_tui.records.campaign_file import CampaignFile
from anvil_tui.records.comparison import VerdictRule
from anvil_tui.records.startup_report import StartupReport

_ROLES: tuple[ArmRole, ArmRole] = ("baseline", "candidate")


def conclude(folder: CampaignFolder, view: CampaignView, file: CampaignFile, document: str | None) -> Conclusions:
    """Read the artifacts of a campaign, and its document where one is named by its path in the folder.

    Expensive: every artifact is read. What cannot be read or compared is said in `refused`.
    """
    starts = dict(_starts(folder, view))
    story = tell(read_journal(folder.journal))
    drawn = plotted({}, view.loads, story, file.primary_metric, "sent")
    try:
        written = None if document is None else _read(folder, document)
        measured = _measured_loads(view)
        names = [_name(file, role) for role in _ROLES if role == "candidate" or file.arms.baseline is not None]
        roles = _ROLES[-len(names) :]
        told = [role for role in roles if measured.get(role)]
        arms_told = [(_name(file, role), _lane(file, role), measured[role]) for role in told]
        read = read_campaign_arms(folder.path, arms_told, samples=False)
        found = dict(zip(told, read, strict=True))
        arms = [found.get(role, Arm(name=name)) for role, name in zip(roles, names, strict=True)]
        drawn = plotted(found, view.loads, story, file.primary_metric, common_clock(arms))
        measured_so_far = {"starts": starts, "plotted": drawn, **_reserves(found, view, story)}
        if len(arms) == 1:
            alone = _protocols(Arm(name="baseline"), arms[0], None, _rule(file))
            return Conclusions(origin=_count(view), protocols=alone, gates=tuple(_gates(arms)), **measured_so_far)
        baseline, candidate = arms
        shown = written
        if shown is None and len(told) == 2:
            shown = _document(file, baseline, candidate)
        return _from_document(
            shown or {},
            not_yet=SAME_PROMPTS if written is None and view.ending is None else "",
            origin=document or (_count(view) if told else ""),
            protocols=_protocols(baseline, candidate, shown, _rule(file)),
            gates=tuple(_gates(arms)),
            **measured_so_far,
        )
    except AnvilError as refused:
        return Conclusions(starts=starts, plotted=drawn, refused=str(refused))


def _reserves(arms: Mapping[ArmRole, Arm], view: CampaignView, story: Story) -> dict[str, Any]:
    """The reserve of each arm over its loads that count, and of each load."""
    gpus = {gpu.uuid: f"GPU{gpu.index}" for sampler in story.samplers for gpu in sampler.gpus}
    windows = [window for arm in arms.values() for window in arm.memory]
    by_load = {place: [run for run in view.runs if run.load == place] for place in range(len(view.loads))}
    by_arm = {
        role: [
            run
            for place, load in enumerate(view.loads)
            if load.arm == role and load.state != "put aside"
            for run in by_load[place]
        ]
        for role in arms
    }
    policies = {role: arm.profiles[-1].profile.gpus.policy for role, arm in arms.items() if arm.profiles}
    arm_reserves = {role: reserve_so_far(runs, windows, gpus, policies.get(role)) for role, runs in by_arm.items()}
    load_reserves = {
        place: reserve_so_far(runs, windows, gpus, policies.get(view.loads[place].arm))
        for place, runs in by_load.items()
    }
    return {
        "reserves": {role: one for role, one in arm_reserves.items() if one is not None},
        "load_reserves": {place: one for place, one in load_reserves.items() if one is not None},
    }


def _name(file: CampaignFile, role: ArmRole) -> str:
    arm = file.arms.candidate if role == "candidate" else file.arms.baseline
    return (arm.name if arm is not None else None) or role


def _lane(file: CampaignFile, role: ArmRole) -> str:
    if role == "baseline" and file.arms.baseline is not None:
        return file.arms.baseline.lane
    return file.arms.candidate.lane


def _rule(file: CampaignFile) -> VerdictRule:
    return VerdictRule(equivalence_percent=file.equivalence_margin_pct)


def _count(view: CampaignView) -> str:
    """How many runs are told so far."""
    settled = sum(run.path is not None for run in view.runs)
    return f"{settled} {'artifact' if settled == 1 else 'artifacts'} so far" if view.ending is None else "its artifacts"


def _measured_loads(view: CampaignView) -> dict[ArmRole, frozenset[str]]:
    """Loads that count and on which a run was kept, by arm: an arm of which nothing was kept has no artifacts."""
    kept = {run.load for run in view.runs if run.path is not None}
    found: dict[ArmRole, set[str]] = {}
    for place, load in enumerate(view.loads):
        if place in kept and load.load_id is not None and load.state != "put aside":
            found.setdefault(load.arm, set()).add(load.load_id)
    return {arm: frozenset(ids) for arm, ids in found.items()}


def _read(folder: CampaignFolder, path: str) -> dict[str, Any] | None:
    """A document of the folder; None where it cannot be read, and the artifacts must do."""
    try:
        return msgspec.json.decode((folder.path / path).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.MsgspecError):
        return None


def _document(file: CampaignFile, baseline: Arm, candidate: Arm) -> dict[str, Any]:
    """The document of the arms as they are now. Its time and what only the closeout knows are not shown."""
    if file.document == "change":
        return change_document(baseline, candidate, generated_at="")
    return paired_document(baseline, candidate, generated_at="", rule=_rule(file))


def _starts(folder: CampaignFolder, view: CampaignView) -> Iterator[tuple[int, StartFigures]]:
    for place, load in enumerate(view.loads):
        if load.report is None:
            continue
        try:
            report = msgspec.json.decode((folder.path / load.report).read_bytes(), type=StartupReport)
        except (OSError, msgspec.MsgspecError):
            continue
        start = LoadStart(path=load.report, report=report)
        gib, tokens, concurrency = kv_figures(start)
        yield place, StartFigures(tokens, gib, concurrency, peak_activation(start), load.startup_seconds)


def _protocols(
    baseline: Arm, candidate: Arm, document: dict[str, Any] | None, rule: VerdictRule
) -> tuple[Protocol, ...]:
    """Every protocol that an arm ran, the longest prompt first; as the document tells it where it does."""
    clock = common_clock((baseline, candidate))
    old, new = protocols(scored(baseline)), protocols(scored(candidate))
    keys = sorted(old.keys() | new.keys(), key=lambda key: (-(key[0] or 0), key[1] or 0))
    shared = compared_runs(baseline, candidate)
    written = _written_metrics(document or {}, [Group(key, (), ()).name for key in keys if key in old and key in new])
    found = []
    for key in keys:
        group = Group(key, old.get(key, ()), new.get(key, ()))
        part = written.get(group.name) or metrics_part(group, shared, clock, rule)[0]
        words = f"{key[0]:,} tokens" if key[0] is not None else "unlabelled prompts"
        words += f", {key[1]} at a time" if key[1] not in (None, 1) else ""
        found.append(Protocol(words, tuple(_metrics(part, group, baseline.name, candidate.name))))
    return tuple(found)


def _written_metrics(document: Mapping[str, Any], common: Sequence[str]) -> dict[str, Any]:
    """The metrics of a document by protocol; where it names none, they are of the one that is common."""
    by_protocol: dict[str, Any] = document.get("metrics_by_protocol") or {}
    if not by_protocol and len(common) == 1 and document.get("metrics"):
        return {common[0]: document["metrics"]}
    return by_protocol


def _metrics(part: Mapping[str, Any], group: Group, baseline: str, candidate: str) -> Iterator[Metric]:
    for name, one in part.items():
        effect = one["effect"]
        delta = [value for key, value in one.items() if key.endswith("delta_percent")]
        yield Metric(
            name=name,
            baseline=_by_load(one[f"{baseline}_values"], group.baseline),
            candidate=_by_load(one[f"{candidate}_values"], group.candidate),
            baseline_median=one[f"{baseline}_median"],
            candidate_median=one[f"{candidate}_median"],
            delta_percent=delta[0] if delta else None,
            low_percent=effect["low_percent"],
            high_percent=effect["high_percent"],
            level=effect["level"],
            verdict=effect["verdict"],
            words=effect["words"],
        )


def _by_load(values: Sequence[float | None], runs: Sequence[MeasuredRun]) -> ByLoad:
    """Values of runs put together by load; as one load where they are not of these runs."""
    groups = loads(runs)
    if sum(map(len, groups)) != len(values):
        return (tuple(values),) if values else ()
    left = iter(values)
    return tuple(tuple(next(left) for _ in group) for group in groups)


def _gates(arms: Sequence[Arm]) -> Iterator[str]:
    for arm in arms:
        if arm.gates:
            passed = sum(gate.passed for gate in arm.gates)
            yield f"{arm.name}: {passed} of {len(arm.gates)} functional gates passed"


def _from_document(document: Mapping[str, Any], *, not_yet: str, **others: Any) -> Conclusions:
    """What a comparison or a controlled change says in sentences; `not_yet` is an invariant that cannot be told."""
    claims = document.get("claims") or document.get("interpretation") or {}
    return Conclusions(
        violated=tuple(
            one["text"]
            for one in document.get("invariants", ())
            if one["status"] == "violated" and one["text"] != not_yet
        ),
        kv=tuple(_kv(document)),
        proven=tuple(Claim(one["text"]) for one in claims.get("proven", ())),
        not_proven=tuple(Claim(one["text"], one["missing"]) for one in claims.get("not_proven", ())),
        caveats=tuple(one["text"] for one in document.get("caveats", ())),
        decision=document.get("decision") or "",
        **others,
    )


def _kv(document: Mapping[str, Any]) -> Iterator[str]:
    """What explains the KV tokens of each arm, and what changed them."""
    explained = document.get("kv_explanation") or {}
    for name, one in (explained.get("reports") or {}).items():
        yield f"{name}: {one['words']}"
    if explained.get("change"):
        yield explained["change"]["words"]
    for name, part in document.items():
        if isinstance(part, dict) and part.get("kv_cache_explanation"):
            yield f"{name}: {part['kv_cache_explanation']}"
