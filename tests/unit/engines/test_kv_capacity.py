"""The KV formulas: 18 published token counts of one model family, all exact, and other context lengths."""

from __future__ import annotations

import pytest

from anvil_tui.engines.kv_capacity import (
    GEOMETRIES,
    GIB,
    KvGeometry,
    KvGroup,
    accounting,
    build_line,
    known_geometries,
    matching_blocks,
    reported_tokens,
    tokens_in_flight,
)

PLAIN, DRAFT, UPSTREAM = GEOMETRIES


@pytest.mark.parametrize(
    ("geometry", "tokens", "length", "batch", "reservation", "blocks", "gib"),
    [
        (PLAIN, 283_917, 131_072, 8192, 7278, 15765, 15.27),
        (PLAIN, 553_243, 131_072, 4096, 3911, 16508, 15.99),
        (PLAIN, 257_515, 131_072, 8192, 7278, 14299, None),
        (DRAFT, 138_459, 131_072, 8192, 7345, 7759, None),
        (DRAFT, 725_543, 393_216, 4096, 4992, 9211, None),
        (DRAFT, 996_983, 650_000, 4096, 6017, 9229, 9.26),
        (DRAFT, 1_907_945, 1_000_000, 2048, 5714, 10902, 10.94),
        (DRAFT, 1_849_667, 1_000_000, 2048, 5714, 10569, 10.6),
        (DRAFT, 1_715_610, 1_000_000, 2048, 5714, 9803, 9.83),
        (DRAFT, 506_401, 262_144, 4096, 4470, 8635, None),
        (DRAFT, 503_468, 262_144, 4096, 4470, 8585, None),
        (DRAFT, 506_283, 262_144, 4096, 4470, 8633, None),
        (UPSTREAM, 969_193, 131_072, 8192, 7194, 53195, 49.65),
        (UPSTREAM, 894_492, 131_072, 8192, 7194, 49095, 45.83),
        (UPSTREAM, 892_743, 131_072, 8192, 7194, 48999, 45.74),
        (UPSTREAM, 888_735, 131_072, 8192, 7194, 48779, 45.53),
        (UPSTREAM, 797_689, 393_216, 4096, 4890, 9920, None),
        (UPSTREAM, 1_323_176, 1_048_576, 4096, 7450, 9401, None),
    ],
)
def test_published_counts(
    geometry: KvGeometry, tokens: int, length: int, batch: int, reservation: int, blocks: int, gib: float | None
) -> None:
    found = geometry.blocks_per_request(length, tokens_in_flight(batch))
    assert found == reservation
    assert matching_blocks(tokens, found, length) == blocks
    assert reported_tokens(blocks, found, length) == tokens
    if gib is not None:
        assert blocks * geometry.bytes_per_block / GIB == pytest.approx(gib, abs=0.0065)


@pytest.mark.parametrize(
    ("length", "batch8192", "batch4096"),
    [
        (262_144, 530_105, 977_076),
        (393_216, 745_615, 1_312_150),
        (524_288, 935_846, 1_583_704),
        (1_048_576, 1_516_030, 2_296_655),
    ],
)
def test_other_context_lengths(length: int, batch8192: int, batch4096: int) -> None:
    assert reported_tokens(15765, PLAIN.blocks_per_request(length, 16384), length) == batch8192
    assert reported_tokens(16508, PLAIN.blocks_per_request(length, 8192), length) == batch4096


def test_only_a_small_part_of_a_reservation_is_context() -> None:
    assert PLAIN.context_blocks(131_072) == 512
    assert PLAIN.group_blocks(131_072, 16_384) == {
        "MLA and indexer": 512,
        "sliding window a": 259,
        "sliding window b": 259,
        "C4 state": 4099,
        "C128 state": 2065,
    }


def test_a_window_never_holds_more_than_the_context() -> None:
    assert KvGroup("w", 16, 128).blocks(1_000, 10_000) == 64


def test_a_count_that_is_no_whole_number_of_blocks_matches_none() -> None:
    hits = sum(matching_blocks(tokens, 7278, 131_072) is not None for tokens in range(283_000, 284_000))
    assert hits == pytest.approx(1000 * 7278 / 131_072, abs=2)


@pytest.mark.parametrize(
    ("version", "line", "meaning"),
    [
        ("0.8.5", None, "pool"),
        ("0.10.2", None, "grouped pool"),
        ("0.21.0", None, "admission"),
        ("0.32.0", "0.26 and later", "admission"),
        ("0.26.1rc0+infernal.invocation.r2", "0.26 and later", "admission"),
        ("0.11.2.dev280+gilded.gnosis.v20.vllmfa13d33.b12x06db0f4.cu132.20260809.r33", "r16 to r33", "admission"),
        ("vllm-r16-b12x-dspark5-sm120", "r16 to r33", "admission"),
        ("unknown", None, None),
        (None, None, None),
    ],
)
def test_versions(version: str | None, line: str | None, meaning: str | None) -> None:
    assert build_line(version) == line
    assert accounting(version) == meaning


def test_geometries_follow_what_is_known() -> None:
    assert known_geometries("deepseek-ai/DeepSeek-V4-Flash-0731", "r33", False) == (PLAIN,)
    assert known_geometries("deepseek-ai/DeepSeek-V4-Flash-0731", "r33", None) == (PLAIN, DRAFT)
    assert known_geometries("Qwen/Qwen3-30B", "0.32.0", False) == ()
    assert known_geometries(None, None, None) == GEOMETRIES


def test_in_flight_is_two_batches_unless_scheduling_is_known_to_be_synchronous() -> None:
    assert tokens_in_flight(4096) == 8192
    assert tokens_in_flight(4096, async_scheduling=False) == 4096
