"""What must be the same in both arms, checked: observed where artifacts or logs tell, else declared by the profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from anvil_tui.evidence.arms.runs import compared_runs, protocols, scored
from anvil_tui.evidence.arms.starts import told
from anvil_tui.records.arm import Arm, LoadStart, MeasuredRun
from anvil_tui.records.comparison import Invariant
from anvil_tui.records.lane import LaneProfile

SAME_PROMPTS = "same prompts"
"""It cannot hold before both arms are through."""

Values = dict[object, tuple[str, ...]]
"""Each value that an arm's artifacts tell, and where."""


@dataclass(frozen=True)
class _Item:
    text: str
    declared: Callable[[LaneProfile], object] | None
    from_run: Callable[[MeasuredRun], object] | None = None
    from_start: Callable[[LoadStart], object] | None = None
    compared: bool = False
    """Whether it speaks of the compared runs only: a gate or another ladder may well ask otherwise."""


def _fact(name: str) -> Callable[[LoadStart], object]:
    """What the log says under this name, digits as a number."""

    def read(start: LoadStart) -> object:
        value = told(start.report, name)
        return int(value) if isinstance(value, str) and value.isdecimal() else value

    return read


ITEMS: tuple[_Item, ...] = (
    _Item("same model", lambda p: p.identity.model, from_start=_fact("model")),
    _Item("same model revision", lambda p: p.identity.model_revision),
    _Item("same image digest", lambda p: p.identity.image),
    _Item(
        "same engine version",
        lambda p: p.identity.runtime or p.identity.engine_revision,
        lambda run: run.engine_version,
        lambda start: start.report.engine_version.value if start.report.engine_version else None,
    ),
    _Item("same hardware", lambda p: p.identity.hardware, lambda run: run.hardware),
    _Item("same topology", lambda p: p.identity.topology),
    _Item("same weight path", lambda p: p.recipe.weight_path),
    _Item("same KV cache dtype", lambda p: p.recipe.kv_cache_dtype, from_start=_fact("kv_cache_dtype")),
    _Item("same tensor parallel size", lambda p: p.recipe.tensor_parallel_size, from_start=lambda s: s.report.ranks),
    _Item("same max_num_seqs", lambda p: p.recipe.max_num_seqs, from_start=_fact("max_num_seqs")),
    _Item(
        "same max_num_batched_tokens",
        lambda p: p.recipe.max_num_batched_tokens,
        from_start=_fact("max_num_batched_tokens"),
    ),
    _Item(
        "same gpu_memory_utilization",
        lambda p: p.recipe.gpu_memory_utilization,
        from_start=_fact("gpu_memory_utilization"),
    ),
    _Item(
        "same served context",
        lambda p: p.recipe.max_model_len,
        lambda run: run.max_model_len,
        lambda start: start.report.max_model_len.value if start.report.max_model_len else None,
    ),
    _Item("same output budget", None, lambda run: run.max_tokens, compared=True),
    _Item("same reasoning effort", None, lambda run: run.reasoning_effort, compared=True),
)


def check_invariants(baseline: Arm, candidate: Arm) -> tuple[Invariant, ...]:
    """Each invariant that anything is known of. A difference that the profiles declare is the change, no violation."""
    return tuple(_checked(baseline, candidate))


def _checked(baseline: Arm, candidate: Arm) -> Iterator[Invariant]:
    compared = compared_runs(baseline, candidate)
    for item in ITEMS:
        one = _check(item, *(compared if item.compared else (baseline, candidate)))
        if one is not None:
            yield one
    baseline, candidate = compared
    old, new = protocols(scored(baseline)), protocols(scored(candidate))
    if old and new:
        yield _told(
            "same prompt lengths and concurrency",
            "observed" if set(old) == set(new) else "violated",
            _protocol_words(list(old)),
            _protocol_words(list(new)),
            tuple(run.path for run in (*scored(baseline), *scored(candidate))),
        )
    yield from _prompts(baseline, candidate)


def _prompts(baseline: Arm, candidate: Arm) -> Iterator[Invariant]:
    """Prompts are the same where both arms sent the same nonces."""
    old, new = _all_nonces(baseline), _all_nonces(candidate)
    if old and new:
        shared = len(old & new)
        yield _told(
            SAME_PROMPTS,
            "observed" if old == new else "violated",
            f"{len(old)} nonces, {shared} in both arms",
            f"{len(new)} nonces, {shared} in both arms",
            tuple(run.path for run in (*scored(baseline), *scored(candidate))),
        )


def _all_nonces(arm: Arm) -> frozenset[str]:
    return frozenset(record.nonce for run in scored(arm) for record in run.requests if record.nonce is not None)


def _check(item: _Item, baseline: Arm, candidate: Arm) -> Invariant | None:
    old, new = _observed(item, baseline), _observed(item, candidate)
    said_old, said_new = _declared(item, baseline), _declared(item, candidate)
    contradicted = _contradicts(old, said_old) or _contradicts(new, said_new)
    if said_old is not None and said_new is not None and said_old != said_new and not contradicted:
        return None
    places = tuple(dict.fromkeys(place for values in (old, new) for paths in values.values() for place in paths))
    told = old.keys() | new.keys()
    if len(told) > 1 or contradicted:
        return _told(item.text, "violated", _words(old, said_old), _words(new, said_new), places)
    if old and new:
        return _told(item.text, "observed", _words(old, said_old), _words(new, said_new), places)
    if said_old is not None and said_new is not None:
        profiles = tuple(one.path for arm in (baseline, candidate) for one in arm.profiles)
        return _told(item.text, "declared", str(said_old), str(said_new), (*places, *profiles))
    return None


def _contradicts(values: Values, declared: object) -> bool:
    """Whether an observed number is not the declared one. Texts are free on both sides: they compare between arms."""
    numbers = [value for value in values if isinstance(value, int | float)]
    return isinstance(declared, int | float) and any(value != declared for value in numbers)


def _told(text: str, status: str, old: str, new: str, evidence: tuple[str, ...]) -> Invariant:
    return Invariant(
        text=text,
        status="observed" if status == "observed" else "declared" if status == "declared" else "violated",
        baseline=old,
        candidate=new,
        evidence=tuple(dict.fromkeys(evidence)),
    )


def _observed(item: _Item, arm: Arm) -> Values:
    found: Values = {}
    told = [(item.from_run(run), run.path) for run in arm.runs] if item.from_run else []
    told += [(item.from_start(start), start.path) for start in arm.starts] if item.from_start else []
    for value, path in told:
        if value is not None and path not in found.get(value, ()):
            found[value] = (*found.get(value, ()), path)
    return found


def _declared(item: _Item, arm: Arm) -> object:
    values = [item.declared(one.profile) for one in arm.profiles] if item.declared else []
    return next((value for value in values if value is not None), None)


def _words(values: Values, declared: object) -> str:
    parts = [f"{value} in {len(paths)} of its files" for value, paths in sorted(values.items(), key=str)]
    return "; ".join([*parts, *([f"declared {declared}"] if declared is not None else [])]) or "unknown"


def _protocol_words(keys: list[tuple[int | None, int | None]]) -> str:
    return ", ".join(f"{label or 'unknown'} tokens × {concurrency or 'unknown'}" for label, concurrency in keys)
