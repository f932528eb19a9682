"""The rungs of a ladder, capacity runs, the gate: those measured, the one that runs, those to come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.content import Content

from anvil_tui.console.snapshot import Level, RunFigures, Rung, Shown
from anvil_tui.console.views.figures import DASH, STYLES, VERDICTS, Row, count, fit, outside, pad, rate, span

if TYPE_CHECKING:
    from anvil_tui.campaigns.store.view import RunView
    from anvil_tui.records.live import LiveRun

_COLUMNS = (("target", 8), ("actual", 9), ("TTFT ms", 9), ("prefill/s", 10), ("decode/s", 9))
_RESERVE = 14
FARTHEST_SCALE = 4
"""How far, in tokens, one measured rung may be scaled to tell the time of another."""
STILL_SECONDS = 5.0
"""An engine whose KV usage stands still for longer than this while it prefills may hang."""
_STATES: dict[str, tuple[str, Level]] = {
    "passed": ("pass", "good"),
    "failed": ("FAIL", "bad"),
    "interrupted": ("interrupted", "warn"),
}


def header(width: int) -> Content:
    """The heads of the columns."""
    heads = "".join(pad(name, size, right=True) for name, size in _COLUMNS)
    return Content.styled(fit(f"{heads}  {pad('reserve', _RESERVE)}state", width), "$foreground-muted")


def heading(shown: Shown) -> str:
    """What the rows are called."""
    return "Rungs" if shown.row.plan is not None and shown.row.plan.ladder is not None else "Runs"


def rung_rows(shown: Shown, past: Sequence[Rung], now_us: int, width: int) -> tuple[Row, ...]:
    """One row a rung, in the order in which they run."""
    rows: list[Row] = []
    plan = shown.row.plan
    of_ladder = plan is not None and plan.ladder is not None
    measured = [*past, *measured_runs(shown, "rung")] if of_ladder else measured_runs(shown, "capacity")
    started = [run for run in shown.row.view.runs if run.run is not None]
    for run in started:
        rows.append(Row(run.run or "", run_row(run, shown, measured, now_us, width)))
    targets = _targets(shown)
    skipped = {run.target_tokens: run.words for run in shown.row.view.runs if run.run is None}
    for number, target in list(enumerate(targets))[len(started) :]:
        if shown.row.running:
            about = estimate_seconds(target, measured)
            words = "planned" + (f", about {span(about)}" if about is not None else "")
        else:
            words = f"not run: {outside(skipped.get(target, shown.row.view.words or shown.row.standing))}"
        text = f"{pad(count(target), _COLUMNS[0][1], right=True)}  {words}"
        rows.append(Row(f"planned-{number}", Content.styled(fit(text, width), "$foreground-muted"), choice=False))
    return tuple(rows)


def _targets(shown: Shown) -> tuple[int, ...]:
    """Prompt lengths that were planned, in order; none where they follow from what is measured."""
    plan = shown.row.plan
    if plan is not None and plan.ladder is not None and plan.ladder.bisect_tolerance is None:
        # Only now: the first frame has no plan.
        from anvil_tui.campaigns.steps.rungs import rungs_of

        return tuple(rung.target_tokens for rung in rungs_of(plan.ladder))
    if plan is not None and plan.capacity is not None:
        return (plan.capacity.context_tokens,) * plan.capacity.runs
    return ()


def run_row(run: RunView, shown: Shown, measured: Sequence[Rung], now_us: int, width: int) -> Content:
    """One run: its figures, or where it stands now."""
    what = run.what if run.target_tokens is None else count(run.target_tokens)
    target = pad(what, _COLUMNS[0][1], right=True)
    live = shown.live.run if shown.live is not None else None
    if run.state == "running":
        words = running_words(live, measured, now_us) if live is not None and live.run == run.run else "running"
        return Content.assemble((target, "bold"), ("  ▸ ", "$text-primary"), (fit(words, width - 12), "$text-primary"))
    figures = shown.figures.get(run.run or "")
    word, level = _STATES.get(run.state, (str(run.state), "info"))
    if figures is None:
        return Content.assemble(
            target, "  ", (word, STYLES[level]), "  ", (fit(outside(run.words), width - 12 - len(word)), "")
        )
    reserve, reserve_level = reserve_words(figures)
    if run.what == "gate":
        # Its requests are of many kinds: no one figure stands for them.
        end = f"reserve {reserve}"
        words = fit(outside(run.words), width - len(target) - len(word) - len(end) - 6)
        return Content.assemble(target, "  ", (word, STYLES[level]), f"  {words}  ", (end, STYLES[reserve_level]))
    values = (
        count(figures.prompt_tokens),
        count(figures.ttft_ms),
        rate(figures.prefill_tok_s),
        rate(figures.decode_tok_s),
    )
    cells = "".join(pad(value, size, right=True) for value, (_, size) in zip(values, _COLUMNS[1:], strict=True))
    why = _why(figures) if run.state != "passed" else ""
    room = width - len(target) - len(cells) - 2 - _RESERVE
    return Content.assemble(
        target,
        cells,
        "  ",
        (pad(reserve, _RESERVE), STYLES[reserve_level]),
        (fit(f"{word}{' ' + why if why else ''}", room), STYLES[level]),
    )


def reserve_words(figures: RunFigures) -> tuple[str, Level]:
    """The verdict in short; one that the profile waives is told and does not decide."""
    if figures.reserve is None:
        return DASH, "info"
    word, level = VERDICTS[figures.reserve]
    if figures.policy in (None, "enforce") or level == "good":
        return word, level
    return f"{word}, {figures.policy}", "warn"


def _why(figures: RunFigures) -> str:
    """The names of the checks that failed."""
    return ", ".join(outside(check.name, 40) for check in figures.checks if check.passed is False)


def running_words(live: LiveRun, measured: Sequence[Rung], now_us: int) -> str:
    """Phase, time so far and expected, tokens so far."""
    about = estimate_seconds(live.target_tokens, measured)
    words = [
        live.phase if live.words is None else outside(live.words, 200),
        span((now_us - live.since_us) / 1e6) + (f" of about {span(about)}" if about is not None else ""),
    ]
    if live.phase == "prefill" and live.prefill_pct is not None:
        words.append(f"{live.prefill_pct:.0f} %")
        words += [f"{rate(live.prefill_tok_s)} tok/s"] if live.prefill_tok_s is not None else []
        words += [f"{span(live.left_s)} left"] if live.left_s is not None else []
    if live.still_s is not None and live.still_s > STILL_SECONDS:
        words.append(f"KV usage has not moved for {span(live.still_s)}")
    if live.tokens:
        words.append(f"{count(live.tokens)} tokens so far")
    return "  ".join(words)


def to_go(shown: Shown, past: Sequence[Rung], now_us: int) -> Content:
    """How long the rest of the ladder should take; empty where that is not known or nothing runs."""
    plan = shown.row.plan.ladder if shown.row.plan is not None else None
    if plan is None or plan.bisect_tolerance is not None or not shown.row.running:
        return Content("")
    started = [run for run in shown.row.view.runs if run.run is not None]
    open_now = [run for run in started if run.state == "running"]
    targets = [run.target_tokens for run in open_now]
    targets += _targets(shown)[len(started) :]
    measured = [*past, *measured_runs(shown, "rung")]
    each = [estimate_seconds(target, measured) for target in targets]
    known = [seconds for seconds in each if seconds is not None]
    if not known or len(known) < len(each):
        return Content("")
    live = shown.live.run if shown.live is not None and open_now else None
    done = (now_us - live.since_us) / 1e6 if live is not None else 0.0
    left = sum(known) - done
    return Content(f"about {span(left)} to go" if left > 0 else "longer than the rungs before it")


def estimate_seconds(target_tokens: int | None, measured: Sequence[Rung]) -> float | None:
    """Expected time of a rung from rungs before, by the line through the two nearest targets, or by proportion where
    only one target was measured; null where none was, and where the only one is too far to scale (what a rung costs
    whatever its length, its answer above all, would be scaled with it)."""
    if target_tokens is None or not measured:
        return None
    by_target: dict[int, list[float]] = {}
    for rung in measured:
        by_target.setdefault(rung.target_tokens, []).append(rung.seconds)
    points = sorted(by_target, key=lambda tokens: (abs(tokens - target_tokens), tokens))[:2]
    means = {tokens: sum(by_target[tokens]) / len(by_target[tokens]) for tokens in points}
    if target_tokens in means:
        return means[target_tokens]
    if len(points) == 1:
        scale = target_tokens / points[0]
        return means[points[0]] * scale if 1 / FARTHEST_SCALE <= scale <= FARTHEST_SCALE else None
    low, high = sorted(points)
    slope = (means[high] - means[low]) / (high - low)
    return max(0.0, means[low] + slope * (target_tokens - low)) or None


def measured_runs(shown: Shown, what: str) -> list[Rung]:
    """The runs of one kind that passed in this campaign, with how long they took."""
    return [
        Rung(run.target_tokens, shown.seconds[run.run])
        for run in shown.row.view.runs
        if run.run is not None
        and run.run in shown.seconds
        and (run.what, run.state) == (what, "passed")
        and run.target_tokens is not None
    ]


def run_detail(run: RunView, figures: RunFigures | None) -> list[Content]:
    """All that is known of one run: its sentence, its checks."""
    lines = [Content(outside(run.words or run.state, 2000))]
    if figures is None:
        return lines
    lines.append(Content(""))
    for check in figures.checks:
        word, style = {True: ("pass", STYLES["good"]), False: ("FAIL", STYLES["bad"]), None: ("n/a ", STYLES["warn"])}[
            check.passed
        ]
        lines.append(
            Content.assemble((f"{word}  ", style), (f"{outside(check.name, 40)}: ", "bold"), outside(check.words, 2000))
        )
    measured = f"E2E {count(figures.e2e_ms)} ms, {count(figures.output_tokens)} tokens out"
    return [*lines, Content(""), Content(f"{measured}, outcome {outside(figures.outcome, 60)}")]
