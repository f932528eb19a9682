"""The table of foreign formats; a new one is one file and one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anvil_tui.evidence.imports import aiperf, anvil_serving, lil_bench, llama_benchy, nvidia_smi, vllm_bench
from anvil_tui.records.arm import DraftCounters, GateOutcome, MeasuredRun, MemoryWindow

Imported = MeasuredRun | GateOutcome | MemoryWindow | DraftCounters
Reader = Callable[[Any, str], tuple[Imported, ...]]

FORMATS: tuple[tuple[str, Callable[[Any], bool], Reader], ...] = (
    ("anvil-serving", anvil_serving.recognises, anvil_serving.read),
    ("vLLM serve benchmark", vllm_bench.recognises, vllm_bench.read),
    ("llama-benchy", llama_benchy.recognises, llama_benchy.read),
    ("lil-bench", lil_bench.recognises, lil_bench.read),
    ("aiperf", aiperf.recognises, aiperf.read),
    ("nvidia-smi", nvidia_smi.recognises, nvidia_smi.read),
)
"""Name, whether plain data is of this format, and its reader; the reader raises BadInput."""


def reader_of(data: Any) -> Reader | None:
    """The reader of the first format that recognises `data`, or None."""
    return next((read for _, recognises, read in FORMATS if recognises(data)), None)
