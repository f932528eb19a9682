from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.gpus.typeperf import Adapter, Columns, adapters, columns

ONE, TWO = "luid_0x00000000_0x0000d2f4_phys_0", "luid_0x00000000_0x0000e1a1_phys_0"


def header(dedicated: str = r"GPU Adapter Memory({})\Dedicated Usage", shared: str = "") -> str:
    shared = shared or dedicated.replace("Dedicated", "Shared")
    names = [dedicated.format(ONE), dedicated.format(TWO), shared.format(ONE), shared.format(TWO)]
    return '"(PDH-CSV 4.0)",' + ",".join(f'"\\\\HOST\\{name}"' for name in names)


@pytest.mark.parametrize(
    "line",
    [
        header(),
        header(r"GPU-Adapterspeicher({})\Dedizierte Nutzung", r"GPU-Adapterspeicher({})\Gemeinsame Nutzung"),
        header(r"GPU Adapter Memory({})\D\ufffddi\ufffd, x", "GPU ({}) y"),
        header().upper().replace("LUID_0X", "luid_0x"),
    ],
)
def test_columns_are_told_by_adapter_and_order(line: str) -> None:
    assert columns(line) == Columns(width=5, adapters=((ONE, 1, 3), (TWO, 2, 4)))


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Error: No valid counters.",
        '"06/12/2026 10:11:12.345","1","2"',
        '"(PDH-CSV 4.0)"',
        '"(PDH-CSV 4.0)","x',
        "a,b",
    ],
)
def test_what_is_no_header(line: str) -> None:
    assert columns(line) is None


@pytest.mark.parametrize(
    ("cell", "figure"),
    [
        ("1048576.000000", 1048576),
        ("1048576,000000", 1048576),
        (" ", None),
        ("-1", None),
        ("18446744073709551615.000000", None),
        ("nan", None),
        ("inf", None),
        ("0.000000", 0),
    ],
)
def test_figures(cell: str, figure: int | None) -> None:
    head = columns(header())
    assert head is not None
    row = adapters(f'"12.06.2026 10:11:12,345","5.0","6.0","{cell}","7"', head)
    assert row == (Adapter(luid=ONE, dedicated=5, shared=figure), Adapter(luid=TWO, dedicated=6, shared=7))


@pytest.mark.parametrize("line", ["", "Exiting, please wait...", '"12.06.2026","1"', '"1","2","3","4","5","6"', '"1'])
def test_what_is_no_row(line: str) -> None:
    head = columns(header())
    assert head is not None
    assert adapters(line, head) is None


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet='"(),\\-.0123456789PDH-CSV luid_x\x00é', max_size=120))
def test_nothing_breaks_it(line: str) -> None:
    head = columns(line) or columns(header())
    assert head is not None
    adapters(line, head)
