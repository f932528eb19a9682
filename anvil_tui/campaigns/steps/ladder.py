"""The ladder: one streamed request a rung, its prompt exact to the token, its GPU memory watched."""

from __future__ import annotations

from anvil_tui.campaigns.running.interrupts import Interrupt
from anvil_tui.campaigns.running.prober import Came
from anvil_tui.campaigns.steps.gate import run_gate
from anvil_tui.campaigns.steps.measuring import Kept, Measuring, Planned
from anvil_tui.campaigns.steps.rungs import Rung, check_targets, limit_tokens, rungs_of
from anvil_tui.errors import CannotRun
from anvil_tui.evidence.run_checks import judge_rung, rung_words
from anvil_tui.probes.ladder import Bisection
from anvil_tui.probes.prefill import deadline_s, fit
from anvil_tui.records.artifact import Check
from anvil_tui.records.events import PlanRefused
from anvil_tui.records.plan import LadderPlan
from anvil_tui.records.probe import Deadlines, MeasureRung
from anvil_tui.records.vram import ReserveVerdict


class Ladder:
    """The rungs of one plan on one load."""

    def __init__(self, measuring: Measuring, plan: LadderPlan) -> None:
        self._measuring = measuring
        self._plan = plan
        self._limit = limit_tokens(measuring.load.answer.max_model_len, plan.max_tokens, plan.margin)
        self._times: list[tuple[int, float]] = []
        """Prompt tokens and seconds to first output of finished rungs: what deadlines are predicted from."""

    async def climb(self, done: int = 0) -> bool:
        """Measure the rungs from number `done` on. Returns whether all of them passed.

        Raises CannotRun where a target does not fit what was observed, Interrupt where the campaign ends early.
        """
        measuring, plan = self._measuring, self._plan
        try:
            check_targets(measuring.load.lane.name, measuring.load.answer.max_model_len, plan.targets, plan, "observed")
        except CannotRun as refused:
            measuring.session.event(PlanRefused(words=str(refused)))
            raise
        passed = await (self._bisect(done) if plan.bisect_tolerance else self._in_order(rungs_of(plan)[done:]))
        if plan.post_gate is not None:
            passed = await run_gate(measuring, plan.post_gate, "post") and passed
        return passed

    async def _in_order(self, rungs: tuple[Rung, ...]) -> bool:
        passed = True
        for position, rung in enumerate(rungs):
            try:
                self._measuring.check_interrupts()
            except Interrupt as interrupt:
                self._skip(rungs[position:], str(interrupt))
                raise
            try:
                kept = await self._measure(rung)
                ended = await self._fatal(kept, rung)
            except Interrupt as interrupt:
                self._skip(rungs[position + 1 :], str(interrupt))
                raise
            passed = passed and kept is not None and kept.passed
            if ended:
                self._skip(rungs[position + 1 :], ended)
                return False
        return passed

    async def _bisect(self, done: int) -> bool:
        """Search the longest prompt that this lane serves. A search that was cut off begins anew."""
        limit = self._limit
        if limit is None:
            raise CannotRun("the lane does not say its max_model_len: there is no upper end to search up to")
        search = Bisection(low=self._plan.targets[0], high=limit, tolerance=self._plan.bisect_tolerance or 1)
        number = done
        while (target := search.next) is not None:
            self._measuring.check_interrupts()
            rung = Rung(number, target)
            kept = await self._measure(rung)
            served = kept is not None and kept.fatal is None and not _missed(kept)
            search = search.tried(target, served=served)
            self._measuring.session.step = search.words
            if kept is not None and kept.fatal and "no longer answers" in await self._fatal(kept, rung):
                return False
            number += 1
        return search.passed is not None

    async def _measure(self, rung: Rung) -> Kept | None:
        plan, measuring = self._plan, self._measuring
        patience = deadline_s(rung.target_tokens, fit(self._times))
        ask = MeasureRung(
            id=measuring.next_run(),
            target=measuring.target,
            request_index=rung.number,
            target_tokens=rung.target_tokens,
            max_tokens=plan.max_tokens,
            limit_tokens=self._limit,
            reasoning_effort=plan.reasoning_effort,
            nonce=measuring.nonce(f"rung-{rung.number}"),
            needle_depth=rung.needle_depth,
            deadlines=Deadlines(first_token_s=patience),
        )

        def judge(came: Came, reserve: ReserveVerdict | None) -> tuple[Check, ...]:
            return judge_rung(came.requests[0], rung.target_tokens, reserve)

        def words(came: Came, checks: tuple[Check, ...], reserve: ReserveVerdict | None) -> str:
            return rung_words(came.requests[0], checks, reserve) if came.requests else "no record"

        kept = await measuring.measure(
            Planned(
                what="rung",
                ask=ask,
                judge=judge,
                words=words,
                target_tokens=rung.target_tokens,
                limit_tokens=self._limit,
                margin_tokens=plan.margin,
            )
        )
        if kept is not None and (first := kept.came.requests[0].time_to_first_output_ms) is not None:
            self._times.append((rung.target_tokens, first / 1000))
        return kept

    async def _fatal(self, kept: Kept | None, rung: Rung) -> str:
        """Why the rungs above are not tried; empty where they are."""
        if kept is None or kept.fatal is None:
            return ""
        return await self._measuring.after_fatal(kept, f"{rung.target_tokens:,} tokens")

    def _skip(self, rungs: tuple[Rung, ...], words: str) -> None:
        for rung in rungs:
            self._measuring.skip("rung", rung.target_tokens, words)


def _missed(kept: Kept) -> bool:
    """Whether the prompt was not served whole: rejected, or counted otherwise than it was sized."""
    record = kept.came.requests[0]
    return record.outcome in ("rejected_too_long", "not_sent") or record.prompt_tokens is None
