"""The lists of the pickers: lanes with what they do, campaigns with how they ended."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from anvil_tui.console.snapshot import CampaignRow, LaneRow
from anvil_tui.console.views.figures import DASH, STYLES, Row, count, fit, outside, pad, span
from anvil_tui.console.views.startup_view import lane_style, lane_words
from anvil_tui.console.views.top_view import run_words


def lane_rows(lanes: Sequence[LaneRow], now_us: int, width: int) -> tuple[Row, ...]:
    """One row a lane; a refused profile can be looked at and not chosen."""
    rows = []
    for lane in lanes:
        name = pad(outside(lane.name, 64), 28)
        state = pad(lane_words(lane, now_us), 24)
        label = "REHEARSAL  " if lane.lane is not None and lane.lane.rehearsal else ""
        about = outside(lane.lane.profile.identity.model if lane.lane is not None else lane.words, 200)
        content = Content.assemble(
            (name, "bold"),
            (state, lane_style(lane)),
            (label, "$text-warning"),
            (fit(about, max(0, width - 52 - len(label))), ""),
        )
        rows.append(Row(lane.name, content))
    return tuple(rows)


def lane_facts(lane: LaneRow, width: int, *, starts: bool = True) -> Content:
    """What will be started, and what enter does; `starts`: whether this console starts lanes."""
    if lane.lane is None:
        return Content.styled(outside(lane.words, 600), STYLES["bad"])
    profile, recipe, endpoint = lane.lane.profile, lane.lane.profile.recipe, lane.lane.profile.endpoint
    policy = (
        ""
        if profile.gpus.policy == "enforce"
        else f", {profile.gpus.policy}: {outside(profile.gpus.reason or '', 200)}"
    )
    act = "enter shows it" if lane.living or lane.state == "attached" or not starts else "enter starts it"
    if lane.lane.kind == "attach":
        act = "attached: someone else runs it; l measures it"
    lines = [
        Content(""),
        Content(fit(outside(profile.about or profile.identity.model, 300), width)),
        Content(fit(f"{lane.lane.kind} at {outside(f'{endpoint.base_url} as {endpoint.served_name}', 400)}", width)),
        Content(
            fit(
                f"max_model_len {count(recipe.max_model_len)}  batched tokens {count(recipe.max_num_batched_tokens)}  "
                f"sequences {count(recipe.max_num_seqs)}  utilization {recipe.gpu_memory_utilization or DASH}  "
                f"TP {recipe.tensor_parallel_size or DASH}  KV {outside(recipe.kv_cache_dtype or DASH, 20)}",
                width,
            )
        ),
        Content(fit(f"reserve {count(profile.gpus.reserve_mib)} MiB a GPU{policy}", width)),
        Content(fit(f"newest load: {outside(lane.words, 200)}", width)) if lane.words else Content(""),
        Content.styled(act, "bold $text-primary"),
    ]
    return Content("\n").join(lines)


def campaign_rows(campaigns: Sequence[CampaignRow], width: int) -> tuple[Row, ...]:
    """The newest first."""
    rows = []
    for row in reversed(campaigns):
        words, style = run_words(row)
        passed = sum(run.state == "passed" for run in row.view.runs)
        runs = f"{passed}/{len(row.view.runs)} passed" if row.view.runs else ""
        label = "REHEARSAL" if row.view.rehearsal else ""
        began = outside((row.view.began_at or "")[:16].replace("T", " "), 16)
        content = Content.assemble(
            (pad(began, 18), "$foreground-muted"),
            (pad(words, 23), style),
            pad(runs, 14),
            (pad(outside(" against ".join(reversed(row.lanes)), 140), min(34, max(0, width - 55))), "bold"),
            (fit(f"  {label}", max(0, width - 89)), "$text-warning"),
        )
        rows.append(Row(row.folder.id, content))
    return tuple(rows)


def campaign_facts(row: CampaignRow, width: int) -> Content:
    """Its folder and its last sentence."""
    lines = [Content(""), Content(fit(outside(str(row.folder.path), 400), width))]
    if row.view.words:
        lines.append(Content(fit(outside(row.view.words, 400), width)))
    if row.view.startup_seconds is not None:
        lines.append(Content(f"the lane came up in {span(row.view.startup_seconds)}"))
    return Content("\n").join(lines)
