"""The start-up log of the simulated engine, in the dialect of vLLM 0.32, as a script of what is written when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.rehearsal import figures
from anvil_tui.rehearsal.memory import BUSY_LOAD, BUSY_PREFILL, Held

_BANNER = (
    "",
    "       █     █     █▄   ▄█",
    " ▄▄ ▄█ █     █     █ ▀▄▀ █  version {version}",
    "  █▄█▀ █     █     █     █  model   {model}",
    "   ▀▀  ▀▀▀▀▀ ▀▀▀▀▀ ▀     ▀",
    "",
)
_SHARDS, _GRAPHS_PROFILED, _GRAPHS_CAPTURED = 46, 9, 12
_SLOP_BYTES = 150 << 20
"""vLLM takes this off its own suggestions of `--kv-cache-memory`."""


@dataclass(frozen=True)
class Line:
    """A line that the engine logs at `at` simulated seconds after launch; `held` is what it holds from then on."""

    at: float
    who: str
    where: str
    message: str
    level: str = "INFO"
    held: Held | None = None


@dataclass(frozen=True)
class Bar:
    """One redraw of a progress bar, which goes to stderr: `first` opens its line, `last` ends it."""

    at: float
    who: str
    message: str
    first: bool
    last: bool
    held: Held | None = None


Entry = Line | Bar


def written(entry: Entry, pid: int, stamp: str) -> str:
    """An entry as it stands in the log; `stamp` is vLLM's `MM-DD HH:MM:SS`, local time.

    One process plays all of vLLM's. Those after the API server get the numbers after its `pid`, for readers of such
    logs tell the ranks apart by them.
    """
    who = f"({entry.who} pid={pid + _place(entry.who)}) "
    if isinstance(entry, Line):
        return f"{who}{entry.level} {stamp} [{entry.where}] {entry.message}\n"
    return (who if entry.first else "\r") + entry.message + ("\n" if entry.last else "")


def _place(who: str) -> int:
    """0 for the API server, 1 for the engine core, then the ranks."""
    _, worker, rank = who.partition("Worker_TP")
    return 2 + int(rank) if worker else int(who == "EngineCore")


def opening(config: EngineConfig) -> Iterator[Entry]:
    """Launch to the devices' start: the engine's words before it touches a GPU."""
    whole = config.engine.startup_seconds
    for text in _BANNER:
        message = text.format(version=config.engine.version, model=config.model)
        yield Line(0.0, "APIServer", "api_utils.py:347", message)
    yield Line(0.0, "APIServer", "api_utils.py:286", f"non-default args: {_arguments(config)!r}")
    yield Line(0.02 * whole, "APIServer", "model.py:733", f"Resolved architecture: {_architecture(config.model)}")
    yield Line(0.02 * whole, "APIServer", "model.py:2152", f"Using max model len {figures.max_model_len(config)}")
    chunked = f"Chunked prefill is enabled with max_num_batched_tokens={figures.batch_tokens(config)}."
    yield Line(0.02 * whole, "APIServer", "scheduler.py:242", chunked)
    yield Line(0.05 * whole, "EngineCore", "core.py:133", _engine_words(config))
    ranks = len(figures.devices(config))
    for rank in range(ranks):
        worker = _worker(config, rank)
        words = (
            f"world_size={ranks} rank={rank} local_rank={rank} distributed_init_method=tcp://127.0.0.1:0 backend=nccl"
        )
        yield Line(0.07 * whole, worker, "parallel_state.py:1906", words)
    yield Line(0.08 * whole, _worker(config, 0), "pynccl.py:113", "vLLM is using nccl==2.28.9")
    for rank in range(ranks):
        words = f"rank {rank} in world size {ranks} is assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank {rank}"
        yield Line(0.09 * whole, _worker(config, rank), "parallel_state.py:2350", words, held=Held(context=True))


def loading(config: EngineConfig, free_gib: Sequence[float]) -> Iterator[Entry]:
    """Weights to ready; `free_gib` is what each device had free at start, its own context taken off."""
    engine, whole = config.engine, config.engine.startup_seconds
    ranks = range(len(figures.devices(config)))
    first = _worker(config, 0)
    held = Held(context=True, busy_pct=BUSY_LOAD)

    for rank in ranks:
        words = f"Starting to load model {config.model}..."
        yield Line(0.10 * whole, _worker(config, rank), "model_runner.py:391", words)
    span = 0.30 * whole
    for done in range(_SHARDS + 1):
        at = 0.11 * whole + span * done / _SHARDS
        bar = _bar("Loading safetensors checkpoint shards", done, _SHARDS, span * done / _SHARDS, completed=True)
        yield Bar(at, first, bar, done == 0, done == _SHARDS, replace(held, weights=done / _SHARDS))
    held = replace(held, weights=1.0, non_torch=True, busy_pct=0)
    yield Line(0.42 * whole, first, "default_loader.py:471", f"Loading weights took {span:.2f} seconds")
    for rank in ranks:
        seconds = 0.32 * whole - 0.227312 * rank
        words = f"Model loading took {_gib(engine.weights_gib)} GiB and {seconds:.6f} seconds"
        yield Line(0.42 * whole, _worker(config, rank), "model_runner.py:456", words, held=held)

    compiling = 0.12 * whole
    yield Line(0.46 * whole, first, "backends.py:1089", f"Dynamo bytecode transform time: {compiling * 0.4:.2f} s")
    words = f"Compiling a graph for compile range (1, {figures.batch_tokens(config)}) takes {compiling * 0.6:.2f} s"
    yield Line(0.53 * whole, first, "backends.py:391", words)
    profiling = replace(held, activation=1.0, busy_pct=BUSY_PREFILL)
    words = f"torch.compile took {compiling:.2f} s in total"
    yield Line(0.54 * whole, first, "monitor.py:53", words, held=profiling)
    words = f"Initial profiling/warmup run took {0.05 * whole:.2f} s"
    yield Line(0.59 * whole, first, "monitor.py:81", words, held=held)
    yield from _bars(first, "Profiling CUDA graph memory (PIECEWISE)", _GRAPHS_PROFILED, 0.60 * whole, 0.06 * whole)
    words = f"Estimated CUDA graph memory: {figures.graph_estimate(config):.2f} GiB total"
    for rank in ranks:
        yield Line(0.67 * whole, _worker(config, rank), "gpu_model_runner.py:6721", words)

    for rank in ranks if engine.memory_report == "parts" else ranks[:1]:
        words = f"Available KV cache memory: {_gib(figures.kv_available(config, rank))} GiB"
        yield Line(0.68 * whole, _worker(config, rank), "gpu_worker.py:646", words)
    held = replace(held, kv=True)
    words = (
        f"GPU KV cache size: {figures.kv_tokens(config):,} tokens, Maximum concurrency for "
        f"{figures.max_model_len(config):,} tokens per request: {figures.kv_concurrency(config):.2f}x"
    )
    yield Line(0.69 * whole, "EngineCore", "kv_cache_utils.py:2327", words, held=held)

    kinds = ("mixed prefill-decode, PIECEWISE", "decode, FULL")
    for part, kind in enumerate(kinds):
        begin = (0.70 + 0.10 * part) * whole
        yield from _bars(first, f"Capturing CUDA graphs ({kind})", _GRAPHS_CAPTURED, begin, 0.09 * whole)
    held = replace(held, graphs=True)
    words = f"Graph capturing finished in {0.20 * whole:.0f} secs, took {engine.cuda_graph_gib:.2f} GiB"
    yield Line(0.91 * whole, first, "gpu_model_runner.py:6789", words, held=held)
    for rank in ranks:
        yield Line(0.92 * whole, _worker(config, rank), "gpu_worker.py:813", _graph_words(config))
        words = _memory_words(config, rank, free_gib[rank])
        yield Line(0.92 * whole, _worker(config, rank), "gpu_worker.py:876", words)
    took = f"took {0.50 * whole:.2f} s (compilation: {compiling:.2f} s)"
    words = f"init engine (profile, create kv cache, warmup model) {took}"
    yield Line(0.94 * whole, "EngineCore", "core.py:402", words)
    yield Line(0.96 * whole, "APIServer", "entry.py:136", "Supported tasks: ['generate']")
    yield Line(0.96 * whole, "APIServer", "parser_manager.py:38", '"auto" tool choice has been enabled.')
    words = f"Starting vLLM server on http://{config.host}:{config.port}"
    yield Line(0.98 * whole, "APIServer", "entry.py:140", words)
    yield Line(1.0 * whole, "APIServer", "launcher.py:186", "Available routes are:")


def too_little_memory(config: EngineConfig, rank: int, free_gib: float) -> Iterator[Line]:
    """What vLLM says and dies of where a device has less free than the budget asks."""
    error = (
        f"ValueError: Free memory on device cuda:{rank} ({_gib(free_gib)}/{_gib(figures.device_total(config))} GiB) on "
        f"startup is less than desired GPU memory utilization ({figures.utilization(config)}, "
        f"{_gib(figures.desired(config))} GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
        "processes."
    )
    at = 0.10 * config.engine.startup_seconds
    yield Line(at, _worker(config, rank), "multiproc_executor.py:492", "WorkerProc failed to start.", "ERROR")
    yield Line(at, _worker(config, rank), "multiproc_executor.py:492", error, "ERROR")
    yield Line(at, "EngineCore", "core.py:515", "EngineCore failed to start.", "ERROR")
    words = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
    yield Line(at, "APIServer", "entry.py:140", words, "ERROR")


def _worker(config: EngineConfig, rank: int) -> str:
    return f"Worker_TP{rank}" if len(figures.devices(config)) > 1 else "EngineCore"


def _arguments(config: EngineConfig) -> dict[str, object]:
    """The command line that vLLM would have been given, defaults left out."""
    recipe = config.recipe
    given: dict[str, object] = {
        "enable_auto_tool_choice": True,
        "enable_prompt_tokens_details": True,
        "host": config.host,
        "port": config.port,
        "model": config.model,
        "max_model_len": recipe.max_model_len,
        "served_model_name": [config.served_name],
        "tensor_parallel_size": recipe.tensor_parallel_size,
        "gpu_memory_utilization": recipe.gpu_memory_utilization,
        "kv_cache_dtype": recipe.kv_cache_dtype,
        "max_num_batched_tokens": recipe.max_num_batched_tokens,
        "max_num_seqs": recipe.max_num_seqs,
    }
    return {name: value for name, value in given.items() if value is not None}


def _architecture(model: str) -> str:
    family = model.rsplit("/", 1)[-1].split("-")
    return "".join(part.capitalize() for part in family[:2] if part.isalnum()) + "ForCausalLM"


def _engine_words(config: EngineConfig) -> str:
    drafted = config.recipe.speculation
    speculative = f"SpeculativeConfig(method={drafted.method!r}, num_spec_tokens={drafted.tokens})" if drafted else None
    return (
        f"Initializing a V1 LLM engine (v{config.engine.version}) with config: model={config.model!r}, "
        f"speculative_config={speculative}, tokenizer={config.model!r}, dtype=torch.bfloat16, "
        f"max_seq_len={figures.max_model_len(config)}, load_format=auto, "
        f"tensor_parallel_size={len(figures.devices(config))}, pipeline_parallel_size=1, "
        f"kv_cache_dtype={config.recipe.kv_cache_dtype or 'auto'}, served_model_name={config.served_name}, "
        f"enable_prefix_caching=True, enable_chunked_prefill=True"
    )


def _graph_words(config: EngineConfig) -> str:
    actual, estimated = config.engine.cuda_graph_gib, figures.graph_estimate(config)
    off = abs(actual - estimated)
    share = f" ({off / actual * 100:.1f}%)" if actual else ""
    return (
        f"CUDA graph pool memory: {actual:.2f} GiB (actual), {estimated:.2f} GiB (estimated), "
        f"difference: {off:.2f} GiB{share}."
    )


def _memory_words(config: EngineConfig, rank: int, free_gib: float) -> str:
    """The sum of one rank's memory, with vLLM's own suggestions of a KV size."""
    engine = config.engine
    weights, outside, peak = engine.weights_gib, figures.non_torch(config, rank), engine.peak_activation_gib
    graphs = engine.cuda_graph_gib
    if engine.memory_report == "parts":
        activation = f"{_gib(peak)} GiB for peak activation"
        parts = f"{_gib(weights)} GiB for weight, {activation}, {_gib(outside)} GiB for non-torch memory"
    else:
        peak += figures.graph_estimate(config)
        consumed = f"{_gib(weights + outside)} GiB for consumed memory (weights + non-torch)"
        parts = f"{consumed}, {_gib(peak)} GiB for peak activation"
    taken = weights + outside + peak + graphs
    to_fit, to_fill = (int((size - taken) * 2**30) - _SLOP_BYTES for size in (figures.desired(config), free_gib))
    return (
        f"Free memory on device ({_gib(free_gib)}/{_gib(figures.device_total(config))} GiB) on startup. Desired GPU "
        f"memory utilization is ({figures.utilization(config)}, {_gib(figures.desired(config))} GiB). "
        f"Actual usage is {parts}, "
        f"and {_gib(graphs)} GiB for CUDAGraph memory. Replace gpu_memory_utilization config with "
        f"`--kv-cache-memory={to_fit}` ({_gib(to_fit / 2**30)} GiB) to fit into requested memory, or "
        f"`--kv-cache-memory={to_fill}` ({_gib(to_fill / 2**30)} GiB) to fully utilize gpu memory. "
        f"Current kv cache memory in use is {_gib(figures.kv_available(config, rank))} GiB."
    )


def _bars(who: str, title: str, total: int, begin: float, span: float) -> Iterator[Bar]:
    for done in range(total + 1):
        seconds = span * done / total
        yield Bar(begin + seconds, who, _bar(title, done, total, seconds), done == 0, done == total)


def _bar(title: str, done: int, total: int, seconds: float, *, completed: bool = False) -> str:
    """A progress bar as tqdm draws it."""
    share = done / total
    if done:
        each = seconds / done
        rate = f"{each:5.2f}s/it" if each > 1 else f"{1 / each:5.2f}it/s"
        times = f"{_clock(seconds)}<{_clock(each * (total - done))}, {rate}"
    else:
        times = "00:00<?, ?it/s"
    drawn = "Completed |" if completed else f"|{'█' * int(share * 10):<10}|"
    return f"{title}: {share * 100:3.0f}% {drawn} {done}/{total} [{times}]".replace("% |", "%|")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


def _gib(size: float) -> str:
    """vLLM rounds to two places and drops trailing zeros."""
    return str(round(size, 2))
