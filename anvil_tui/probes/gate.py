"""The functional gate: runs the checks and judges their observations together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from anvil_tui.clock import utc_now
from anvil_tui.probes.checks import Gate
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.probes.client.reading import spared
from anvil_tui.records.gate import EvidencePolicy, GateCheck, GateCheckName, GateObservation, GateResult
from anvil_tui.records.probe import MeasureGate


async def measure_gate(ask: MeasureGate, watch: HostWatch, observe: Callable[[GateObservation], None]) -> GateResult:
    """Run the checks of `ask` in order, all of them, whatever fails. Raises CannotRun without the API key."""
    started_at = utc_now()
    gate = Gate(ask, watch, observe)
    interrupted = False
    for check in ask.checks:
        try:
            await gate.run(check)
        except asyncio.CancelledError:
            spared()
            interrupted = True
        if interrupted or any(one.record and one.record.outcome == "cancelled" for one in gate.observations):
            interrupted = True
            break
    checks = tuple(judge_check(check, gate.observations) for check in ask.checks)
    errors = tuple(policy_errors(ask.policy, ask.checks, gate.observations))
    return GateResult(
        started_at=started_at,
        finished_at=utc_now(),
        model=ask.target.model,
        reasoning_effort=ask.reasoning_effort,
        budget=ask.budget,
        tool_batch=ask.tool_batch,
        policy=ask.policy,
        checks=checks,
        observations=tuple(gate.observations),
        policy_errors=errors,
        passed=not interrupted and not errors and all(check.passed for check in checks),
        interrupted=interrupted,
    )


def judge_check(name: GateCheckName, observations: Sequence[GateObservation]) -> GateCheck:
    """A check passes when it was made and every observation of it passed."""
    made = [one for one in observations if one.check == name]
    failed = [one for one in made if not one.passed]
    if not made:
        return GateCheck(name=name, passed=False, words="not made")
    if not failed:
        return GateCheck(name=name, passed=True, words=f"{len(made)} of {len(made)} as expected")
    words = f"{len(failed)} of {len(made)} failed; first: {failed[0].words}"
    return GateCheck(name=name, passed=False, words=words)


def policy_errors(
    policy: EvidencePolicy, checks: Sequence[GateCheckName], observations: Sequence[GateObservation]
) -> Iterator[str]:
    """How the observations break the policy: finish reasons that are not allowed, reasoning missing or unwanted."""
    for one in observations:
        reason = one.record.finish_reason if one.record else None
        if reason is not None and reason not in policy.allowed_finish_reasons:
            allowed = ", ".join(policy.allowed_finish_reasons)
            yield f"{one.check} #{one.request_index}: finish reason {reason!r}; allowed: {allowed}"
    if policy.reasoning == "any":
        return
    scopes = [list(checks)] if policy.reasoning_scope == "gate" else [[check] for check in checks]
    for scope in scopes:
        where = "the gate" if policy.reasoning_scope == "gate" else scope[0]
        shown = [one for one in observations if one.check in scope and reasoned(one)]
        if policy.reasoning == "required" and not shown:
            yield f"reasoning is required, and no observation of {where} shows any"
        if policy.reasoning == "forbidden" and shown:
            yield f"reasoning is forbidden, and {len(shown)} observations of {where} show some"


def reasoned(observation: GateObservation) -> bool:
    """Whether an observation shows reasoning: as text, or as tokens that the engine counted."""
    tokens = observation.record.reasoning_tokens if observation.record else None
    return observation.reasoning_chars > 0 or bool(tokens)
