"""A lane profile: one way to serve a model, as its TOML file tells it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Positive = Annotated[int, Meta(gt=0)]
Text = Annotated[str, Meta(min_length=1)]
Scalar = str | int | float | bool
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
EngineName = Literal["vllm", "sglang", "llamacpp", "trtllm"]
GpuSource = Literal["nvml", "rehearsal", "none"]


class Identity(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is served and by what; enough for someone else to serve the same."""

    model: Text
    engine: EngineName
    model_revision: str | None = None
    engine_revision: str | None = None
    image: str | None = None
    """By digest, `name@sha256:…`."""
    runtime: str | None = None
    hardware: str | None = None
    topology: str | None = None


class Speculation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Speculative decoding: the method and how many tokens are drafted a step."""

    method: Text
    tokens: Positive


class Recipe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The settings that decide behaviour. argv and env are rendered from these; null means the engine's default."""

    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = None
    max_num_batched_tokens: Positive | None = None
    gpu_memory_utilization: Annotated[float, Meta(gt=0, le=1)] | None = None
    tensor_parallel_size: Positive | None = None
    kv_cache_dtype: str | None = None
    weight_path: str | None = None
    speculation: Speculation | None = None
    cuda_graph_cap: Positive | None = None
    host_kv_offload_gib: Annotated[float, Meta(ge=0)] | None = None
    engine: dict[str, Scalar] = {}
    """Settings that only this engine knows, by their name there."""


class ProcessLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="process"):
    """A lane that is a process on this machine. Texts may refer to `{recipe.…}`, `{endpoint.…}` and `{site.…}`."""

    argv: Annotated[tuple[Text, ...], Meta(min_length=1)]
    env: dict[str, str] = {}
    env_from: tuple[Text, ...] = ()
    """Names of variables passed on from the operator's environment; their values are never written down."""
    cwd: str | None = None


class AttachLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="attach"):
    """A lane that someone else runs: measured here, never started or stopped. `log` is its log file, if any."""

    log: str | None = None


class SimulatedEngine(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a rehearsal engine pretends: rates in real units, divided by `time_scale` when it answers."""

    version: str = "0.32.0"
    time_scale: Annotated[float, Meta(ge=1)] = 60.0
    """How many simulated seconds pass in one second."""
    startup_time_scale: Annotated[float, Meta(ge=1)] | None = None
    """The same for the start-up alone; null: as `time_scale`. Tokens too close together cannot be timed one by one."""
    startup_seconds: Annotated[float, Meta(gt=0)] = 240.0
    prefill_tok_s: Annotated[float, Meta(gt=0)] = 7500.0
    decode_tok_s: Annotated[float, Meta(gt=0)] = 75.0
    output_tokens: Positive = 130
    """Natural length of an answer at effort `high`, reasoning included; answers vary around it."""
    reasoning_tokens: Annotated[int, Meta(ge=0)] = 100
    """How many of them are reasoning; lower and higher efforts scale these alone."""
    weights_gib: Annotated[float, Meta(gt=0)] = 75.64
    peak_activation_gib: Annotated[float, Meta(ge=0)] = 1.73
    non_torch_gib: tuple[float, ...] = (0.35, 0.12)
    """One figure a rank."""
    cuda_graph_gib: Annotated[float, Meta(ge=0)] = 0.04
    kv_gib: Annotated[float, Meta(gt=0)] = 15.27
    """KV cache memory of the smallest rank."""
    kv_blocks: Positive = 15765
    kv_blocks_per_request: Positive = 7278
    """Blocks that one full-length request reserves; reported tokens = blocks / this × max_model_len."""
    acceptance: tuple[float, ...] = ()
    """Probability that the draft token at each position is accepted; empty without speculation."""
    activation_kept: Annotated[float, Meta(ge=0, le=1)] = 0.75
    """Share of the activation memory once used that the allocator does not give back."""
    memory_report: Literal["parts", "consumed"] = "parts"
    """How the log sums memory up: weights and non-torch apart, or as one figure (vLLM 0.32)."""


class SimulatedGpu(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One simulated GPU, all figures in MiB."""

    uuid: Text
    name: str = "Simulated RTX PRO 6000 Blackwell 96 GB"
    total_mib: Positive = 97887
    reserved_mib: Annotated[int, Meta(ge=0)] = 448
    host_mib: Annotated[int, Meta(ge=0)] = 0
    """What the host's desktop holds of it."""
    overhead_mib: Annotated[int, Meta(ge=0)] = 550
    """CUDA context and what the engine uses beyond its own budget."""


class RehearsalLaunch(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="rehearsal"):
    """A simulated engine and simulated GPUs; never evidence."""

    engine: SimulatedEngine = SimulatedEngine()
    gpus: tuple[SimulatedGpu, ...] = ()


Launch = ProcessLaunch | AttachLaunch | RehearsalLaunch
LaunchKind = Literal["process", "attach", "rehearsal"]


class Endpoint(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the lane answers, and the defaults of what is asked of it."""

    base_url: Annotated[str, Meta(pattern=r"^https?://[^/\s:]+(:[0-9]+)?(/[^\s]*)?$")]
    """Without `/v1`."""
    served_name: Text
    startup_timeout_s: Annotated[float, Meta(gt=0)] = 1800.0
    api_key_env: str | None = None
    max_tokens: Positive = 2048
    margin: Annotated[int, Meta(ge=0)] = 1024
    """Tokens left free between prompt + max_tokens and the model's length."""
    reasoning_effort: Effort | None = None


class Gpus(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which GPUs the lane occupies and how much of each must stay free."""

    source: GpuSource = "nvml"
    devices: Literal["all"] | Positive | tuple[Text, ...] = "all"
    """All of them, how many, or UUID prefixes. Never an index: indices change."""
    reserve_mib: Annotated[int, Meta(ge=0)] = 3072
    policy: Literal["enforce", "waived", "off"] = "enforce"
    reason: str | None = None
    """Why the reserve is waived or off; required then."""


class LaneProfile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lane. Its name is the stem of its file name."""

    schema: Literal["anvil-lane/v1"] = "anvil-lane/v1"
    about: str = ""
    identity: Identity
    recipe: Recipe = Recipe()
    launch: Launch
    endpoint: Endpoint
    gpus: Gpus = Gpus()
