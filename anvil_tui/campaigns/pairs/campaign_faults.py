"""What is wrong with a campaign file on this machine, beyond the shape of its tables."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.campaigns.pairs.planned_campaign import PlannedCampaign, arms_of, site_names
from anvil_tui.campaigns.steps.rungs import limit_tokens
from anvil_tui.errors import Fault, nearest
from anvil_tui.evidence.arms.differences import OPERATIONAL, Difference
from anvil_tui.evidence.arms.runs import HIGHER_IS_BETTER
from anvil_tui.lanes import recipe
from anvil_tui.lanes.difference import covers
from anvil_tui.records.acceptance import (
    ActualPromptTokens,
    ArmRole,
    Condition,
    GatePassed,
    MetricLimit,
    NoPromotionChange,
    NoRouteChange,
    PostProbeGate,
    ReservePassed,
)
from anvil_tui.records.campaign_file import CampaignFile, DeclaredInvariant
from anvil_tui.records.plan import CapacityPlan, LadderPlan

_OF_TWO_ARMS = (
    "controlled_fields", "operational_differences", "undeclared_ok", "paired_variable", "invariants", "primary_metric",
)  # fmt: skip


def campaign_faults(campaign: PlannedCampaign) -> Iterator[Fault]:
    """Everything that keeps a campaign from being valid here, but undeclared differences."""
    yield from _arm_faults(campaign)
    yield from _order_faults(campaign.file)
    yield from _document_faults(campaign.file)
    yield from _difference_faults(campaign)
    yield from _probe_faults(campaign)
    for index, invariant in enumerate(campaign.file.invariants):
        yield from _invariant_faults(f"invariants[{index}]", invariant, campaign)
    for index, condition in enumerate(campaign.file.acceptance):
        yield from _condition_faults(f"acceptance[{index}]", condition, campaign)
    yield from _site_faults(campaign)


def _arm_faults(campaign: PlannedCampaign) -> Iterator[Fault]:
    file = campaign.file
    for role, arm in arms_of(file):
        lane = campaign.lanes.get(role)
        if lane is None:
            continue
        if lane.kind == "attach":
            yield Fault(f"arms.{role}.lane", f"{lane.name!r} is run by someone else", "a lane that is started here")
        stated = recipe.stated(lane.profile.recipe)
        for field, wanted in recipe.stated(arm.recipe).items():
            if stated.get(field) != wanted:
                found = f"recipe.{field} is {_word(stated.get(field))}"
                yield Fault(f"arms.{role}.lane", f"{found} in lane {lane.name!r}", f"recipe.{field} = {wanted}")
    if len(campaign.lanes) < 2:
        return
    baseline, candidate = campaign.lanes["baseline"], campaign.lanes["candidate"]
    same = baseline.path == candidate.path
    if same and not file.same_lane:
        yield Fault("arms", f"both are lane {baseline.name!r}", "two lanes, or same_lane = true for an A/A run")
    if not same and file.same_lane:
        yield Fault("same_lane", f"true, but {baseline.name!r} is not {candidate.name!r}", "one lane in both arms")
    if baseline.rehearsal != candidate.rehearsal:
        yield Fault("arms", "one lane is simulated and one is not", "two real lanes, or two of the rehearsal")
    if campaign.arm_name("baseline") == campaign.arm_name("candidate"):
        yield Fault("arms.candidate.name", repr(campaign.arm_name("candidate")), "another name than the baseline's")


def _order_faults(file: CampaignFile) -> Iterator[Fault]:
    if file.arms.baseline is None:
        if file.order is not None:
            yield Fault("order", repr(file.order), "no order: there is one arm")
    elif file.order is None:
        yield Fault("order", "missing", "AB, ABA, ABBA, random")
    if file.order == "random" and file.seed is None:
        yield Fault("seed", "missing", "a whole number from 0: random order is drawn by it")
    if file.order != "random" and file.seed is not None:
        yield Fault("seed", str(file.seed), "no seed, or order = 'random'")
    if file.order == "ABBA" and file.blocks % 2:
        yield Fault("blocks", str(file.blocks), "an even number: ABBA turns every second block round")


def _document_faults(file: CampaignFile) -> Iterator[Fault]:
    """What the document cannot be written without."""
    alone = file.arms.baseline is None
    if alone and file.document is not None:
        yield Fault("document", repr(file.document), "no document: it compares two arms and there is one")
    if alone and not file.acceptance:
        yield Fault("acceptance", "missing", "at least one condition: a test of one lane ends in them")
    if not alone and file.document is None:
        yield Fault("document", "missing", "paired, change")
    if file.document == "paired":
        if file.capacity is None:
            yield Fault("capacity", "missing", "a table: its runs are what is compared")
        if file.primary_metric is None:
            yield Fault("primary_metric", "missing", ", ".join(HIGHER_IS_BETTER))
        if not file.paired_variable:
            yield Fault("paired_variable", "missing", "what is compared with what, in words")
    if file.document == "change":
        if file.ladder is None:
            yield Fault("ladder", "missing", "a table: the matched context ladder")
        if file.gate is None:
            yield Fault("gate", "missing", "a table: the functional gate of the candidate")
        elif "candidate" not in file.gate_arms:
            yield Fault("gate_arms", ", ".join(file.gate_arms), "candidate, or both: the document has its gate")
    if file.primary_metric is not None and file.primary_metric not in HIGHER_IS_BETTER:
        close = nearest(file.primary_metric, HIGHER_IS_BETTER)
        yield Fault("primary_metric", repr(file.primary_metric), ", ".join(HIGHER_IS_BETTER), close)
    if file.gate is None and file.capacity is None and file.ladder is None and file.post_gate is None:
        yield Fault("file", "nothing to run", "at least one of the tables gate, capacity, ladder")


def _difference_faults(campaign: PlannedCampaign) -> Iterator[Fault]:
    file, difference = campaign.file, campaign.difference
    if file.arms.baseline is None:
        for place in _OF_TWO_ARMS:
            if getattr(file, place):
                yield Fault(place, "set", "nothing: there is one arm and nothing to compare it with")
    if file.document == "change" and not file.controlled_fields:
        yield Fault("controlled_fields", "missing", "the key paths that are meant to differ")
    words = tuple(dict.fromkeys(OPERATIONAL.values()))
    for index, word in enumerate(file.operational_differences):
        if word not in words:
            yield Fault(f"operational_differences[{index}]", repr(word), ", ".join(words), nearest(word, words))
    if difference is None:
        return
    fields = [one.field for one in difference.functional]
    for index, field in enumerate(file.controlled_fields):
        if not any(covers(field, one) for one in fields):
            wanted = ", ".join(fields) or "nothing: the lanes do not differ"
            yield Fault(f"controlled_fields[{index}]", f"{field} is the same in both", wanted, nearest(field, fields))
    real = [one.field for one in difference.operational]
    for index, word in enumerate(file.operational_differences):
        if word in words and word not in real:
            yield Fault(f"operational_differences[{index}]", f"{word} is the same in both", ", ".join(real) or "none")


def _probe_faults(campaign: PlannedCampaign) -> Iterator[Fault]:
    file = campaign.file
    gated = file.gate is not None or file.post_gate is not None
    if gated and not file.gate_arms:
        yield Fault("gate_arms", "an empty list", "baseline, candidate, or both")
    if file.arms.baseline is None and file.gate_arms == ("baseline",):
        yield Fault("gate_arms", "baseline", "candidate: there is no baseline")
    for place, gate in (("gate", file.gate), ("post_gate", file.post_gate)):
        if gate is not None and "needle" in gate.checks and gate.needle_tokens is None:
            yield Fault(
                f"{place}.needle_tokens", "missing", "the length of the prompt that the check `needle` hides in"
            )
    if file.capacity is not None and file.capacity.prefix == "shared":
        shared, context = file.capacity.shared_prefix_tokens, file.capacity.context_tokens
        if not 0 < shared < context:
            yield Fault("capacity.shared_prefix_tokens", str(shared), f"from 1 to {context - 1:,}: prefix is shared")
    if file.ladder is not None:
        if not file.ladder.targets:
            yield Fault("ladder.targets", "an empty list", "prompt tokens, one rung each")
        if file.ladder.post_gate is not None:
            yield Fault("ladder.post_gate", "set", "the table post_gate: it runs after the last probe of a load")
    asked: list[tuple[str, tuple[int, ...], LadderPlan | CapacityPlan]] = []
    if file.ladder is not None:
        asked.append(("ladder.targets", file.ladder.targets, file.ladder))
    if file.capacity is not None:
        asked.append(("capacity.context_tokens", (file.capacity.context_tokens,), file.capacity))
    for role, lane in campaign.lanes.items():
        length = lane.profile.recipe.max_model_len
        for place, prompts, plan in asked:
            limit = limit_tokens(length, plan.max_tokens, plan.margin)
            above = [prompt for prompt in prompts if limit is not None and prompt > limit]
            if above:
                found = f"{', '.join(f'{prompt:,}' for prompt in above)} for the {role} {lane.name!r}"
                allowed = f"up to {limit:,} = max_model_len {length:,} − max_tokens {plan.max_tokens:,}"
                yield Fault(place, found, f"{allowed} − margin {plan.margin:,}")


def _invariant_faults(place: str, invariant: DeclaredInvariant, campaign: PlannedCampaign) -> Iterator[Fault]:
    checks = [name for name in ("field", "log", "env", "api") if getattr(invariant, name) is not None]
    checks += ["declared"] if invariant.declared else []
    if len(checks) != 1:
        yield Fault(
            place, f"checked by {' and '.join(checks) or 'nothing'}", "exactly one of field, log, env, api, declared"
        )
    if invariant.field is None:
        return
    for lane in campaign.lanes.values():
        known = [name for name in lane.names() if name.startswith(("recipe.", "identity."))]
        if invariant.field not in known:
            close = nearest(invariant.field, known)
            yield Fault(f"{place}.field", repr(invariant.field), "a key path under recipe or identity", close)
            return
    changed = campaign.difference.functional if campaign.difference is not None else ()
    for one in changed:
        if covers(one.field, invariant.field):
            found = f"{one.field} differs: {_word(one.baseline)} → {_word(one.candidate)}"
            yield Fault(f"{place}.field", found, "a field that both lanes have alike")


def _condition_faults(place: str, condition: Condition, campaign: PlannedCampaign) -> Iterator[Fault]:
    """A condition must speak of something that this campaign does, and be one that can be met."""
    file = campaign.file
    arm: ArmRole = getattr(condition, "arm", "candidate")
    if arm == "baseline" and file.arms.baseline is None:
        yield Fault(f"{place}.arm", "baseline", "candidate: there is no baseline")
    match condition:
        case GatePassed() if file.gate is None or arm not in file.gate_arms:
            yield Fault(place, "gate", f"a table gate, and {arm} in gate_arms")
        case PostProbeGate() if file.post_gate is None or arm not in file.gate_arms:
            yield Fault(place, "post_probe_gate", f"a table post_gate, and {arm} in gate_arms")
        case ActualPromptTokens(above=above):
            sizes = (
                *(file.ladder.targets if file.ladder else ()),
                *((file.capacity.context_tokens,) if file.capacity else ()),
            )
            searching = file.ladder is not None and file.ladder.bisect_tolerance is not None
            if not searching and max(sizes, default=0) <= above:
                yield Fault(f"{place}.above", f"{above:,}, and no prompt is longer", "a ladder target above it")
        case NoRouteChange() if not any(one.means == "route" for one in file.watch):
            yield Fault(place, "no_route_change", "a [[watch]] with means = 'route'")
        case NoPromotionChange() if not any(one.means == "promotion" for one in file.watch):
            yield Fault(place, "no_promotion_change", "a [[watch]] with means = 'promotion'")
        case MetricLimit():
            if condition.metric not in HIGHER_IS_BETTER:
                close = nearest(condition.metric, HIGHER_IS_BETTER)
                yield Fault(f"{place}.metric", repr(condition.metric), ", ".join(HIGHER_IS_BETTER), close)
            if condition.at_least is None and condition.at_most is None:
                yield Fault(place, "no limit", "at_least, at_most, or both")
            if file.capacity is None:
                yield Fault(place, "metric", "a table capacity: metrics come from its runs")
        case ReservePassed() if arm in campaign.lanes and campaign.lanes[arm].profile.gpus.source == "none":
            yield Fault(place, "reserve", f"a lane with GPUs: {campaign.lanes[arm].name!r} has none that are watched")


def _site_faults(campaign: PlannedCampaign) -> Iterator[Fault]:
    """References that name nothing, and things to watch or run in that are not there."""
    file, known = campaign.file, site_names(campaign.site)
    texts: list[tuple[str, str]] = []
    for index, watched in enumerate(file.watch):
        if (watched.file is None) == (watched.url is None):
            yield Fault(f"watch[{index}]", "both or none of file and url", "exactly one of them")
        if watched.file is not None:
            texts.append((f"watch[{index}].file", watched.file))
    for index, one in enumerate(file.validation):
        texts += [(f"validation[{index}].command[{place}]", text) for place, text in enumerate(one.command)]
        texts.append((f"validation[{index}].directory", one.directory))
    named = ", ".join(sorted(known)) or "none is there yet"
    broken = [
        Fault(fault.place, fault.found, f"values of [site] in machine.toml: {named}", fault.nearest)
        for place, text in texts
        for fault in recipe.reference_faults(place, text, known)
    ]
    yield from broken
    wrong = {fault.place for fault in broken}
    for place, text in texts:
        if place in wrong:
            continue
        if place.endswith(".directory") and not campaign.place(text).is_dir():
            yield Fault(place, f"{campaign.render(text)!r} is no folder", "a folder that is there")
        if place.endswith(".file") and not campaign.place(text).is_file():
            yield Fault(place, f"{campaign.render(text)!r} is no file", "a file that is there")


def undeclared_fault(one: Difference) -> Fault:
    """A functional difference that nobody declared."""
    found = f"differs undeclared: {_word(one.baseline)} → {_word(one.candidate)}"
    return Fault(one.field, found, "the same in both arms, or in controlled_fields, or in [[undeclared_ok]] with a why")


def _word(value: object) -> str:
    return "not set" if value is None else str(value)
