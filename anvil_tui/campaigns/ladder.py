"""The ladder: one streamed request a rung, its prompt exact to the token, its GPU memory watched."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

from anvil_tui import clock
from anvil_tui.campaigns.interrupts import Interrupt
from anvil_tui.campaigns.load import Load, lane_gone
from anvil_tui.campaigns.prober import ProbeDied, Prober
from anvil_tui.campaigns.session import Session
from anvil_tui.campaigns.vram import VramWatch
from anvil_tui.engines import metrics
from anvil_tui.engines.endpoint import EndpointError
from anvil_tui.errors import CannotRun
from anvil_tui.evidence.rung import judge_rung, rung_words
from anvil_tui.records.artifact import Check, Counters, RunArtifact
from anvil_tui.records.events import LoadFailed, PlanRefused, RunFinished, RunInterrupted, RunSkipped, RunStarted
from anvil_tui.records.live import LiveRun
from anvil_tui.records.plan import LadderPlan
from anvil_tui.records.probe import Deadlines, MeasureRung, ProbeProgress, ProbeSized, Target
from anvil_tui.records.request import RequestRecord
from anvil_tui.records.vram import ReserveVerdict

FATAL_OUTCOMES = frozenset({"http_error", "error_in_stream", "empty_stream", "disconnected", "timeout"})
"""After one of these the rungs above would only fail the same way: the ladder ends."""

_LAST_WORDS_SECONDS = 2.0
"""How long a connection to a dead lane may take to end by itself."""


def limit_tokens(max_model_len: int | None, plan: LadderPlan) -> int | None:
    """Longest prompt of this plan: observed max_model_len − max_tokens − margin. Null where the length is unknown.

    The KV tokens that an engine reports are never the limit: they count what full-length requests reserve.
    """
    return None if max_model_len is None else max_model_len - plan.max_tokens - plan.margin


def check_plan(lane: str, max_model_len: int | None, plan: LadderPlan, how: str) -> None:
    """Refuse a plan that holds a target above the limit. Raises CannotRun with the arithmetic."""
    limit = limit_tokens(max_model_len, plan)
    above = [target for target in plan.targets if limit is not None and target > limit]
    if above:
        targets = ", ".join(f"{target:,}" for target in above)
        raise CannotRun(
            f"{lane}: target {targets} is above the limit of {limit:,} tokens = {how} max_model_len {max_model_len:,}"
            f" − max_tokens {plan.max_tokens:,} − margin {plan.margin:,}; nothing was sent"
        )


@dataclass(frozen=True)
class Rung:
    """One planned rung: its number in the plan and its target."""

    number: int
    target_tokens: int


async def climb(session: Session, load: Load, vram: VramWatch | None, done: int, first_run: int) -> bool:
    """Measure the rungs of the plan from number `done` on; runs are numbered from `first_run`.

    Returns whether every one of them passed. Raises Interrupt where the campaign ends early.
    """
    plan = session.plan.ladder
    assert plan is not None, "a ladder campaign has a ladder plan"
    try:
        check_plan(load.lane.name, load.answer.max_model_len, plan, "observed")
    except CannotRun as refused:
        session.event(PlanRefused(words=str(refused)))
        raise
    rungs = [Rung(number, target) for number, target in enumerate(plan.targets * plan.repetitions)][done:]
    prober = Prober()
    await prober.start()
    try:
        passed = True
        for position, rung in enumerate(rungs):
            session.interrupts.clear_skip()
            if session.interrupts.stop_after_request:
                session.interrupts.strike(Interrupt("stop_now", "the operator asked to stop after the open request"))
            if session.interrupts.pending is not None:
                _skip(session, rungs[position:], str(session.interrupts.pending))
                raise session.interrupts.pending
            run = f"{load.lane.name}-r{first_run + position}"
            try:
                record, good = await _measure(session, load, vram, prober, plan, rung, run)
            except Interrupt as interrupt:
                passed = False
                if interrupt.kind == "skip_rung":
                    continue
                _skip(session, rungs[position + 1 :], str(interrupt))
                raise
            passed = passed and good
            if record is not None and record.outcome in FATAL_OUTCOMES:
                if await lane_gone(load):
                    died = await session.interrupts.struck()
                    _skip(session, rungs[position + 1 :], str(died))
                    raise died
                alive = await _still_answers(session, load, rung)
                words = f"the rung of {rung.target_tokens:,} tokens ended with {record.outcome}"
                _skip(session, rungs[position + 1 :], words if alive else f"{load.lane.name} no longer answers")
                return False
        return passed
    finally:
        await prober.end()


async def _measure(
    session: Session, load: Load, vram: VramWatch | None, prober: Prober, plan: LadderPlan, rung: Rung, run: str
) -> tuple[RequestRecord | None, bool]:
    """Measure one rung and keep its artifact, whatever becomes of it."""
    limit = limit_tokens(load.answer.max_model_len, plan)
    ask = MeasureRung(
        id=run,
        target=_target(load),
        request_index=rung.number,
        target_tokens=rung.target_tokens,
        max_tokens=plan.max_tokens,
        limit_tokens=limit,
        reasoning_effort=plan.reasoning_effort,
        nonce=session.nonce(rung.number),
        deadlines=Deadlines(),
    )
    session.step = f"{run}: {rung.target_tokens:,} tokens"
    session.event(RunStarted(lane=load.lane.name, run=run, what="rung", target_tokens=rung.target_tokens))
    started_at, began_us = clock.utc_now(), clock.mono_us()
    before = await _counters(load)
    if vram is not None:
        vram.begin_window()
    session.run = LiveRun(run=run, target_tokens=rung.target_tokens, phase="sizing", since_us=began_us)
    measuring = asyncio.ensure_future(prober.measure(ask, lambda line: _show(session, vram, line)))
    interrupted: Interrupt | None = None
    record: RequestRecord | None = None
    died = ""
    try:
        await session.interrupts.until(measuring)
        record = measuring.result()
    except Interrupt as interrupt:
        interrupted = interrupt
        record = await _after_interrupt(interrupt, measuring, prober, run)
    except ProbeDied as error:
        died = str(error)
    finally:
        session.run = None
    reserve = await _reserve(vram, record, began_us)
    after = None if interrupted else await _counters(load)
    checks = judge_rung(record, rung.target_tokens, reserve) if record is not None else ()
    # A rung in which the lane died is a failed rung: what the lane could not bear is a finding.
    lane_died = interrupted is not None and interrupted.kind == "lane_died" and record is not None
    cut_short = "" if lane_died else str(interrupted) if interrupted else died
    good = not cut_short and not lane_died and all(check.passed is not False for check in checks)
    words = cut_short or rung_words(record, checks, reserve)
    artifact = _artifact(
        session, load, plan, rung, run, started_at, good, words, checks, record, reserve, before, after
    )
    path = f"runs/{run}.json"
    sha256, size = session.write_artifact(path, artifact)
    if cut_short:
        session.event(RunInterrupted(run=run, words=words, path=path, sha256=sha256, bytes=size))
        if interrupted is not None:
            raise interrupted
        return None, False
    assert record is not None, "a rung that was not cut short has its record"
    session.event(
        RunFinished(
            run=run,
            path=path,
            sha256=sha256,
            bytes=size,
            passed=good,
            outcome=record.outcome,
            reserve=reserve.verdict if reserve else None,
            words=words,
        )
    )
    if interrupted is not None:
        raise interrupted
    return record, good


async def _after_interrupt(
    interrupt: Interrupt, measuring: asyncio.Future[RequestRecord], prober: Prober, run: str
) -> RequestRecord | None:
    """The record of a rung that was cut short: its own end where the lane died, else as far as it had got."""
    if interrupt.kind == "lane_died":
        await asyncio.wait({measuring}, timeout=_LAST_WORDS_SECONDS)
        if measuring.done() and measuring.exception() is None:
            return measuring.result()
    measuring.cancel()
    return await prober.cancel(run)


def _artifact(
    session: Session,
    load: Load,
    plan: LadderPlan,
    rung: Rung,
    run: str,
    started_at: str,
    passed: bool,
    words: str,
    checks: tuple[Check, ...],
    record: RequestRecord | None,
    reserve: ReserveVerdict | None,
    before: Counters | None,
    after: Counters | None,
) -> RunArtifact:
    return RunArtifact(
        nonce=secrets.token_hex(16),
        rehearsal=load.lane.rehearsal,
        campaign_id=session.plan.campaign_id,
        run=run,
        what="rung",
        lane=load.observed(),
        target_tokens=rung.target_tokens,
        limit_tokens=limit_tokens(load.answer.max_model_len, plan),
        started_at=started_at,
        finished_at=clock.utc_now(),
        boot_id=clock.boot_id(),
        passed=passed,
        words=words,
        checks=checks,
        requests=() if record is None else (record,),
        reserve=reserve,
        counters_before=before,
        counters_after=after,
        interrupted=not passed and (record is None or record.outcome == "cancelled"),
    )


def _target(load: Load) -> Target:
    settings = load.lane.profile.endpoint
    return Target(base_url=settings.base_url, model=settings.served_name, api_key_env=settings.api_key_env)


def _show(session: Session, vram: VramWatch | None, line: ProbeSized | ProbeProgress) -> None:
    """Put the progress of the open rung where the operator sees it."""
    if session.run is None or not isinstance(line, ProbeProgress):
        return
    session.run = LiveRun(
        run=session.run.run,
        target_tokens=session.run.target_tokens,
        phase=line.phase,
        since_us=line.sent_us or session.run.since_us,
        tokens=line.tokens,
        min_free_bytes=vram.window_minimum() if vram is not None else {},
    )


async def _counters(load: Load) -> Counters | None:
    """The engine's counters now; None where it serves no metrics."""
    try:
        return metrics.counters(await load.endpoint.metrics(), at=clock.utc_now(), now_us=clock.mono_us())
    except EndpointError:
        return None


async def _reserve(vram: VramWatch | None, record: RequestRecord | None, began_us: int) -> ReserveVerdict | None:
    if vram is None:
        return None
    sent = record.sent_us if record is not None and record.sent_us is not None else began_us
    ended = record.ended_us if record is not None and record.ended_us is not None else clock.mono_us()
    return await vram.judge_window(sent, ended)


async def _still_answers(session: Session, load: Load, rung: Rung) -> bool:
    """Whether the lane still makes one token; if not, it died at this rung and that is journalled."""
    try:
        await load.endpoint.one_token(load.lane.profile.endpoint.served_name, timeout_s=30.0)
    except EndpointError as error:
        words = f"{load.lane.name} died at {rung.target_tokens:,} tokens: {error}"
        session.event(LoadFailed(lane=load.lane.name, load_id=load.folder.load_id, words=words))
        return False
    return True


def _skip(session: Session, rungs: list[Rung], words: str) -> None:
    for rung in rungs:
        session.event(RunSkipped(what="rung", target_tokens=rung.target_tokens, words=words))
