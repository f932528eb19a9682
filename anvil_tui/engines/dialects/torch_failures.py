"""How PyTorch and NCCL say that something failed, for every engine that is built on them."""

from __future__ import annotations

import re

from anvil_tui.engines.dialects.shapes import Cause

# WSL counts pinned host memory against the GPU: it is refused although RAM is free.
_PINNED = r"(?:cudaHost(?:Alloc|Register)|cudaMallocHost|cuMemHost(?:Alloc|Register))\b.{0,120}?(?:fail|error|out of)"

CUDA_OOM = (
    Cause("CUDA", _PINNED, kind="pinned_memory"),
    Cause(
        "torch 2.1 ..",
        r"CUDA out of memory\. Tried to allocate {tried:amount}\. GPU {gpu} has a total capaci?ty of {total:amount}"
        r" of which {free:amount} is free",
        kind="cuda_oom",
        wrapped=True,
    ),
    Cause(
        "torch .. 2.0",
        r"CUDA out of memory\. Tried to allocate {tried:amount} \(GPU {gpu}; {total:amount} total capacity;"
        r".{0,80}?; {free:amount} free",
        kind="cuda_oom",
        wrapped=True,
    ),
    Cause("torch", r"CUDA error: out of memory", kind="cuda_oom"),
)

TORCH = (
    Cause("NCCL", r"ncclCuMemMapAndSetAccess", kind="nccl"),
    Cause("NCCL", r"NCCL error in: .{1,200}?, {error:text}(?:,|$)", kind="nccl", depth=0),
    Cause("NCCL", r"NCCL error: {error:text}$", kind="nccl", depth=0),
    Cause("NCCL", r"ncclUnhandledCudaError", kind="nccl", depth=0),
    Cause("torch", r"Watchdog caught collective operation timeout", kind="nccl_timeout", depth=0),
    Cause("torch", r"CUDA error: {error:text}(?:\.|$)", kind="cuda_error"),
    Cause("torch", r"EADDRINUSE", kind="port_in_use"),
)

EXCEPTION = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)\b(?::|$)")
"""The last line of a Python traceback."""
