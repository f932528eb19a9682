"""The first line: what is shown, what runs, and the worst of it in a word."""

from __future__ import annotations

from dataclasses import dataclass

from rich.cells import cell_len
from textual.content import Content

from anvil_tui.console.snapshot import CampaignRow, Desk, GpuSnapshot
from anvil_tui.console.views.figures import fit, outside
from anvil_tui.console.views.gpu_view import STYLES as GPU_STYLES
from anvil_tui.console.views.gpu_view import Word, gpu_state
from anvil_tui.console.views.startup_view import lane_style, lane_words

_BLIND: tuple[Word, ...] = ("NO DATA", "STALE")


@dataclass(frozen=True)
class Worst:
    """The worst state of all that is watched: a word, and how it is coloured."""

    word: str
    style: str


def worst(desk: Desk, gpus: GpuSnapshot, now_us: int, faults: tuple[str, ...] = ()) -> Worst:
    """The one word that an operator looks at. `faults` names reading threads that failed."""
    states = {gpu_state(gpu, gpus, now_us).word for gpu in gpus.gpus}
    if gpus.failed is not None:
        states.add("NO DATA")
    if "ALARM" in states:
        return Worst("ALARM reserve", "bold $text-error")
    if desk.lane is not None and desk.lane.state in ("exited", "gone"):
        return Worst("LANE DIED", "bold $text-error")
    shown = desk.shown.row if desk.shown is not None else None
    if shown is not None and shown.standing == "failed":
        return Worst("CAMPAIGN FAILED", "bold $text-error")
    if desk.shown is not None and desk.shown.broken is not None:
        return Worst("JOURNAL BROKEN", "bold $text-error")
    if faults:
        return Worst(f"STALE {', '.join(faults)}", "bold $text-error")
    for word in _BLIND:
        if word in states:
            return Worst(f"{word} gpu", GPU_STYLES[word])
    if shown is not None and any(run.state == "failed" for run in shown.view.runs):
        return Worst("RUN FAILED", "bold $text-error")
    if desk.shown is not None and any(one.state == "not met" for one in desk.shown.acceptance):
        return Worst("NOT MET", "bold $text-error")
    if shown is not None and shown.standing == "interrupted":
        return Worst("INTERRUPTED", "bold $text-warning")
    if "WAIVED" in states:
        return Worst("BELOW, waived", "$text-warning")
    if "NEAR" in states:
        return Worst("NEAR reserve", "$text-warning")
    if states == {"OK"}:
        return Worst("OK", "$text-success")
    return Worst("READING" if desk.unread else "IDLE", "$foreground-muted")


def kind_of(row: CampaignRow) -> str:
    """What kind of campaign it is, by its journal or by its plan."""
    return outside(row.view.kind or (row.plan.kind if row.plan else "campaign"), 20)


def about(row: CampaignRow) -> str:
    """A campaign in a sentence: its kind and its lanes."""
    lanes = " against ".join(outside(lane, 64) for lane in reversed(row.lanes))
    return f"paired campaign of {lanes}" if row.paired else f"{kind_of(row)} on {lanes}"


def run_words(row: CampaignRow | None) -> tuple[str, str]:
    """What the campaign does, and how that is coloured."""
    if row is None:
        return "no campaign", "$foreground-muted"
    view, plan = row.view, row.plan
    kind = kind_of(row)
    if row.running:
        total = (
            len(plan.ladder.targets) * plan.ladder.repetitions if plan is not None and plan.ladder is not None else 0
        )
        done = sum(run.run is not None for run in view.runs)
        if plan is not None and plan.loads:
            total, done = len(plan.loads), len({load.number for load in view.loads if load.state != "put aside"})
        return f"RUN {kind}" + (f" {done}/{total}" if total else ""), "bold $text-primary"
    word = row.standing + (", signed" if row.signed else ", not signed" if row.standing == "sealed" else "")
    style = {"failed": "$text-error", "interrupted": "$text-warning", "stopped": "$text-warning"}.get(row.standing, "")
    return f"{kind} {word}", style


def top_line(
    desk: Desk,
    gpus: GpuSnapshot,
    *,
    now_us: int,
    time: str,
    width: int,
    labels: tuple[str, ...] = (),
    faults: tuple[str, ...],
) -> Content:
    """The bar: product, lane and its state, campaign; at the right `labels`, the worst word and the time of day."""
    lane = desk.lane
    row = desk.shown.row if desk.shown is not None else None
    rehearsal = bool(
        (lane is not None and lane.lane is not None and lane.lane.rehearsal) or (row and row.view.rehearsal)
    )
    word = worst(desk, gpus, now_us, faults)
    right = [(f" {label} ", "bold reverse") for label in labels]
    if rehearsal:
        right.append((" REHEARSAL ", "bold $text-warning on $warning-muted"))
    right += [
        (f" {word.word} ", f"{word.style} reverse" if word.word.startswith("ALARM") else word.style),
        (f" {time}", ""),
    ]
    right_width = sum(cell_len(text) for text, _ in right) + 1
    run, run_style = run_words(row)
    others = [other for other in desk.campaigns if other.running and (row is None or other.folder.id != row.folder.id)]
    left: list[tuple[str, str]] = [("anvil-tui", "bold")]
    if lane is not None:
        left += [
            ("  " + outside(lane.name, 80), "bold $text-primary"),
            ("  " + lane_words(lane, now_us), lane_style(lane)),
        ]
    if not desk.unread:
        left.append(("  " + run, run_style))
    if others:
        left.append((f"  +{len(others)} running (c)", "$text-warning"))
    room = max(0, width - right_width - 1)
    fitted = _shortened(left, room)
    used = sum(cell_len(text) for text, _ in fitted)
    return Content.assemble(" ", *fitted, " " * max(0, room - used), *right)


def _shortened(parts: list[tuple[str, str]], room: int) -> list[tuple[str, str]]:
    """Parts cut to `room` cells: the product's name goes first, then the end is cut."""
    if sum(cell_len(text) for text, _ in parts) > room and len(parts) > 2:
        parts = [(parts[1][0].lstrip(), parts[1][1]), *parts[2:]]
    if sum(cell_len(text) for text, _ in parts) > room and len(parts) > 2:
        state = parts[1][0].split(",")[0]
        parts = [parts[0], (state, parts[1][1]), *parts[2:]]
        over = sum(cell_len(text) for text, _ in parts) - room
        if over > 0:
            parts[0] = (fit(parts[0][0], max(8, cell_len(parts[0][0]) - over)), parts[0][1])
    kept: list[tuple[str, str]] = []
    for text, style in parts:
        shown = fit(text, room)
        kept.append((shown, style))
        room -= cell_len(shown)
    return kept
