"""Why one start reports other KV tokens than another: the ratio divided into what each change did."""

from __future__ import annotations

from collections.abc import Iterator

from anvil_tui.engines.kv_capacity import tokens_in_flight
from anvil_tui.evidence.kv.explanation import geometry_of
from anvil_tui.evidence.statistics import percent_change
from anvil_tui.records.kv_explanation import KvChange, KvExplanation, KvFactor, KvReport


def explain_change(baseline: KvExplanation, candidate: KvExplanation) -> KvChange:
    """Factors from `baseline` to `candidate`; their product is the ratio of the reported tokens."""
    old, new = baseline.report, candidate.report
    tokens = percent_change(new.tokens, old.tokens)
    gib = percent_change(new.available_gib, old.available_gib)
    exact = baseline.status == candidate.status == "explained"
    factors = tuple(_exact_factors(baseline, candidate) if exact else _split_factors(old, new))
    return KvChange(
        baseline=old.path,
        candidate=new.path,
        status="explained" if exact else "split" if factors else "not explained",
        tokens_percent=tokens,
        gib_percent=gib,
        factors=factors,
        words=_sentence(tokens, gib, factors),
    )


def _exact_factors(baseline: KvExplanation, candidate: KvExplanation) -> Iterator[KvFactor]:
    """Blocks, then each change of the recipe in turn: batch, context length, speculation or build."""
    old, new = baseline.report, candidate.report
    n1, n2 = baseline.blocks or 1, candidate.blocks or 1
    r1, r2 = baseline.blocks_per_request or 1, candidate.blocks_per_request or 1
    l1, l2 = old.max_model_len or 1, new.max_model_len or 1
    b1, b2 = baseline.bytes_per_block, candidate.bytes_per_block
    if b1 and b2 and b1 != b2:
        yield KvFactor(
            cause="KV memory",
            factor=n2 * b2 / (n1 * b1),
            words=f"{baseline.kv_gib:.3f} → {candidate.kv_gib:.3f} GiB",
        )
        yield KvFactor(cause="bytes per block", factor=b1 / b2, words=f"{b1:,} → {b2:,} bytes")
    elif n1 != n2:
        yield KvFactor(
            cause="KV memory", factor=n2 / n1, words=f"{n1:,} → {n2:,} blocks ({percent_change(n2, n1):+.3f} %)"
        )
    geometry = geometry_of(baseline)
    batch1, batch2 = baseline.max_num_batched_tokens, candidate.max_num_batched_tokens
    reservation, sharing = r1, new.context_parallel_size or 1
    if geometry is not None and batch1 is not None and batch2 is not None and batch1 != batch2:
        step = geometry.blocks_per_request(l1, tokens_in_flight(batch2, new.async_scheduling), sharing)
        yield KvFactor(
            cause="max_num_batched_tokens",
            factor=reservation / step,
            words=f"{batch1:,} → {batch2:,}: reservation {reservation:,} → {step:,} blocks",
        )
        reservation = step
    if l1 != l2:
        step = (
            geometry.blocks_per_request(l2, tokens_in_flight(batch2, new.async_scheduling), sharing)
            if (geometry is not None and batch2 is not None)
            else r2
        )
        yield KvFactor(
            cause="max_model_len",
            factor=reservation / step * l2 / l1,
            words=f"{l1:,} → {l2:,}: reservation {reservation:,} → {step:,} blocks of a longer request",
        )
        reservation = step
    if reservation != r2:
        yield KvFactor(
            cause=_other_cause(old, new),
            factor=reservation / r2,
            words=f"reservation {reservation:,} → {r2:,} blocks",
        )


def _other_cause(old: KvReport, new: KvReport) -> str:
    if old.speculation != new.speculation:
        return f"speculation ({old.speculation or 'none'} → {new.speculation or 'none'})"
    return "other settings or another build"


def _split_factors(old: KvReport, new: KvReport) -> Iterator[KvFactor]:
    """Without block counts: bytes and length are told, the reservation is what remains, to the rounding of GiB."""
    if not (old.tokens and new.tokens and old.available_gib and new.available_gib):
        return
    if not (old.max_model_len and new.max_model_len):
        return
    memory = new.available_gib / old.available_gib
    length = new.max_model_len / old.max_model_len
    rest = new.tokens / old.tokens / memory / length
    error = 0.005 / old.available_gib + 0.005 / new.available_gib
    yield KvFactor(cause="KV memory", factor=memory, words=f"{old.available_gib} → {new.available_gib} GiB")
    if length != 1:
        yield KvFactor(cause="max_model_len", factor=length, words=f"{old.max_model_len:,} → {new.max_model_len:,}")
    yield KvFactor(
        cause="memory of one full-length request",
        factor=rest,
        words=f"what remains, ± {error:.2%} from the rounding of GiB",
    )


def _sentence(tokens: float | None, gib: float | None, factors: tuple[KvFactor, ...]) -> str:
    if tokens is None or not factors:
        return "not explained: tokens, context length and GiB of both starts are needed"
    parts = " and ".join(f"{one.cause} × {one.factor:.4f} ({one.words})" for one in factors)
    bytes_words = f" for {gib:+.3f} % of KV memory" if gib is not None else ""
    return f"{tokens:+.3f} % of reported tokens{bytes_words}: {parts}."
