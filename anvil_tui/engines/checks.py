"""Sums that must hold if a start-up log was read right."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from anvil_tui.records.startup_report import Figure, IdentityCheck, StartupReport

ROUNDING = 0.005
"""Half of the last digit of a figure with two decimals."""


def identities(report: StartupReport) -> StartupReport:
    """The report with its identity checks: one per rank and rule whose every figure the log holds."""
    return structs.replace(report, checks=tuple(_checks(report)))


def _checks(report: StartupReport) -> Iterator[IdentityCheck]:
    for rank in report.desired_gib:
        yield from _budget(report, rank)
    for rank, after in report.groups.get("load_end_avail_gib", {}).items():
        begin, used = _of(report, "load_begin_avail_gib", rank), report.weights_gib.get(rank)
        yield from _difference("free before load − weights = free after load", rank, (begin, used), after)
    for rank, after in report.groups.get("graph_end_avail_gib", {}).items():
        begin, used = _of(report, "graph_begin_avail_gib", rank), report.cuda_graph_gib.get(rank)
        yield from _difference("free before capture − graphs = free after capture", rank, (begin, used), after)
    total = report.figures.get("kv_mib")
    parts = (report.figures.get("k_mib"), report.figures.get("v_mib"))
    if total is not None and all(parts):
        yield from _difference("KV − K − V = 0", "", (total, *parts), 0.0)


def _budget(report: StartupReport, rank: str) -> Iterator[IdentityCheck]:
    """What the engine wanted, less what it spent, is what it left for KV; in the three ways that vLLM says it."""
    desired, peak = report.desired_gib[rank], report.peak_activation_gib.get(rank)
    available = report.kv_available_gib.get(rank) or report.kv_in_use_gib.get(rank)
    if available is None:
        return
    if consumed := report.consumed_gib.get(rank):
        # Here the peak already includes the CUDA-graph estimate.
        yield from _difference("desired − consumed − peak = available", rank, (desired, consumed, peak), available)
    elif torch := _of(report, "peak_torch_gib", rank):
        # V0 0.6.3 and 0.6.4: the torch peak includes the weights.
        spent = (desired, torch, report.non_torch_gib.get(rank))
        yield from _difference("desired − torch peak − non-torch = available", rank, spent, available)
    else:
        parts = (desired, report.weights_gib.get(rank), peak, report.non_torch_gib.get(rank))
        if graphs := report.cuda_graph_estimated_gib.get(rank):
            rule = "desired − weights − peak − non-torch − graphs = available"
            yield from _difference(rule, rank, (*parts, graphs), available)
        else:
            yield from _difference("desired − weights − peak − non-torch = available", rank, parts, available)


def _of(report: StartupReport, group: str, rank: str) -> Figure | None:
    return report.groups.get(group, {}).get(rank)


def _difference(
    rule: str, rank: str, spent: tuple[Figure | None, ...], right: Figure | float
) -> Iterator[IdentityCheck]:
    """First figure less the others against `right`, within their rounding; nothing where one is missing."""
    if any(figure is None for figure in spent):
        return
    first, *others = (figure.value for figure in spent if figure is not None)
    left = round(first - sum(others), 4)
    value = right.value if isinstance(right, Figure) else right
    holds = abs(left - value) <= ROUNDING * (len(spent) + 1) + 1e-9
    yield IdentityCheck(rule=rule, rank=rank, left=left, right=float(value), holds=holds)
