"""Claims by rule: what the evidence proves, what it does not, and the artifacts that each rests on.

A rule looks at all that is known and yields its claim, proven or not; where it has nothing to speak of, none. Take an
input away and the claim that rests on it falls to "not proven", with what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from msgspec.structs import replace

from anvil_tui.evidence.arms.differences import Differences
from anvil_tui.evidence.arms.runs import is_rehearsal, paths, prompt_lengths, scored
from anvil_tui.evidence.arms.starts import difference, kv_figures, kv_gib, last_start, peak_activation
from anvil_tui.evidence.verdicts import T_BLOCKS
from anvil_tui.records.arm import Arm
from anvil_tui.records.claim import Claim
from anvil_tui.records.comparison import Effect
from anvil_tui.records.kv_explanation import KvChange


@dataclass(frozen=True)
class Findings:
    """All that claims may rest on."""

    baseline: Arm
    candidate: Arm
    differences: Differences | None
    """Null where not both profiles are known."""
    effects: dict[str, Effect]
    kv_change: KvChange | None
    at: int | None
    """The context length that the operator thinks of next, in tokens."""

    @property
    def change(self) -> str:
        """The one functional difference in words, or the names of the arms."""
        if self.differences is not None and len(self.differences.functional) == 1:
            one = self.differences.functional[0]
            field = one.field.removeprefix("recipe.")
            return f"changing {field} from {one.baseline} to {one.candidate}"
        return f"going from {self.baseline.name} to {self.candidate.name}"


Rule = Callable[[Findings], Iterator[Claim]]


def _claim(rule: str, text: str, proven: bool, evidence: tuple[str, ...], missing: str = "") -> Claim:
    """A claim; without evidence it is not proven, whatever the rule found."""
    holds = proven and bool(evidence)
    return Claim(
        rule=rule,
        text=text,
        status="proven" if holds else "not proven",
        evidence=tuple(dict.fromkeys(evidence)),
        missing="" if holds else missing or "evidence",
    )


def memory_moved(found: Findings) -> Iterator[Claim]:
    """The change moved profiled memory: both starts tell it, and nothing else of the recipe differs."""
    old, new = last_start(found.baseline), last_start(found.candidate)
    if old is None and new is None:
        return
    peak = difference(peak_activation(old), peak_activation(new))
    memory = difference(kv_gib(old), kv_gib(new))
    controlled = found.differences is not None and len(found.differences.functional) == 1
    lacks = [f"the start-up report of {arm.name}" for arm in (found.baseline, found.candidate) if not arm.starts]
    if not lacks and (peak is None or memory is None):
        lacks.append("profiled peak activation and KV memory of both")
    if not controlled:
        lacks.append("profiles of both lanes that differ in one functional field")
    moved = " and ".join(
        [
            f"{_moved(peak)} profiled peak activation memory",
            f"{_moved(memory)} the GPU memory assigned to KV" + (f" ({memory:+.2f} GiB)" if memory is not None else ""),
        ]
    )
    starts = tuple(start.path for start in (old, new) if start is not None)
    profiles = tuple(one.path for arm in (found.baseline, found.candidate) for one in arm.profiles)
    yield _claim(
        "memory_moved",
        f"On this exact recipe, {found.change} {moved}.",
        not lacks,
        (*starts, *profiles),
        "; ".join(lacks),
    )


def candidate_capable(found: Findings) -> Iterator[Claim]:
    """The candidate stayed healthy, passed its gate and reached the baseline's largest prompt."""
    candidate = found.candidate
    if not candidate.runs and not candidate.gates:
        return
    reached = matched_largest(found.baseline, candidate)
    failed = [run for run in candidate.runs if run.what == "rung" and not run.passed]
    lacks = list(candidate.load_failures)
    if not candidate.gates:
        lacks.append(f"a functional gate of {candidate.name}")
    if any(not gate.passed for gate in candidate.gates):
        lacks.append(f"a gate of {candidate.name} that passed")
    if not reached:
        lacks.append("a rung of the same actual prompt tokens that both arms passed")
    if failed:
        lacks.append(f"{len(failed)} rungs of {candidate.name} that passed")
    size = f"{reached:,}-prompt-token " if reached else ""
    rungs = [run for arm in (found.baseline, candidate) for run in scored(arm) if run.what == "rung"]
    yield _claim(
        "candidate_capable",
        f"{candidate.name} remained healthy and passed the same bounded functional and {size}capacity gates.",
        not lacks,
        (*(gate.path for gate in candidate.gates), *paths(rungs)),
        "; ".join(lacks),
    )


def baseline_reproduced(found: Findings) -> Iterator[Claim]:
    """A fresh start of the baseline tells the same KV figures: it is no stale history."""
    starts = [start for start in found.baseline.starts if kv_figures(start) != (None, None, None)]
    if not starts:
        return
    figures = {kv_figures(start) for start in starts}
    gib, tokens, concurrency = kv_figures(starts[-1])
    told = [
        *([f"{gib:g} GiB"] if gib is not None else []),
        *([f"{tokens:,} reported KV tokens"] if tokens is not None else []),
        *([f"{concurrency:g}x reported concurrency"] if concurrency is not None else []),
    ]
    lacks = (
        f"a second start of {found.baseline.name}"
        if len(starts) < 2
        else f"starts that agree: {len(starts)} starts told {len(figures)} different sets of figures"
    )
    yield _claim(
        "baseline_reproduced",
        f"A fresh replay of {found.baseline.name} reproduced {', '.join(told)}, ruling out a stale historical "
        "baseline.",
        len(starts) > 1 and len(figures) == 1,
        tuple(start.path for start in starts),
        lacks,
    )


def tokens_are_no_requests(found: Findings) -> Iterator[Claim]:
    """A reported KV figure above what was really asked proves nothing of a longer serve or request."""
    start = last_start(found.candidate)
    tokens = start.report.kv_tokens if start is not None else None
    if start is None or tokens is None:
        return
    length = start.report.max_model_len.value if start.report.max_model_len else None
    largest = max((n for run in scored(found.candidate) for n in prompt_lengths(run)), default=None)
    longer = found.at or length
    beyond = largest if largest is not None else 0
    if longer is None or (tokens.value <= longer and longer <= (length or 0) and tokens.value <= beyond):
        return
    serve = f"a {found.at:,}-token configured serve" if found.at else f"a serve of more than {length:,} tokens"
    yield _claim(
        "tokens_are_no_requests",
        f"The reported {tokens.value:,}-token KV figure is not proof that {serve} starts, or that an actual request "
        f"above {beyond:,} prompt tokens succeeds.",
        False,
        (start.path, *paths(scored(found.candidate))),
        "a start at that length and a request of that size",
    )


def tokens_outgrow_bytes(found: Findings) -> Iterator[Claim]:
    """Reported tokens that grew otherwise than their bytes: engine accounting, which a long request must validate."""
    change = found.kv_change
    if change is None or change.tokens_percent is None or change.gib_percent is None:
        return
    if abs(change.tokens_percent - change.gib_percent) < 1:
        return
    known = {
        "explained": f"The accounting formula gives both figures: {change.words}",
        "split": f"Divided by rounded GiB: {change.words}",
        "not explained": "Cache geometry or engine accounting is unresolved",
    }[change.status]
    yield _claim(
        "tokens_outgrow_bytes",
        f"The change of reported KV tokens by {change.tokens_percent:+.3f} % is not explained by the change of KV "
        f"bytes by {change.gib_percent:+.3f} % alone. {known.rstrip('.')}; as capacity it is unproven until a "
        "long-context load and request validate it.",
        False,
        (change.baseline, change.candidate),
        "a long-context load and an actual request",
    )


def too_few_for_ranking(found: Findings) -> Iterator[Claim]:
    """Few requests and loads rank nothing, and a bounded gate is no broad quality."""
    runs = [run for arm in (found.baseline, found.candidate) for run in scored(arm)]
    if not runs:
        return
    blocks = max((one.blocks for one in found.effects.values()), default=0)
    if blocks >= T_BLOCKS:
        return
    each = median(len(run.requests) or run.completed for run in runs)
    several = f"{each:g} requests a run on {blocks or 1} load of each arm"
    count = "One context request per target" if each == 1 else several
    yield _claim(
        "too_few_for_ranking",
        f"{count} does not establish a statistically significant throughput difference or broad task-quality "
        "equivalence.",
        False,
        paths(runs),
        f"at least {T_BLOCKS} blocks, one load of each arm in each",
    )


def metric_verdicts(found: Findings) -> Iterator[Claim]:
    """The verdict of each metric as a claim: proven where it is one."""
    for metric, one in found.effects.items():
        if one.estimate_percent is None:
            continue
        proven = one.verdict.startswith(("faster", "slower", "equivalent"))
        yield _claim(
            "metric_verdicts",
            f"{metric}: {found.candidate.name} against {found.baseline.name} {one.estimate_percent:+.1f} % "
            f"({one.verdict}).",
            proven,
            paths([*scored(found.baseline), *scored(found.candidate)]),
            one.words,
        )


def gates_passed(found: Findings) -> Iterator[Claim]:
    """Both arms do what they must."""
    arms = (found.baseline, found.candidate)
    if not any(arm.gates for arm in arms):
        return
    lacks = [f"a functional gate of {arm.name}" for arm in arms if not arm.gates]
    lacks += [f"the gate of {arm.name} failed" for arm in arms if any(not gate.passed for gate in arm.gates)]
    yield _claim(
        "gates_passed",
        "Both arms passed the functional gate.",
        not lacks,
        tuple(gate.path for arm in arms for gate in arm.gates),
        "; ".join(lacks),
    )


CHANGE_RULES: tuple[Rule, ...] = (
    memory_moved,
    candidate_capable,
    baseline_reproduced,
    tokens_are_no_requests,
    tokens_outgrow_bytes,
    too_few_for_ranking,
)
PAIRED_RULES: tuple[Rule, ...] = (metric_verdicts, gates_passed, too_few_for_ranking)


def find_claims(rules: tuple[Rule, ...], found: Findings) -> tuple[Claim, ...]:
    """Every claim of these rules, in their order. A rehearsal proves nothing."""
    claims = tuple(claim for rule in rules for claim in rule(found))
    if not any(map(is_rehearsal, (found.baseline, found.candidate))):
        return claims
    return tuple(replace(claim, status="not proven", missing="a rehearsal is no evidence") for claim in claims)


def matched_largest(baseline: Arm, candidate: Arm) -> int | None:
    """The largest actual prompt tokens of a passed rung that both arms have; None where the arms share none."""
    sizes = [
        {length for run in scored(arm) if run.what == "rung" for length in prompt_lengths(run)}
        for arm in (baseline, candidate)
    ]
    return max(sizes[0] & sizes[1], default=None)


def _moved(change: float | None) -> str:
    if change is None:
        return "moved"
    return "reduced" if change < 0 else "increased" if change > 0 else "did not change"
