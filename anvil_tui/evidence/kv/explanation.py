"""Explains a KV report: blocks × reservation, what a change did to each factor, and other context lengths.

A figure that fits no known formula is "not explained"; nothing is fitted to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from msgspec.structs import replace

from anvil_tui.engines.kv_capacity import (
    FORMULAS,
    GIB,
    Accounting,
    KvGeometry,
    accounting,
    known_geometries,
    matching_blocks,
    reported_tokens,
    tokens_in_flight,
)
from anvil_tui.records.kv_explanation import KvCheck, KvExplanation, KvPrediction, KvReport

_ROUNDING = 0.005
"""Engines print GiB and concurrency to 0.01."""
_PLAIN_BLOCK_SIZES = (8, 16, 32, 64, 128, 256)


def explain(report: KvReport, at: int | None = None) -> KvExplanation:
    """Explain one report; with `at`, predict what the same KV memory reports at that context length in tokens."""
    for explained in (_from_counts(report), _from_geometry(report), _from_pool(report)):
        if explained is not None:
            return _finished(explained, at)
    return _unexplained(report, at)


def geometry_of(explanation: KvExplanation) -> KvGeometry | None:
    """The known geometry that an explanation rests on."""
    report = explanation.report
    known = known_geometries(report.model, report.engine_version, speculates(report))
    return next((one for one in known if one.name == explanation.geometry), None)


def speculates(report: KvReport) -> bool | None:
    """Whether the start says that it speculates; None where it says nothing."""
    return None if report.speculation is None else bool(report.speculation)


def in_flight(report: KvReport) -> int | None:
    """Tokens that this start may have in flight; None where its batch is unknown."""
    batch = report.max_num_batched_tokens
    return None if batch is None else tokens_in_flight(batch, report.async_scheduling)


def _from_counts(report: KvReport) -> KvExplanation | None:
    """From `/metrics`: the engine itself tells blocks and exact concurrency, so the reservation is their ratio."""
    blocks, concurrency, length, tokens = report.num_blocks, report.concurrency, report.max_model_len, report.tokens
    if report.source != "metrics" or not blocks or not concurrency or length is None or tokens is None:
        return None
    reservation = round(blocks / concurrency)
    if reservation < 1 or reported_tokens(blocks, reservation, length) != tokens:
        return None
    fitting = [
        one
        for one in known_geometries(report.model, report.engine_version, speculates(report))
        if (flight := in_flight(report)) is not None and one.blocks_per_request(length, flight) == reservation
    ]
    return _explained(report, "admission", blocks, reservation, fitting[0] if len(fitting) == 1 else None, None)


def _from_geometry(report: KvReport) -> KvExplanation | None:
    """From a log: the one known geometry for which a whole number of blocks gives the tokens, and the GiB agree."""
    tokens, length, flight = report.tokens, report.max_model_len, in_flight(report)
    if tokens is None or length is None or flight is None:
        return None
    fitting, chance = [], 0.0
    for geometry in known_geometries(report.model, report.engine_version, speculates(report)):
        reservation = geometry.blocks_per_request(length, flight)
        chance += reservation / length
        blocks = matching_blocks(tokens, reservation, length)
        if blocks is not None and _memory_agrees(report, blocks, geometry.bytes_per_block) is not False:
            fitting.append((geometry, blocks, reservation))
    if len(fitting) != 1:
        return None
    geometry, blocks, reservation = fitting[0]
    return _explained(report, "admission", blocks, reservation, geometry, min(1.0, chance))


def _from_pool(report: KvReport) -> KvExplanation | None:
    """A plain pool, told in blocks: tokens or concurrency must give a usual block size, and both must agree."""
    blocks, length = report.num_blocks, report.max_model_len
    if not blocks or length is None:
        return None
    size = report.block_size
    if size is None and report.tokens is not None and report.tokens % blocks == 0:
        size = report.tokens // blocks
    if size is None and report.concurrency is not None:
        size = round(report.concurrency * length / blocks)
    if size not in _PLAIN_BLOCK_SIZES:
        return None
    if report.tokens is not None and report.tokens != blocks * size:
        return None
    if report.concurrency is not None and abs(blocks * size / length - report.concurrency) > 2 * _ROUNDING:
        return None
    if report.tokens is None and report.concurrency is None:
        return None
    meaning = accounting(report.engine_version) or "pool"
    return _explained(report, meaning, blocks, math.ceil(length / size), None, None, block_size=size)


def _explained(
    report: KvReport,
    meaning: Accounting,
    blocks: int,
    reservation: int,
    geometry: KvGeometry | None,
    chance: float | None,
    block_size: int | None = None,
) -> KvExplanation:
    length = report.max_model_len or 0
    flight = in_flight(report)
    per_block = geometry.bytes_per_block if geometry else None
    kv_gib = blocks * per_block / GIB if per_block else report.available_gib
    context = geometry.context_blocks(length) if geometry else reservation if block_size else None
    return KvExplanation(
        report=report,
        status="explained",
        formula=FORMULAS[meaning],
        geometry=geometry.name
        if geometry
        else f"full attention, blocks of {block_size} tokens"
        if block_size
        else None,
        blocks=blocks,
        blocks_per_request=reservation,
        bytes_per_block=per_block,
        groups=geometry.group_blocks(length, flight) if geometry and flight is not None else {},
        context_blocks=context,
        kv_gib=kv_gib,
        gib_per_full_request=kv_gib * reservation / blocks if kv_gib is not None else None,
        chance=chance,
        checks=tuple(_checks(report, blocks, per_block)),
    )


def _unexplained(report: KvReport, at: int | None) -> KvExplanation:
    meaning = accounting(report.engine_version)
    concurrency = _full_requests(report)
    lacking = _lacking(report)
    words = f"not explained: {lacking}"
    if at is not None:
        words += f"; not predicted at {at:,}: which part of the reservation grows with the context is unknown"
    return KvExplanation(
        report=report,
        status="not explained",
        formula=FORMULAS[meaning] if meaning else "unknown: the version does not say what its count means",
        kv_gib=report.available_gib,
        gib_per_full_request=report.available_gib / concurrency if report.available_gib and concurrency else None,
        checks=tuple(_checks(report, None, None)),
        words=words,
    )


def _lacking(report: KvReport) -> str:
    """Why nothing fits, in words."""
    if report.tokens is None and report.num_blocks is None:
        return "the start reports neither tokens nor blocks"
    if report.max_model_len is None:
        return "the context length is unknown"
    known = known_geometries(report.model, report.engine_version, speculates(report))
    if not known:
        return (
            f"no cache geometry is known for {report.model or 'an unknown model'} in "
            f"{report.engine_version or 'an unknown version'}, and block count and reservation are not told"
        )
    if report.max_num_batched_tokens is None:
        return "max_num_batched_tokens is unknown, and the reservation depends on it"
    return f"no whole number of blocks of {' or '.join(one.name for one in known)} gives {report.tokens:,} tokens" + (
        f" within {report.available_gib} GiB" if report.available_gib is not None else ""
    )


def _checks(report: KvReport, blocks: int | None, per_block: int | None) -> Iterator[KvCheck]:
    """The sums that the reported figures must satisfy, as far as they are told."""
    if report.tokens is not None and report.concurrency is not None and report.max_model_len:
        ratio = report.tokens / report.max_model_len
        yield KvCheck(
            rule="tokens = concurrency × max_model_len",
            holds=abs(ratio - report.concurrency) <= _ROUNDING + 1 / report.max_model_len,
            words=f"{report.tokens:,} / {report.max_model_len:,} = {ratio:.4f}, reported {report.concurrency:g}x",
        )
    if blocks is not None and per_block is not None:
        agrees = _memory_agrees(report, blocks, per_block)
        if agrees is not None:
            yield KvCheck(
                rule="blocks × bytes per block = KV memory",
                holds=agrees,
                words=f"{blocks:,} × {per_block:,} B = {blocks * per_block / GIB:.3f} GiB, "
                f"reported {report.available_gib} GiB",
            )


def _memory_agrees(report: KvReport, blocks: int, per_block: int) -> bool | None:
    """Whether the reported GiB, rounded to 0.01, can hold exactly this many blocks; None where they are not told."""
    if report.available_gib is None:
        return None
    low, high = (report.available_gib - _ROUNDING) * GIB, (report.available_gib + _ROUNDING) * GIB
    return blocks * per_block < high and (blocks + 1) * per_block > low


def _full_requests(report: KvReport) -> float | None:
    if report.tokens is not None and report.max_model_len:
        return report.tokens / report.max_model_len
    return report.concurrency


def _finished(explained: KvExplanation, at: int | None) -> KvExplanation:
    """Add the prediction and the sentence."""
    prediction = predict(explained, at) if at is not None else None
    words = _sentence(explained)
    if prediction is not None:
        words += (
            f" At max_model_len {prediction.max_model_len:,} the same KV memory would report "
            f"{prediction.tokens:,} tokens, {prediction.concurrency:.2f}x."
        )
    elif at is not None:
        words += f" Not predicted at {at:,}: which part of the reservation grows with the context is unknown."
    return replace(explained, prediction=prediction, words=words)


def predict(explained: KvExplanation, at: int) -> KvPrediction | None:
    """What the same blocks report at a context of `at` tokens; None where the reservation's make-up is unknown."""
    report, blocks = explained.report, explained.blocks
    geometry, flight = geometry_of(explained), in_flight(report)
    if blocks is None:
        return None
    if geometry is not None and flight is not None:
        reservation = geometry.blocks_per_request(at, flight)
    elif explained.context_blocks == explained.blocks_per_request and report.max_model_len and explained.context_blocks:
        reservation = math.ceil(at / _block_size(report, blocks, explained.context_blocks))
    else:
        return None
    return KvPrediction(
        max_model_len=at,
        tokens=reported_tokens(blocks, reservation, at),
        concurrency=blocks / reservation,
        blocks_per_request=reservation,
    )


def _block_size(report: KvReport, blocks: int, context_blocks: int) -> int:
    """Tokens a block of a plain pool."""
    if report.block_size is not None:
        return report.block_size
    if report.tokens is not None and report.tokens % blocks == 0:
        return report.tokens // blocks
    return round((report.max_model_len or 0) / context_blocks)


def _sentence(explained: KvExplanation) -> str:
    report = explained.report
    length = report.max_model_len or 0
    blocks, reservation = explained.blocks or 0, explained.blocks_per_request or 1
    size = f" of {explained.bytes_per_block:,} bytes ({explained.kv_gib:.3f} GiB)" if explained.bytes_per_block else ""
    words = f"{blocks:,} blocks{size}; one full-length request of {length:,} tokens reserves {reservation:,} blocks"
    flight = in_flight(report)
    if explained.groups and flight is not None:
        words += f", {explained.context_blocks:,} of them for its context and the rest for {flight:,} tokens in flight"
    words += f"; {blocks:,} / {reservation:,} × {length:,} = {reported_tokens(blocks, reservation, length):,} tokens"
    if explained.chance is not None:
        words += f"; a random count would fit with chance {explained.chance:.1%}"
    return words + "."
