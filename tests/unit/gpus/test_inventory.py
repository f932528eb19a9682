from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anvil_tui.errors import BadInput, CannotRun
from anvil_tui.gpus.inventory import choose, inventory
from anvil_tui.records.vram import Gpu, Inventory, SamplerFailed
from tests.fake_nvml import FakeNvml

A = Gpu(uuid="GPU-4f1c0000-1111-2222-3333-444444444444", name="a", index=1)
B = Gpu(uuid="GPU-4f1d0000-1111-2222-3333-444444444444", name="b", index=0)
SLICED = Gpu(uuid="GPU-99990000-1111-2222-3333-444444444444", name="c", index=2, mig=True)
TWO = Inventory(source="nvml", gpus=(A, B))


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ("all", (B, A)),
        (1, (B,)),
        (2, (B, A)),
        (("GPU-4f1c",), (A,)),
        (("4f1d",), (B,)),
        (("gpu-4F1C", "4f1d0000-1111"), (A, B)),
        ((A.uuid,), (A,)),
    ],
)
def test_chosen(devices: Any, expected: tuple[Gpu, ...]) -> None:
    assert choose(devices, TWO) == expected


@pytest.mark.parametrize(
    ("devices", "found", "error", "words"),
    [
        (3, TWO, CannotRun, "3 GPUs are wanted, 2 are here"),
        ("all", Inventory(source="nvml", gpus=()), CannotRun, "there is none"),
        ("all", Inventory(source="nvml", gpus=(A,), unreadable=("GPU 0: GPU_IS_LOST",)), CannotRun, "GPU_IS_LOST"),
        (2, Inventory(source="nvml", gpus=(A,), unreadable=("GPU 0: GPU_IS_LOST",)), CannotRun, "GPU_IS_LOST"),
        (("GPU-dead",), TWO, CannotRun, "begins with 'GPU-dead'"),
        (("4f1c", "GPU-dead"), TWO, CannotRun, "gpus.devices[1]"),
        (("GPU-4f1c", A.uuid), TWO, BadInput, "named twice"),
        (("GPU-0", "1"), TWO, BadInput, "4 characters"),
        (("MIG-4f1c0000",), TWO, BadInput, "MIG slice"),
        ((), TWO, BadInput, "empty list"),
        ("all", Inventory(source="nvml", gpus=(SLICED,)), CannotRun, "MIG is on"),
    ],
)
def test_refused(devices: Any, found: Inventory, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        choose(devices, found, profile="lanes/x.toml")
    assert words in str(caught.value)


def test_a_prefix_of_two_gpus_is_refused_with_both() -> None:
    with pytest.raises(BadInput) as caught:
        choose(("4f1c0000",), Inventory(source="nvml", gpus=(A, Gpu(uuid=A.uuid[:-1] + "5", name="d", index=3))))
    assert A.uuid in str(caught.value)


def test_asked_of_the_driver(nvml: FakeNvml) -> None:
    found = asyncio.run(inventory("nvml"))
    assert isinstance(found, Inventory)
    assert [gpu.index for gpu in found.gpus] == [0, 1]
    assert nvml.calls()["InitWithFlags"] == 1


def test_a_driver_that_does_not_answer(nvml: FakeNvml) -> None:
    nvml.write(hang__InitWithFlags=1)
    found = asyncio.run(inventory("nvml", start_s=0.5))
    assert isinstance(found, SamplerFailed)
    assert "no line for 0.5 s" in found.reason
