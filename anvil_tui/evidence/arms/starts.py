"""Questions to an arm's starts: KV, activation, and words that the log says."""

from __future__ import annotations

from anvil_tui.records.arm import Arm, LoadStart
from anvil_tui.records.startup_report import StartupReport


def told(start: StartupReport, name: str) -> str | float | int | None:
    """A word or figure that the log says beside the named ones; None where it does not."""
    if name in start.facts:
        return start.facts[name].value
    return start.figures[name].value if name in start.figures else None


def speculation_method(start: StartupReport) -> str | None:
    """The method by which the start speculates; empty where it says that it does not, None where it says nothing."""
    method = told(start, "speculation_method")
    if isinstance(method, str):
        return method
    return "" if told(start, "speculation_asked") == "None" else None


def kv_ranks(start: StartupReport) -> dict[str, float]:
    """KV memory in GiB by rank. vLLM tells what is available for one rank only, and what is in use for every one."""
    ranks = {**start.kv_in_use_gib, **start.kv_available_gib}
    return {rank: figure.value for rank, figure in ranks.items()}


def last_start(arm: Arm) -> LoadStart | None:
    """The latest start of an arm."""
    return arm.starts[-1] if arm.starts else None


def kv_gib(start: LoadStart | None) -> float | None:
    """KV memory of the smallest rank in GiB."""
    if start is None:
        return None
    return min(kv_ranks(start.report).values(), default=None)


def peak_activation(start: LoadStart | None) -> float | None:
    """Profiled peak activation of the largest rank in GiB."""
    ranks = start.report.peak_activation_gib if start is not None else {}
    return max((figure.value for figure in ranks.values()), default=None)


def kv_figures(start: LoadStart) -> tuple[float | None, float | None, float | None]:
    """GiB, tokens and concurrency as the start reported them."""
    report = start.report
    return (
        kv_gib(start),
        report.kv_tokens.value if report.kv_tokens else None,
        report.max_concurrency.value if report.max_concurrency else None,
    )


def difference(old: float | None, new: float | None) -> float | None:
    """new − old, cleaned of floating-point dust; None where one is unknown."""
    return None if old is None or new is None else round(new - old, 9)
