"""`ladder`, `gate`, `capacity`, `probe`."""

from __future__ import annotations

import asyncio
import secrets
from argparse import Namespace
from urllib.parse import urlsplit

import msgspec

from anvil_tui import exit_codes
from anvil_tui.campaigns import preflight, sealing
from anvil_tui.campaigns.begin import begin
from anvil_tui.campaigns.running.prober import Came, Prober
from anvil_tui.cli.following import follow_campaign
from anvil_tui.cli.output import Output
from anvil_tui.errors import BadInput, Fault
from anvil_tui.lanes.profile import Lane, find_lane
from anvil_tui.locations import Locations
from anvil_tui.probes.ladder import geometric
from anvil_tui.records.gate import EvidencePolicy, GateBudget
from anvil_tui.records.plan import CapacityPlan, GatePlan, LadderPlan, MeasurePlan
from anvil_tui.records.probe import Deadlines, ProbeUrl, Target
from anvil_tui.records.request import RequestRecord


def ladder(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Plan a ladder, refuse what cannot work, start it and follow it."""
    lane = find_lane(arguments.lane, locations)
    defaults = lane.profile.endpoint
    targets, tolerance = _targets(arguments)
    effort = arguments.reasoning_effort or defaults.reasoning_effort
    plan = LadderPlan(
        targets=targets,
        max_tokens=arguments.max_tokens or defaults.max_tokens,
        margin=defaults.margin if arguments.margin is None else arguments.margin,
        reasoning_effort=effort,
        repetitions=arguments.repetitions,
        bisect_tolerance=tolerance,
        needle_depths=arguments.needle,
        post_gate=GatePlan(reasoning_effort=effort) if arguments.post_gate else None,
    )
    return _run(arguments, locations, output, lane, plan)


def gate(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Run the functional checks on a lane."""
    lane = find_lane(arguments.lane, locations)
    needle = arguments.needle_tokens
    if ("needle" in arguments.checks) != (needle is not None):
        raise BadInput("gate", Fault("--needle-tokens", str(needle), "a prompt length, together with the check needle"))
    plan = GatePlan(
        checks=arguments.checks,
        tool_batch=arguments.tool_batch,
        budget=GateBudget(
            visible_answer_tokens=arguments.visible_tokens, reasoning_headroom_tokens=arguments.reasoning_tokens
        ),
        policy=EvidencePolicy(reasoning=arguments.reasoning, reasoning_scope=arguments.reasoning_scope),
        reasoning_effort=arguments.reasoning_effort or lane.profile.endpoint.reasoning_effort,
        needle_tokens=needle,
    )
    return _run(arguments, locations, output, lane, plan)


def capacity(arguments: Namespace, locations: Locations, output: Output) -> int:
    """Measure runs of equal requests, so many at a time."""
    lane = find_lane(arguments.lane, locations)
    defaults = lane.profile.endpoint
    plan = CapacityPlan(
        context_tokens=arguments.context,
        max_tokens=arguments.max_tokens or defaults.max_tokens,
        margin=defaults.margin if arguments.margin is None else arguments.margin,
        reasoning_effort=arguments.reasoning_effort or defaults.reasoning_effort,
        concurrency=arguments.concurrency,
        requests=arguments.requests,
        runs=arguments.runs,
        extra_runs=arguments.extra_runs,
        warmup_requests=arguments.warmup,
        prefix="shared" if arguments.shared_prefix else "nonce",
        shared_prefix_tokens=arguments.shared_prefix,
        output_length="fixed" if arguments.fixed_output else "natural",
        arrivals_per_s=arguments.rate,
    )
    return _run(arguments, locations, output, lane, plan)


def probe(arguments: Namespace, _: Locations, output: Output) -> int:
    """One measured request to any OpenAI-compatible server; exit 1 where its outcome is not good."""
    parts = urlsplit(arguments.url)
    if parts.scheme not in ("http", "https") or not parts.hostname or not parts.path.rstrip("/").endswith("/v1"):
        raise BadInput("probe", Fault("URL", arguments.url, "one ending in /v1, http://127.0.0.1:8000/v1 say"))
    ask = ProbeUrl(
        id="probe",
        target=Target(
            base_url=arguments.url.rstrip("/").removesuffix("/v1"),
            model=arguments.model,
            api_key_env=arguments.api_key_env,
        ),
        prompt_tokens=arguments.prompt_tokens,
        max_tokens=arguments.max_tokens,
        reasoning_effort=arguments.reasoning_effort,
        nonce=secrets.token_hex(16),
        deadlines=Deadlines(total_s=arguments.timeout),
    )
    (record,) = asyncio.run(_probe(ask)).requests
    for name, value in _shown(record):
        output.line(f"{name:<26} {value}")
    output.document("anvil-cli-probe/v1", msgspec.to_builtins(record))
    return exit_codes.GOOD if record.outcome == "ok" else exit_codes.CHECK_FAILED


async def _probe(ask: ProbeUrl) -> Came:
    """The request is made by the same child that campaigns measure with."""
    prober = Prober()
    await prober.start()
    try:
        return await prober.measure(ask, lambda _: None)
    finally:
        await prober.end()


def _shown(record: RequestRecord) -> list[tuple[str, str]]:
    """What a person reads of a record: no empty lists, no raw arrivals, unknown as n/a."""
    left_out = ("arrivals_us", "content", "reasoning", "body_sha256", "nonce", "sizing", "error", "request_index")
    rows = []
    for name, value in msgspec.to_builtins(record).items():
        if name in left_out or value == []:
            continue
        shown = "n/a" if value is None else f"{value:,.3f}" if isinstance(value, float) else str(value)
        rows.append((name, shown))
    if record.error is not None:
        rows.append(("error", record.error.message))
    return rows


def _targets(arguments: Namespace) -> tuple[tuple[int, ...], int | None]:
    """The targets of a ladder, and the tolerance where their end is searched."""
    if arguments.bisect is not None:
        first, tolerance = arguments.bisect
        return (first,), tolerance
    if arguments.geometric is not None:
        first, last, factor = arguments.geometric
        return geometric(first, last, factor), None
    return arguments.targets, None


def _run(arguments: Namespace, locations: Locations, output: Output, lane: Lane, plan: MeasurePlan) -> int:
    if arguments.seal:
        sealing.choose_key(locations, unattended=True)
    preflight.check_measuring(lane, plan, locations, up=arguments.up)
    return follow_campaign(begin(locations, lane, plan, up=arguments.up, seal=arguments.seal), output)
