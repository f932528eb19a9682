"""Runs on one load: each is announced, measured, judged and kept, whatever becomes of it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from msgspec.structs import replace

from anvil_tui import clock
from anvil_tui.campaigns.running.interrupts import Interrupt
from anvil_tui.campaigns.running.prefill_watch import PrefillWatch
from anvil_tui.campaigns.running.prober import Ask, Came, ProbeDied, Prober
from anvil_tui.campaigns.running.session import Session
from anvil_tui.campaigns.running.vram import VramWatch
from anvil_tui.campaigns.steps.load import Load, lane_gone
from anvil_tui.engines import metrics
from anvil_tui.engines.endpoint import EndpointError
from anvil_tui.errors import CannotRun
from anvil_tui.evidence.run_checks import measured, reserve_held
from anvil_tui.evidence.run_metrics import run_metrics
from anvil_tui.records.artifact import Check, Counters, RunArtifact
from anvil_tui.records.events import LoadFailed, RunFinished, RunInterrupted, RunSkipped, RunStarted
from anvil_tui.records.live import LiveRun
from anvil_tui.records.plan import CapacityPlan, PlannedLoad
from anvil_tui.records.probe import ProbeLine, ProbeObserved, ProbeProgress, ProbeRunning, Target
from anvil_tui.records.vram import ReserveVerdict

What = Literal["rung", "gate", "capacity"]

FATAL_OUTCOMES = frozenset({"http_error", "error_in_stream", "empty_stream", "disconnected", "timeout"})
"""After one of these more of the same would only fail the same way."""
_ESTIMATE_SECONDS = 0.25
_LAST_WORDS_SECONDS = 2.0
"""How long a connection to a dead lane may take to end by itself."""


@dataclass(frozen=True)
class Planned:
    """A run that is about to begin."""

    what: What
    ask: Ask
    judge: Callable[[Came, ReserveVerdict | None], tuple[Check, ...]]
    words: Callable[[Came, tuple[Check, ...], ReserveVerdict | None], str]
    target_tokens: int | None = None
    limit_tokens: int | None = None
    margin_tokens: int | None = None
    capacity: CapacityPlan | None = None


@dataclass(frozen=True)
class Kept:
    """A run that ended and is on disk."""

    run: str
    passed: bool
    came: Came
    fatal: str | None
    """The outcome that says that the lane cannot go on like this."""


class Measuring:
    """The runs of one load. `number` goes on over all of them: a run's name is never used twice."""

    def __init__(
        self, session: Session, load: Load, vram: VramWatch | None, number: int, planned: PlannedLoad | None = None
    ) -> None:
        self.session = session
        self.planned = planned
        self.load = load
        self.vram = vram
        self.number = number
        self.prober = Prober()
        self.reserve_held = True
        """Whether every run so far kept the reserve, where the policy asks for it."""
        self._prefill = PrefillWatch(load.endpoint)

    @property
    def target(self) -> Target:
        settings = self.load.lane.profile.endpoint
        return Target(base_url=settings.base_url, model=settings.served_name, api_key_env=settings.api_key_env)

    def nonce(self, place: str) -> str:
        """The nonce of a request: the block and its place in the load decide it, not the arm."""
        return self.session.nonce(place if self.planned is None else f"block-{self.planned.block}/{place}")

    def next_run(self) -> str:
        """The name of the run that comes next."""
        return f"{self.load.lane.name}-r{self.number + 1}"

    def check_interrupts(self) -> None:
        """Between two runs: raise what is pending; a skip that came here skips nothing."""
        interrupts = self.session.interrupts
        interrupts.clear_skip()
        if interrupts.stop_after_request:
            interrupts.strike(Interrupt("stop_now", "the operator asked to stop after the open request"))
        if interrupts.pending is not None:
            raise interrupts.pending

    async def measure(self, planned: Planned) -> Kept | None:
        """Measure one run and keep its artifact. None where the measuring child died or the operator skipped it.

        Raises Interrupt where the campaign must end; the run is then kept as far as it got.
        """
        session, load, ask = self.session, self.load, planned.ask
        self.number += 1
        session.step = f"{ask.id}: {planned.what}"
        session.event(
            RunStarted(lane=load.lane.name, run=ask.id, what=planned.what, target_tokens=planned.target_tokens)
        )
        started_at, began_us = clock.utc_now(), clock.mono_us()
        before = await self.counters()
        if self.vram is not None:
            self.vram.begin_window()
        session.run = LiveRun(run=ask.id, target_tokens=planned.target_tokens, phase="sizing", since_us=began_us)
        measuring = asyncio.ensure_future(self.prober.measure(ask, self._show))
        prefill = None
        if planned.what == "rung" and planned.target_tokens is not None:
            prefill = asyncio.create_task(self._watch_prefill(planned.target_tokens))
        interrupt: Interrupt | None = None
        came, died = Came(), ""
        try:
            await session.interrupts.until(measuring)
            came = measuring.result()
        except Interrupt as struck:
            interrupt = struck
            came = await self._after_interrupt(struck, measuring, ask.id)
        except (ProbeDied, CannotRun) as error:
            died = str(error)
        finally:
            session.run = None
            if prefill is not None:
                prefill.cancel()
        self._learn(came)
        reserve = await self._reserve(came, began_us)
        after = None if interrupt else await self.counters()
        # A run in which the lane died is a failed run: what the lane could not bear is a finding.
        lane_died = interrupt is not None and interrupt.kind == "lane_died" and bool(came.requests)
        cut_short = "" if lane_died else str(interrupt) if interrupt else died
        checks = planned.judge(came, reserve) if came.requests else ()
        passed = not cut_short and not lane_died and measured(checks)
        self.reserve_held = self.reserve_held and reserve_held(checks)
        artifact = RunArtifact(
            nonce=secrets.token_hex(16),
            rehearsal=load.lane.rehearsal,
            campaign_id=session.plan.campaign_id,
            run=ask.id,
            what=planned.what,
            lane=load.observed(),
            target_tokens=planned.target_tokens,
            limit_tokens=planned.limit_tokens,
            started_at=started_at,
            finished_at=clock.utc_now(),
            boot_id=clock.boot_id(),
            passed=passed,
            words=cut_short or planned.words(came, checks, reserve),
            checks=checks,
            requests=came.requests,
            reserve=reserve,
            counters_before=came.capacity.counters_before if came.capacity else before,
            counters_after=came.capacity.counters_after if came.capacity else after,
            interrupted=bool(cut_short),
            arm=self.planned.arm if self.planned else None,
            block=self.planned.block if self.planned else None,
            margin_tokens=planned.margin_tokens,
            wall_clock_ms=came.capacity.wall_clock_ms if came.capacity else None,
            warmup=came.warmup,
            capacity=planned.capacity,
            gate=came.gate,
            metrics=run_metrics(came.requests, wall_ms=came.capacity.wall_clock_ms if came.capacity else None),
        )
        self._keep(artifact)
        if interrupt is not None and interrupt.kind != "skip_rung":
            raise interrupt
        if cut_short:
            return None
        fatal = next((record.outcome for record in came.requests if record.outcome in FATAL_OUTCOMES), None)
        return Kept(ask.id, passed, came, fatal)

    async def after_fatal(self, kept: Kept, words: str) -> str:
        """What a fatal outcome means: raises Interrupt where the lane died, else says whether it still answers."""
        if await lane_gone(self.load):
            raise await self.session.interrupts.struck()
        try:
            await self.load.endpoint.one_token(self.load.lane.profile.endpoint.served_name, timeout_s=30.0)
        except EndpointError as error:
            died = f"{self.load.lane.name} died in {kept.run} ({words}): {error}"
            self.session.event(LoadFailed(lane=self.load.lane.name, load_id=self.load.folder.load_id, words=died))
            return f"{self.load.lane.name} no longer answers"
        return f"{kept.run} ({words}) ended with {kept.fatal}"

    def skip(self, what: What, target_tokens: int | None, words: str) -> None:
        """Say that a planned run is not begun."""
        self.session.event(RunSkipped(what=what, target_tokens=target_tokens, words=words))

    async def counters(self) -> Counters | None:
        """The engine's counters now; None where it serves no metrics."""
        try:
            text = await self.load.endpoint.metrics()
        except EndpointError:
            return None
        return metrics.counters(text, at=clock.utc_now(), now_us=clock.mono_us())

    def _keep(self, artifact: RunArtifact) -> None:
        path = f"runs/{artifact.run}.json"
        sha256, size = self.session.write_artifact(path, artifact)
        if artifact.interrupted:
            event = RunInterrupted(run=artifact.run, words=artifact.words, path=path, sha256=sha256, bytes=size)
            self.session.event(event)
            return
        failures = [record.outcome for record in artifact.requests if record.outcome not in ("ok", "truncated")]
        self.session.event(
            RunFinished(
                run=artifact.run,
                path=path,
                sha256=sha256,
                bytes=size,
                passed=artifact.passed,
                outcome=failures[0] if failures else "ok" if artifact.passed else "failed",
                reserve=artifact.reserve.verdict if artifact.reserve else None,
                words=artifact.words,
            )
        )

    def _learn(self, came: Came) -> None:
        """Let the watch learn from a rung that gave output."""
        for record in came.requests[:1]:
            if record.sent_us is not None and record.time_to_first_output_ms is not None:
                first_us = record.sent_us + round(1000 * record.time_to_first_output_ms)
                self._prefill.learn(record.prompt_tokens, first_us)

    async def _after_interrupt(self, interrupt: Interrupt, measuring: asyncio.Future[Came], id: str) -> Came:
        """What a run that was cut short had measured: its own end where the lane died, else as far as it had got."""
        if interrupt.kind == "lane_died":
            await asyncio.wait({measuring}, timeout=_LAST_WORDS_SECONDS)
            if measuring.done() and measuring.exception() is None:
                return measuring.result()
        measuring.cancel()
        return await self.prober.cancel(id)

    async def _reserve(self, came: Came, began_us: int) -> ReserveVerdict | None:
        """The reserve from the first request sent to the last one ended."""
        if self.vram is None:
            return None
        sent = [record.sent_us for record in came.requests if record.sent_us is not None]
        ended = [record.ended_us for record in came.requests if record.ended_us is not None]
        return await self.vram.judge_window(min(sent, default=began_us), max(ended, default=clock.mono_us()))

    async def _watch_prefill(self, target_tokens: int) -> None:
        """Keep the estimate of the open rung's prefill where the operator sees it, until cancelled."""
        reading = asyncio.create_task(self._prefill.read_on())
        try:
            while True:
                await asyncio.sleep(_ESTIMATE_SECONDS)
                run = self.session.run
                if run is None or run.phase != "prefill":
                    continue
                now = self._prefill.estimate(target_tokens)
                self.session.run = replace(
                    run,
                    prefill_pct=None if now.share is None else 100 * now.share,
                    prefill_tok_s=now.tok_s,
                    left_s=now.left_s,
                    still_s=now.still_s,
                    words=None if now.verdict in ("moving", "unknown") else now.verdict,
                )
        finally:
            reading.cancel()

    def _show(self, line: ProbeLine) -> None:
        """Put the progress of the open run where the operator sees it."""
        run = self.session.run
        if run is None:
            return
        run = replace(run, min_free_bytes=self.vram.window_minimum() if self.vram is not None else {})
        match line:
            case ProbeProgress():
                kept = run if line.phase == "prefill" else _without_prefill(run)
                since = line.sent_us or run.since_us
                self.session.run = replace(kept, phase=line.phase, since_us=since, tokens=line.tokens)
            case ProbeRunning():
                words = f"{line.step}: {line.finished} done, {line.failed} failed, {line.open} open"
                self.session.run = replace(run, phase="answer", words=words, tokens=line.tokens)
            case ProbeObserved(observation=seen):
                word = "passed" if seen.passed else "failed"
                self.session.run = replace(run, phase="answer", words=f"{seen.check} {seen.request_index + 1}: {word}")


def _without_prefill(run: LiveRun) -> LiveRun:
    """The prefill is over: its figures are no longer those of this moment."""
    return replace(run, prefill_pct=None, prefill_tok_s=None, left_s=None, still_s=None, words=None)
