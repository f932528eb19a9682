"""The order of loads, fixed before the first of them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.campaign_file import LoadOrder
from anvil_tui.records.plan import PlannedLoad


def loads_in_order(
    order: LoadOrder | None, blocks: int, lanes: Mapping[ArmRole, str], seed: int | None = None
) -> tuple[PlannedLoad, ...]:
    """The loads of `blocks` blocks, the lane of each arm by its name. Without an order a block is one of the candidate.

    AB repeats baseline, candidate. ABA loads the baseline again after the candidate (bracketed replay). ABBA turns
    every second block round, so that a steady drift cancels over two of them. `random` draws by `seed` which block of
    each two consecutive ones is AB; the other one is BA, so that the arms lead equally often (an odd last block is
    drawn alone). The draw is the lowest bit of the first byte of SHA-256 of "<seed>:<pair>", in ASCII, pairs counted
    from 0: the same on every machine and Python version. Raises ValueError for random order without a seed.
    """
    return tuple(
        PlannedLoad(number=number, block=block, arm=arm, lane=lanes[arm], replay=replay)
        for number, (block, arm, replay) in enumerate(_loads(order, blocks, seed))
    )


def letter(load: PlannedLoad) -> str:
    """A for the baseline, B for the candidate, A' for a replay of the baseline."""
    return ("A" if load.arm == "baseline" else "B") + ("'" if load.replay else "")


def _loads(order: LoadOrder | None, blocks: int, seed: int | None) -> Iterator[tuple[int, ArmRole, bool]]:
    for block in range(1, blocks + 1):
        if order is None:
            yield block, "candidate", False
            continue
        for arm in ("baseline", "candidate") if _baseline_leads(order, block, seed) else ("candidate", "baseline"):
            yield block, arm, False
        if order == "ABA":
            yield block, "baseline", True


def _baseline_leads(order: LoadOrder, block: int, seed: int | None) -> bool:
    pair, second = divmod(block - 1, 2)
    match order:
        case "AB" | "ABA":
            return True
        case "ABBA":
            return not second
        case "random":
            if seed is None:
                raise ValueError("random order needs a seed")
            drawn = hashlib.sha256(f"{seed}:{pair}".encode("ascii")).digest()[0] & 1
            return bool(drawn) != bool(second)
