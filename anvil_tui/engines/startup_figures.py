"""A start-up report as flat figures: what `read-log --json` prints, and the line behind each figure."""

from __future__ import annotations

from typing import Any

from anvil_tui.records.startup_report import Figure, Source, StartupReport

SCALARS = ("max_model_len", "kv_tokens", "max_concurrency", "engine_init_seconds", "compile_seconds")
RANKED = (
    "kv_available_gib",
    "kv_in_use_gib",
    "weights_gib",
    "consumed_gib",
    "peak_activation_gib",
    "non_torch_gib",
    "cuda_graph_gib",
    "cuda_graph_estimated_gib",
    "weights_load_seconds",
    "model_load_seconds",
)
WITH_MESSAGE = frozenset({"engine_dead", "engine_failed", "worker_died", "exception", "exited", "scheduler_died"})
"""Kinds of failure whose words are all that is known."""


def flat(report: StartupReport) -> dict[str, Any]:
    """The figures of a report by name: numbers, or a dict by rank where the log says so; null where it does not."""
    figures: dict[str, Any] = {"state": report.state, "ranks": report.ranks, "failure": _failure(report)}
    for name in SCALARS:
        figure = getattr(report, name)
        figures[name] = figure.value if figure is not None else _values(report.groups.get(name, {}))
    for name in RANKED:
        figures[name] = _values(getattr(report, name))
    figures["kv_pool_gb"] = _values(report.kv_pool_gib)
    figures["n_ctx"] = report.figures["n_ctx"].value if "n_ctx" in report.figures else None
    figures["extra"] = {
        **{name: figure.value for name, figure in report.figures.items() if name != "n_ctx"},
        **{name: _values(group) for name, group in report.groups.items() if name not in SCALARS},
    }
    return figures


def sources(report: StartupReport) -> dict[str, tuple[Source, ...]]:
    """The lines behind each figure of `flat`, by the figure's name, with its rank or part behind a dot."""
    found: dict[str, tuple[Source, ...]] = {}
    for name in SCALARS:
        if (figure := getattr(report, name)) is not None:
            found[name] = _lines(figure)
    groups = {name: getattr(report, name) for name in RANKED} | {"kv_pool_gb": report.kv_pool_gib} | report.groups
    for name, group in groups.items():
        found |= {f"{name}.{rank}": _lines(figure) for rank, figure in group.items()}
    found |= {name: _lines(figure) for name, figure in report.figures.items()}
    if report.failure is not None:
        found["failure"] = (report.failure.source,)
    return found


def _failure(report: StartupReport) -> dict[str, Any] | None:
    failure = report.failure
    if failure is None:
        return None
    words = {"message": failure.message} if failure.kind in WITH_MESSAGE else {}
    return {"kind": failure.kind, **words, **failure.figures}


def _values(group: dict[str, Figure]) -> dict[str, float | int] | None:
    return {rank: figure.value for rank, figure in group.items()} or None


def _lines(figure: Figure) -> tuple[Source, ...]:
    return (figure.source, *figure.also)
