"""What vLLM says about other memory: known, so that it is not counted as unread, but no figure of a report."""

from __future__ import annotations

from anvil_tui.engines.dialects.shapes import Shape

ASIDES: tuple[Shape, ...] = (
    # --- memory profiling, at DEBUG ---
    Shape("0.8 .. 0.32", r"Initial free memory: {} GiB; Requested memory: {} \(util\), {} GiB"),
    Shape("0.8 .. 0.32", r"Free memory after profiling: {} GiB \(total\), {} GiB \(within requested\)"),
    Shape("0.10 .. 0.32", r"worker (?:init memory snapshot|requested memory): "),
    Shape(
        "0.8 .. 0.32",
        r"Memory profiling takes {profile_seconds} seconds\. Total non KV cache memory: ",
        phase="profile",
    ),
    Shape("0.20 .. 0.32", r"Estimated .{1,40} CUDA graph memory: {} MiB (?:first-capture|for {} graphs)"),
    Shape("0.32", r"Free memory grew by {} GiB during profiling"),
    Shape("0.32", r"Peak GPU memory after loading weights: {} GiB"),
    Shape("0.32", r"Startup plan (?:not )?applied: .* GiB\)"),
    Shape("0.32", r".*?kv_cache_memory_bytes={} \({} GiB\), recorded free-memory baseline"),
    # --- checkpoint and host memory ---
    Shape("0.15 .. 0.32", r"Filesystem type for checkpoints: "),
    Shape("0.15 .. 0.32", r"(?:Network filesystem|Auto-prefetch is disabled|safetensors_load_strategy=)"),
    Shape("0.32", r"Weights are held outside this process: of the {} GiB"),
    Shape("V0", r"(?:Possibly too large|Too large) swap space\."),
    Shape("0.32", r"Cgroup memory preflight for "),
    # --- graphs, compilation, workspaces ---
    Shape("V0", r"Capturing the model for CUDA graphs\.", phase="graph_capture"),
    Shape("V0", r"Capturing cudagraphs for decoding\.", phase="graph_capture"),
    Shape("V0", r"CUDA graphs can take additional 1~3 GiB memory per GPU\."),
    Shape("0.15 .. 0.32", r"Encoder graph capturing finished in {} secs, took {encoder_graph_gib} GiB"),
    Shape("0.12 .. 0.32", r"(?:\[WORKSPACE DEBUG\] )?Resized workspace from "),
    Shape("0.15 .. 0.32", r"TokenSpeed MLA decode workspace: {} GiB"),
    Shape("0.12 .. 0.32", r"Sparse MLA top-k mask workspace \({} MiB\)"),
    Shape("0.12 .. 0.32", r"Custom quick allreduce: min size override = {} MB"),
    Shape("0.12 .. 0.32", r"Flashinfer max size: {} MB"),
    # --- multi-modal, offload, sleep ---
    Shape(
        "0.32", r"Reserving {} GiB of GPU memory for .* KV cache memory reduced to {kv_available_gib} GiB", strength=1
    ),
    Shape("0.9 .. 0.32", r"Calculated size of .* to be {} GiB"),
    Shape("0.9 .. 0.32", r"Media cache enabled at "),
    Shape("0.6 .. 0.32", r"CuMemAllocator: sleep freed {} GiB memory"),
    Shape("0.6 .. 0.32", r"Sleep mode freed {} GiB memory, {} GiB memory is still in use"),
    Shape("0.20 .. 0.32", r"SimpleCPUOffloadWorker \[(?:CPU|DISK)\]: "),
    Shape(
        "0.20 .. 0.32", r"(?:DiskBackend: |Created (?:EC )?mmap file |Host-registered mmap region|host_register failed)"
    ),
    Shape("0.20 .. 0.32", r"torch\.zeros pinned tensor "),
    Shape("0.20 .. 0.32", r".*?Total GPU memory saved: "),
    Shape("0.32", r"(?:kv cache group sizes|kv lcm block sizes) "),
    Shape("0.32", r"Using block size {} for hidden-state cache layer "),
    Shape("0.10 .. 0.32", r".{0,40}?MFU: {} TF/s/device {} GB/s/device"),
    # --- while it runs: prompts and answers may say anything ---
    Shape("all", r"(?:Received|Generated|Added) (?:request|response) "),
    Shape("0.8 .. 0.32", r"KV Transfer metrics: "),
)
