"""KV reports from what engines leave behind, and the verb `explain-kv`: files in, a document out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from anvil_tui.engines.metrics import cache_config
from anvil_tui.engines.startup_log import StartupLog
from anvil_tui.errors import BadInput, Fault
from anvil_tui.evidence.arms.inputs import STARTUP, InputFile, label_files, list_files, load_data
from anvil_tui.evidence.arms.starts import kv_ranks, speculation_method, told
from anvil_tui.evidence.kv.change import explain_change
from anvil_tui.evidence.kv.explanation import explain
from anvil_tui.records.kv_explanation import KvReport
from anvil_tui.records.lane import LaneProfile, Recipe
from anvil_tui.records.startup_report import Figure, StartupReport
from anvil_tui.records.validation import convert, read_bytes, read_toml

SCHEMA = "anvil-kv-explanation/v1"


def explain_kv(paths: Sequence[Path], at: int | None = None) -> dict[str, Any]:
    """Explain every KV report in these files; with `at`, predict it at that context length in tokens.

    Files: start-up reports, raw logs, `/metrics` texts, campaign folders, bundles; a lane profile among them says what
    the starts do not. The first report is the baseline of the changes. Raises BadInput.
    """
    if at is not None and at < 1:
        raise BadInput("--at", Fault("tokens", str(at), "a whole number above 0"))
    reports = [report for path in paths for report in _reports(path, paths)]
    if not reports:
        raise BadInput(", ".join(map(str, paths)), Fault("files", "no KV report in them", "a start-up report or log"))
    explained = [explain(report, at) for report in reports]
    changes = [explain_change(explained[0], other) for other in explained[1:]]
    return {
        "schema": SCHEMA,
        "at": at,
        "reports": msgspec.to_builtins(explained),
        "changes": msgspec.to_builtins(changes),
    }


def report_of_start(path: str, start: StartupReport, profile: LaneProfile | None = None) -> KvReport:
    """The KV figures of a start; the profile says what the log does not."""
    recipe = profile.recipe if profile else None
    identity = profile.identity if profile else None
    version = start.engine_version.value if start.engine_version else None
    ranks = kv_ranks(start) or {rank: figure.value for rank, figure in start.kv_pool_gib.items()}
    method = speculation_method(start)
    if method is None and recipe is not None:
        method = recipe.speculation.method if recipe.speculation else ""
    declared_build = (identity.runtime or identity.engine_revision) if identity else None
    return KvReport(
        path=path,
        source="log",
        engine=start.engine,
        engine_version=declared_build or version,
        model=identity.model if identity else _text(told(start, "model")),
        max_model_len=_whole(start.max_model_len) or (recipe.max_model_len if recipe else None),
        max_num_batched_tokens=_number(told(start, "max_num_batched_tokens"))
        or (recipe.max_num_batched_tokens if recipe else None),
        speculation=method,
        async_scheduling=_async_scheduling(told(start, "async_scheduling"), recipe),
        pipeline_parallel_size=_number(told(start, "pipeline_parallel_size")),
        context_parallel_size=_number(told(start, "decode_context_parallel_size")),
        available_gib=min(ranks.values(), default=None),
        tokens=_whole(start.kv_tokens),
        concurrency=start.max_concurrency.value if start.max_concurrency else None,
        num_blocks=_number(told(start, "num_gpu_blocks")),
        block_size=_number(told(start, "block_size")) or _number(told(start, "tokens_per_block")),
    )


def report_of_metrics(path: str, text: str, profile: LaneProfile | None = None) -> KvReport | None:
    """The KV figures of a `/metrics` text; None where the engine tells no block count."""
    labels = cache_config(text)
    blocks = _number(labels.get("num_gpu_blocks"))
    if blocks is None:
        return None
    recipe = profile.recipe if profile else None
    identity = profile.identity if profile else None
    tokens = _number(labels.get("kv_cache_size_tokens"))
    concurrency = _real(labels.get("kv_cache_max_concurrency"))
    method = None if recipe is None else recipe.speculation.method if recipe.speculation else ""
    return KvReport(
        path=path,
        source="metrics",
        engine=identity.engine if identity else None,
        engine_version=identity.runtime or identity.engine_revision if identity else None,
        model=identity.model if identity else None,
        max_model_len=_length(tokens, concurrency) or (recipe.max_model_len if recipe else None),
        max_num_batched_tokens=recipe.max_num_batched_tokens if recipe else None,
        speculation=method,
        async_scheduling=_async_scheduling(None, recipe),
        tokens=tokens,
        concurrency=concurrency,
        num_blocks=blocks,
        block_size=_number(labels.get("block_size")),
    )


def _reports(path: Path, among: Sequence[Path]) -> Iterator[KvReport]:
    files = list(list_files([path]))
    labels = label_files(files)
    profiles = [one for one in files if one.path.suffix == ".toml"]
    loose = [one for one in among if one.is_file() and one.suffix == ".toml"]
    for one in files:
        if one.root is not None and one.path.parent.name != "startup":
            continue
        if one.path.suffix == ".toml":
            continue
        profile = _profile_for(one, [one.path for one in profiles] or loose)
        report = _report(one, labels[one.path], profile)
        if report is not None:
            yield report


def _profile_for(one: InputFile, profiles: Sequence[Path]) -> LaneProfile | None:
    """The profile whose lane the file is called after, or the only one there is."""
    named = [path for path in profiles if one.path.name.startswith(path.stem)]
    chosen = max(named, key=lambda path: len(path.stem), default=profiles[0] if len(profiles) == 1 else None)
    return read_toml(LaneProfile, chosen) if chosen is not None else None


def _report(one: InputFile, label: str, profile: LaneProfile | None) -> KvReport | None:
    if one.path.suffix == ".json":
        data = load_data(one.path)
        if isinstance(data, dict) and data.get("schema") == STARTUP:
            return report_of_start(label, convert(StartupReport, data, str(one.path)), profile)
        found = repr(data.get("schema")) if isinstance(data, dict) else "a list"
        raise BadInput(str(one.path), Fault("schema", found, STARTUP))
    raw = read_bytes(one.path)
    text = raw.decode("utf-8", "replace")
    if "cache_config_info{" in text:
        return report_of_metrics(label, text, profile)
    log = StartupLog()
    log.feed(raw)
    log.finish()
    report = log.report()
    if report.kv_tokens is None and report.max_concurrency is None and not report.kv_available_gib:
        raise BadInput(str(one.path), Fault("log", "no KV report in it", "an engine's start-up log or its /metrics"))
    return report_of_start(label, report, profile)


def _length(tokens: int | None, concurrency: float | None) -> int | None:
    """The context length for which tokens = int(concurrency × length); None where several would do."""
    if tokens is None or not concurrency:
        return None
    near = round(tokens / concurrency)
    fits = [length for length in range(max(1, near - 2), near + 3) if int(concurrency * length) == tokens]
    return fits[0] if len(fits) == 1 else near if near in fits else None


def _whole(figure: Figure | None) -> int | None:
    return int(figure.value) if figure is not None else None


def _number(value: object) -> int | None:
    """A whole number, from a figure or a text of digits."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return int(value)
    digits = value.replace(",", "") if isinstance(value, str) else ""
    return int(digits) if digits.isdecimal() else None


def _real(value: str | None) -> float | None:
    try:
        return float(value) if value is not None else None
    except ValueError:
        return None


def _async_scheduling(said: object, recipe: Recipe | None) -> bool | None:
    """What the log says, else what the recipe's own table of the engine does; None is the engine's default."""
    if said in ("True", "False"):
        return said == "True"
    settings = recipe.engine if recipe is not None else {}
    if settings.get("no_async_scheduling") is True:
        return False
    asked = settings.get("async_scheduling")
    return asked if isinstance(asked, bool) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
