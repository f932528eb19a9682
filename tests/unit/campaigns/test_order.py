"""The order of loads: fixed by the file alone, and balanced."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.campaigns.pairs.order import letter, loads_in_order
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.campaign_file import LoadOrder

LANES: dict[ArmRole, str] = {"baseline": "old", "candidate": "new"}


def letters(order: LoadOrder | None, blocks: int, seed: int | None = None) -> list[str]:
    """The letters of each block, joined."""
    loads = loads_in_order(order, blocks, LANES, seed)
    return ["".join(letter(one) for one in loads if one.block == block) for block in range(1, blocks + 1)]


@pytest.mark.parametrize(
    ("order", "blocks", "expected"),
    [
        ("AB", 3, ["AB", "AB", "AB"]),
        ("ABA", 2, ["ABA'", "ABA'"]),
        ("ABBA", 4, ["AB", "BA", "AB", "BA"]),
        (None, 2, ["B", "B"]),
    ],
)
def test_fixed_orders(order: LoadOrder | None, blocks: int, expected: list[str]) -> None:
    assert letters(order, blocks) == expected


def test_random_order_is_the_documented_draw() -> None:
    """SHA-256 of "1:0", "1:1" and "1:2" begins with a6, d6 and 67, that of "5:0" … with b3, a5, 03."""
    assert letters("random", 6, 1) == ["BA", "AB", "BA", "AB", "AB", "BA"]
    assert letters("random", 5, 5) == ["AB", "BA", "AB", "BA", "AB"]
    with pytest.raises(ValueError, match="seed"):
        loads_in_order("random", 1, LANES)


@settings(max_examples=50)
@given(st.sampled_from(["AB", "ABA", "ABBA", "random"]), st.integers(1, 30), st.integers(0, 2**40))
def test_every_block_holds_each_arm_once(order: LoadOrder, blocks: int, seed: int) -> None:
    loads = loads_in_order(order, blocks, LANES, seed)
    assert [one.number for one in loads] == list(range(len(loads)))
    assert [one.block for one in loads] == sorted(one.block for one in loads)
    assert all(one.lane == LANES[one.arm] for one in loads)
    for block in range(1, blocks + 1):
        inside = [one for one in loads if one.block == block]
        assert sorted(one.arm for one in inside if not one.replay) == ["baseline", "candidate"]
        assert [one.arm for one in inside if one.replay] == (["baseline"] if order == "ABA" else [])


@settings(max_examples=50)
@given(st.integers(1, 15), st.integers(0, 2**40))
def test_in_random_order_the_arms_lead_equally_often(pairs: int, seed: int) -> None:
    blocks = letters("random", 2 * pairs, seed)
    assert blocks.count("AB") == blocks.count("BA") == pairs
    assert letters("random", 2 * pairs, seed) == blocks
