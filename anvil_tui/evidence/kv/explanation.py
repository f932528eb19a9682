"""Explains a KV report: blocks × reservation, what a change did to each factor, and other context lengths.

A figure that fits no known formula is "not explained"; nothing is fitted to it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from msgspec.structs import replace

from anvil_tui.engines.kv_capacity import (
    FORMULAS,
    GEOMETRIES,
    GIB,
    USUAL_BATCHES,
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
_POOL_OF_OTHERS = "tokens = blocks × tokens per block"
_PLAIN = "full attention, blocks of"
_PLAIN_BLOCK_SIZES = (8, 16, 32, 64, 128, 256)


def explain(report: KvReport, at: int | None = None) -> KvExplanation:
    """Explain one report; with `at`, predict what the same KV memory reports at that context length in tokens."""
    for explained in (_from_counts(report), _from_geometry(report), _from_pool(report)):
        if explained is not None:
            return _finished(explained, at)
    return _unexplained(report, at)


def geometry_of(explanation: KvExplanation) -> KvGeometry | None:
    """The known geometry that an explanation rests on."""
    return next((one for one in GEOMETRIES if one.name == explanation.geometry), None)


def speculates(report: KvReport) -> bool | None:
    """Whether the start says that it speculates; None where it says nothing."""
    return None if report.speculation is None else bool(report.speculation)


@dataclass(frozen=True)
class _Fit:
    """A geometry and a batch that give a report exactly."""

    geometry: KvGeometry
    batch: int
    in_flight: int
    blocks: int
    reservation: int


def _from_counts(report: KvReport) -> KvExplanation | None:
    """From `/metrics`: the engine itself tells blocks and exact concurrency, so the reservation is their ratio."""
    blocks, concurrency, length, tokens = report.num_blocks, report.concurrency, report.max_model_len, report.tokens
    if report.source != "metrics" or not blocks or not concurrency or length is None or tokens is None:
        return None
    reservation = round(blocks / concurrency)
    if reservation < 1 or reported_tokens(blocks, reservation, length) != tokens:
        return None
    size = report.block_size
    if size and reservation == math.ceil(length / size):
        return _plain(report, "admission", blocks, size)
    fits = [one for one in _fits(report) if (one.blocks, one.reservation) == (blocks, reservation)]
    if report.model is not None and len(fits) == 1:
        return _explained(report, "admission", blocks, reservation, fits[0])
    return _explained(report, "admission", blocks, reservation)


def _from_geometry(report: KvReport) -> KvExplanation | None:
    """From a log: the one known geometry for which a whole number of blocks gives the tokens, and the GiB agree."""
    fits = _fits(report)
    if len(fits) != 1:
        return None
    return _explained(report, "admission", fits[0].blocks, fits[0].reservation, fits[0])


def _fits(report: KvReport) -> list[_Fit]:
    """Every known geometry and batch that gives the report. Without a model or a batch the GiB must be there too."""
    tokens, length = report.tokens, report.max_model_len
    if tokens is None or length is None or report.engine not in (None, "vllm"):
        return []
    if report.available_gib is None and (report.model is None or report.max_num_batched_tokens is None):
        return []
    if _piped(report) or _concurrency_agrees(report) is False:
        return []
    batches = (report.max_num_batched_tokens,) if report.max_num_batched_tokens is not None else USUAL_BATCHES
    found = []
    for geometry, batch in product(known_geometries(report.model, report.engine_version, speculates(report)), batches):
        flight = tokens_in_flight(batch, report.async_scheduling)
        reservation = geometry.blocks_per_request(length, flight, report.context_parallel_size or 1)
        blocks = matching_blocks(tokens, reservation, length)
        if blocks is not None and _memory_agrees(report, blocks, geometry.bytes_per_block) is not False:
            found.append(_Fit(geometry, batch, flight, blocks, reservation))
    return found


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
    return _plain(report, accounting(report.engine_version) or "pool", blocks, size)


def _plain(report: KvReport, meaning: Accounting, blocks: int, size: int) -> KvExplanation:
    """A pool whose every block holds context: a full-length request reserves its own length and no more."""
    reservation = math.ceil((report.max_model_len or 0) / size)
    return replace(
        _explained(report, meaning, blocks, reservation),
        geometry=f"{_PLAIN} {size} tokens",
        context_blocks=reservation,
    )


def _explained(
    report: KvReport, meaning: Accounting, blocks: int, reservation: int, fit: _Fit | None = None
) -> KvExplanation:
    length, sharing = report.max_model_len or 0, report.context_parallel_size or 1
    geometry = fit.geometry if fit else None
    per_block = geometry.bytes_per_block if geometry else None
    kv_gib = blocks * per_block / GIB if per_block else report.available_gib
    return KvExplanation(
        report=report,
        status="explained",
        formula=FORMULAS[meaning] if report.engine in (None, "vllm") else _POOL_OF_OTHERS,
        geometry=geometry.name if geometry else None,
        inferred=tuple(_inferred(report, fit)) if fit else (),
        blocks=blocks,
        blocks_per_request=reservation,
        max_num_batched_tokens=fit.batch if fit else report.max_num_batched_tokens,
        in_flight=fit.in_flight if fit else None,
        bytes_per_block=per_block,
        groups=geometry.group_blocks(length, fit.in_flight, sharing) if geometry and fit else {},
        context_blocks=geometry.context_blocks(length, sharing) if geometry else None,
        kv_gib=kv_gib,
        gib_per_full_request=kv_gib * reservation / blocks if kv_gib is not None else None,
        chance=_chance(report) if fit and report.num_blocks is None else None,
        checks=tuple(_checks(report, blocks, per_block)),
    )


def _inferred(report: KvReport, fit: _Fit) -> Iterator[str]:
    """What no one told and only the fit of tokens and GiB together says."""
    if report.model is None:
        yield "model family"
    if report.engine_version is None:
        yield f"build line ({fit.geometry.build})"
    if report.max_num_batched_tokens is None:
        yield f"max_num_batched_tokens {fit.batch}"


def _chance(report: KvReport) -> float:
    """How likely a random token count is to be a whole number of blocks in one of the geometries tried."""
    length, batches = report.max_model_len or 1, (report.max_num_batched_tokens,)
    sharing = report.context_parallel_size or 1
    tried = product(
        known_geometries(report.model, report.engine_version, speculates(report)),
        batches if report.max_num_batched_tokens is not None else USUAL_BATCHES,
    )
    chances = (
        one.blocks_per_request(length, tokens_in_flight(batch, report.async_scheduling), sharing) / length
        for one, batch in tried
        if batch is not None
    )
    return min(1.0, sum(chances))


def _unexplained(report: KvReport, at: int | None) -> KvExplanation:
    meaning = accounting(report.engine_version) if report.engine in (None, "vllm") else None
    concurrency = _full_requests(report)
    lacking = _lacking(report)
    words = f"not explained: {lacking}"
    if at is not None:
        words += f"; not predicted at {at:,}: which part of the reservation grows with the context is unknown"
    return KvExplanation(
        report=report,
        status="not explained",
        formula=FORMULAS[meaning] if meaning else f"unknown: {_unknown_meaning(report)}",
        kv_gib=report.available_gib,
        gib_per_full_request=report.available_gib / concurrency if report.available_gib and concurrency else None,
        checks=tuple(_checks(report, None, None)),
        words=words,
    )


def _unknown_meaning(report: KvReport) -> str:
    if report.engine in (None, "vllm"):
        return "the version does not say what its count means"
    return f"the formulas known here are vLLM's; {report.engine} tells no block count"


def _piped(report: KvReport) -> bool:
    return (report.pipeline_parallel_size or 1) > 1


def _lacking(report: KvReport) -> str:
    """Why nothing fits, in words."""
    if report.tokens is None and report.num_blocks is None:
        return "the start reports neither tokens nor blocks"
    if report.engine not in (None, "vllm"):
        return _unknown_meaning(report)
    if report.max_model_len is None:
        return "the context length is unknown"
    if _concurrency_agrees(report) is False:
        return "tokens, concurrency and context length contradict each other"
    if _piped(report):
        return "with pipeline parallelism each rank holds other layers, and their geometry is not told"
    known = known_geometries(report.model, report.engine_version, speculates(report))
    if report.model is not None and not known:
        return (
            f"no cache geometry is known for {report.model} in {report.engine_version or 'an unknown version'}, and "
            "block count and reservation are not told"
        )
    if report.available_gib is None and (report.model is None or report.max_num_batched_tokens is None):
        missing = "the model" if report.model is None else "max_num_batched_tokens"
        return f"{missing} is unknown, and without KV memory in GiB a fit of the tokens alone would prove nothing"
    if len(fits := _fits(report)) > 1:
        return f"{len(fits)} known geometries give {report.tokens:,} tokens, and nothing tells them apart"
    memory = f" within {report.available_gib} GiB" if report.available_gib is not None else ""
    return f"no whole number of blocks of a known geometry gives {report.tokens or 0:,} tokens{memory}"


def _checks(report: KvReport, blocks: int | None, per_block: int | None) -> Iterator[KvCheck]:
    """The sums that the reported figures must satisfy, as far as they are told."""
    agreed = _concurrency_agrees(report)
    if agreed is not None and report.tokens and report.max_model_len:
        ratio = report.tokens / report.max_model_len
        yield KvCheck(
            rule="tokens = concurrency × max_model_len",
            holds=agreed,
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


def _concurrency_agrees(report: KvReport) -> bool | None:
    """Whether tokens and context length give the reported concurrency, rounded to 0.01; None where one is not told."""
    if report.tokens is None or report.concurrency is None or not report.max_model_len:
        return None
    return abs(report.tokens / report.max_model_len - report.concurrency) <= _ROUNDING + 1 / report.max_model_len


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
    blocks, pool = explained.blocks, _plain_size(explained)
    geometry = geometry_of(explained)
    if blocks is None:
        return None
    if geometry is not None and explained.in_flight is not None:
        sharing = explained.report.context_parallel_size or 1
        reservation = geometry.blocks_per_request(at, explained.in_flight, sharing)
    elif pool is not None:
        reservation = math.ceil(at / pool)
    else:
        return None
    admission = explained.formula == FORMULAS["admission"]
    return KvPrediction(
        max_model_len=at,
        tokens=blocks * pool if pool is not None and not admission else reported_tokens(blocks, reservation, at),
        concurrency=blocks / reservation,
        blocks_per_request=reservation,
    )


def _plain_size(explained: KvExplanation) -> int | None:
    """Tokens a block of a plain pool; None of any other."""
    name = explained.geometry or ""
    return int(name.split()[-2]) if name.startswith(_PLAIN) else None


def _sentence(explained: KvExplanation) -> str:
    report = explained.report
    length = report.max_model_len or 0
    blocks, reservation = explained.blocks or 0, explained.blocks_per_request or 1
    size = f" of {explained.bytes_per_block:,} bytes ({explained.kv_gib:.3f} GiB)" if explained.bytes_per_block else ""
    words = f"{blocks:,} blocks{size}; one full-length request of {length:,} tokens reserves {reservation:,} blocks"
    if explained.in_flight is not None:
        words += f", {explained.context_blocks:,} of them for its context and the rest for "
        words += f"{explained.in_flight:,} tokens in flight"
    pool = _plain_size(explained)
    if pool is not None:
        return (
            f"{blocks:,} blocks of {pool} tokens = {blocks * pool:,} tokens; one full-length request of {length:,} "
            f"tokens takes {reservation:,} blocks: {blocks / reservation:.2f}x"
            + (f", reported as {report.tokens:,} tokens." if report.tokens not in (None, blocks * pool) else ".")
        )
    words += f"; {blocks:,} / {reservation:,} × {length:,} = {reported_tokens(blocks, reservation, length):,} tokens"
    if explained.inferred:
        words += f"; {' and '.join(explained.inferred)} inferred from the fit of tokens and GiB"
    if explained.chance is not None:
        words += f"; a random count would fit with chance {explained.chance:.1%}, GiB left aside"
    return words + "."
