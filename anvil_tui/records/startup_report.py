"""What a start-up log says: KV, memory, phases, failure; each figure with the line it came from."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

State = Literal["loading", "ready", "failed", "died_after_ready"]


class Source(Struct, frozen=True, kw_only=True):
    """Where in the log a figure stands. `line` counts from 1 as the engine wrote lines; `offset` is in bytes."""

    line: int
    offset: int
    text: str


class Figure(Struct, frozen=True, kw_only=True):
    """One figure and its line. `shape` names the table row (and so the engine versions) that read it."""

    value: float | int
    source: Source
    shape: str = ""
    also: tuple[Source, ...] = ()
    """Further lines, where the value is the sum of several."""


class Word(Struct, frozen=True, kw_only=True):
    """One textual fact and its line."""

    value: str
    source: Source
    shape: str = ""


class Phase(Struct, frozen=True, kw_only=True):
    """A phase of a start: when the log first spoke of it, and how long it took where the log says so."""

    name: str
    source: Source
    at: str | None = None
    """The log's own time stamp, as it stands there."""
    seconds: float | None = None


class Failure(Struct, frozen=True, kw_only=True):
    """Why a start or a running engine failed: the root cause, not its echoes."""

    kind: str
    message: str
    source: Source
    figures: dict[str, float | int | str] = {}
    """What the failure text says in numbers; a text where it carries its own unit (`14.71 GiB`)."""


class Unread(Struct, frozen=True, kw_only=True):
    """A line with KV, memory or GiB figures that matched no shape."""

    source: Source


class IdentityCheck(Struct, frozen=True, kw_only=True):
    """A sum that must hold if the log was read right, per rank."""

    rule: str
    rank: str
    left: float
    right: float
    holds: bool


class StartupReport(Struct, frozen=True, kw_only=True):
    """One attempt to start, as its log tells it. A dict is keyed by rank; an empty one and null mean "not said"."""

    schema: Literal["anvil-startup-report/v1"] = "anvil-startup-report/v1"
    engine: str
    engine_version: Word | None = None
    state: State = "loading"
    attempt: int = 1
    ranks: int | None = None

    max_model_len: Figure | None = None
    kv_available_gib: dict[str, Figure] = {}
    kv_in_use_gib: dict[str, Figure] = {}
    kv_pool_gib: dict[str, Figure] = {}
    """SGLang, llama.cpp and TensorRT-LLM: size of the allocated pool."""
    kv_tokens: Figure | None = None
    """Never a sum: null where several engine cores reported different figures, which `groups` then holds."""
    max_concurrency: Figure | None = None
    weights_gib: dict[str, Figure] = {}
    consumed_gib: dict[str, Figure] = {}
    peak_activation_gib: dict[str, Figure] = {}
    non_torch_gib: dict[str, Figure] = {}
    cuda_graph_gib: dict[str, Figure] = {}
    cuda_graph_estimated_gib: dict[str, Figure] = {}
    desired_gib: dict[str, Figure] = {}
    device_total_gib: dict[str, Figure] = {}
    weights_load_seconds: dict[str, Figure] = {}
    model_load_seconds: dict[str, Figure] = {}
    engine_init_seconds: Figure | None = None
    compile_seconds: Figure | None = None

    figures: dict[str, Figure] = {}
    """Other figures: num_gpu_blocks, n_ctx, kv_bytes, projected_mib …"""
    groups: dict[str, dict[str, Figure]] = {}
    """Figures that belong together: `kv_buffer_mib` by device, `kv_tokens` by engine core, `spec` by name …"""
    facts: dict[str, Word] = {}
    """Other words and numbers: kv_cache_dtype, attention_backend, max_num_batched_tokens, speculation …"""
    phases: tuple[Phase, ...] = ()
    """In the order in which the log first spoke of them."""
    last_phase: str | None = None
    """The phase that the log spoke of last; where a silent start hangs."""
    failure: Failure | None = None
    checks: tuple[IdentityCheck, ...] = ()
    unread: tuple[Unread, ...] = ()
    unread_count: int = 0
    lines: int = 0
    bytes: int = 0
