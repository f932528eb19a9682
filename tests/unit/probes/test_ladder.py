from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.errors import BadInput
from anvil_tui.probes.ladder import Bisection, ascending, geometric


@pytest.mark.parametrize(
    ("first", "last", "factor", "rungs"),
    [
        (8192, 131072, 2.0, (8192, 16384, 32768, 65536, 131072)),
        (1000, 5000, 2.0, (1000, 2000, 4000, 5000)),
        (7, 7, 2.0, (7,)),
        (1, 4, 1.1, (1, 2, 3, 4)),
    ],
)
def test_geometric(first: int, last: int, factor: float, rungs: tuple[int, ...]) -> None:
    assert geometric(first, last, factor) == rungs


def test_geometric_names_every_fault() -> None:
    with pytest.raises(BadInput) as caught:
        geometric(0, -1, 1.0)
    assert len(caught.value.faults) == 3


def test_ascending() -> None:
    assert ascending([5, 1, 5, 3]) == (1, 3, 5)


@settings(max_examples=200, deadline=None)
@given(
    low=st.integers(1, 5000), high=st.integers(1, 300_000), limit=st.integers(0, 400_000), tolerance=st.integers(0, 500)
)
def test_bisection_finds_the_limit(low: int, high: int, limit: int, tolerance: int) -> None:
    search, tries = Bisection(low=low, high=high, tolerance=tolerance), []
    while (tokens := search.next) is not None:
        assert 1 <= tokens <= high
        assert tokens not in tries
        tries.append(tokens)
        search = search.tried(tokens, served=tokens <= limit)
    assert len(tries) < 45
    if search.failed is None:
        assert search.passed == high <= limit
    else:
        assert (search.passed or 0) <= limit < search.failed
        assert search.failed - (search.passed or 0) <= max(1, tolerance)


def test_bisection_tells_what_it_knows() -> None:
    search = Bisection(low=1000, high=4000)
    assert search.words == "nothing was tried"
    assert search.tried(1000, served=False).words == "nothing was served"
    search = search.tried(1000, served=True)
    assert search.words == "1,000 tokens were served"
    assert search.tried(4000, served=True).words == "4,000 tokens were served, the longest that may be tried"
    assert search.tried(2000, served=False).words == "1,000 tokens were served, 2,000 were not"
