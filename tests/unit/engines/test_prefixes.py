"""The prefix stack: whatever stands before a message, the figure is read and goes to the right rank."""

import codecs
import json

import pytest

from anvil_tui.engines.startup_log import StartupLog
from tests.unit.engines.logs import report

HEAD = "INFO 10-05 10:04:21 [gpu_worker.py:646] "
AVAILABLE = "Available KV cache memory: 45.83 GiB"


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        # V0 and V1 before 0.9: no prefix, or a worker's; the file without its bracket until 2025-02
        (f"INFO 10-05 10:04:21 gpu_worker.py:646] {AVAILABLE}", "driver"),
        (f"{HEAD}{AVAILABLE}", "driver"),
        (f"(VllmWorkerProcess pid=607) {HEAD}{AVAILABLE}", "pid607"),
        (f"(RayWorkerWrapper pid=2101, ip=192.0.2.7) {HEAD}{AVAILABLE}", "pid2101"),
        (f"(RayWorkerVllm pid=9) {HEAD}{AVAILABLE} [repeated 3x across cluster]", "pid9"),
        (f"(VllmWorker rank=1 pid=12) {HEAD}{AVAILABLE}", "rank1"),
        # 0.10.1
        (f"(EngineCore_0 pid=5) {HEAD}{AVAILABLE}", "EngineCore_0"),
        (f"(VllmWorker TP6 pid=5) {HEAD}{AVAILABLE}", "TP6"),
        # 0.10.2 ..
        (f"(EngineCore_DP0 pid=1133) {HEAD}{AVAILABLE}", "EngineCore_DP0"),
        (f"(Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        (f"(Worker_PP0_TP1_EP1 pid=5) {HEAD}{AVAILABLE}", "PP0_TP1_EP1"),
        # 2026
        (f"(EngineCore pid=5) {HEAD}{AVAILABLE}", "EngineCore"),
        (f"(Worker pid=5) {HEAD}{AVAILABLE}", "Worker"),
        (f"(Worker_TP0_DCP0 pid=5) {HEAD}{AVAILABLE}", "TP0_DCP0"),
        (f"(VllmWorker-0 pid=5) {HEAD}{AVAILABLE}", "rank0"),
        # Ray's prefix behind that of the driver which forwards the line
        (f"(EngineCore_DP0 pid=1) (RayWorkerWrapper pid=77, ip=192.0.2.7) {HEAD}{AVAILABLE}", "pid77"),
        # several prefixes before one text: nobody knows whose it is
        (f"(Worker_TP1 pid=1) (Worker_TP3 pid=2) (Worker_TP0 pid=3) {HEAD}{AVAILABLE}", "?"),
        (f"(Worker_TP1 pid=1) (Worker_TP1 pid=1) {HEAD}{AVAILABLE}", "TP1"),
        # VLLM_LOGGING_PREFIX: before the process prefix in 0.32, behind it earlier
        (f"[lane-a] (EngineCore pid=5) {HEAD}{AVAILABLE}", "EngineCore"),
        (f"(EngineCore_DP0 pid=1) [Stage-0] {HEAD}{AVAILABLE}", "EngineCore_DP0"),
        # DEBUG: a relative path
        (f"(Worker_TP0 pid=5) DEBUG 10-05 10:04:21 [v1/worker/gpu_worker.py:646] {AVAILABLE}", "TP0"),
        # Docker, compose, both orders, empty fraction
        (f"2026-07-17T12:38:51.397694046Z (Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        (f"2026-07-17T12:38:51Z (Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        (f"vllm-1  | (Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        (f"vllm-1  | 2026-07-17T12:38:51.3Z (Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        (f"2026-07-17T12:38:51.3Z vllm-1  | (Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        # colour: the formatter's of 2025-11 and later, and the cyan prefix that older files always hold
        (
            "\x1b[0;36m(Worker_TP0 pid=5)\x1b[0;0m \x1b[32mINFO\x1b[0m \x1b[90m10-05 10:04:21\x1b[0m"
            f" \x1b[90m[gpu_worker.py:646]\x1b[0m {AVAILABLE}",
            "TP0",
        ),
        (f"\x1b[1;36m(Worker_TP0 pid=5)\x1b[0;0m {HEAD}{AVAILABLE}", "TP0"),
        # a progress bar without a newline in front, with a prefix of its own
        (
            "(Worker_TP1 pid=6) Capturing CUDA graphs (FULL):  50%|█████     | 4/8 [00:04<00:04,  1.00s/it]"
            f"(Worker_TP0 pid=5) {HEAD}{AVAILABLE}",
            "TP0",
        ),
        (
            f"Loading safetensors checkpoint shards:  27% Completed | 4/15 [00:01<00:04,  2.9it/s]{HEAD}{AVAILABLE}",
            "driver",
        ),
        (f"2026-07-17T12:38:51.3+00:00 stdout F (Worker_TP0 pid=5) {HEAD}{AVAILABLE}", "TP0"),
        (
            f'{{"log":"(Worker_TP0 pid=5) {HEAD}{AVAILABLE}\\n","stream":"stdout","time":"2026-07-17T12:38:51.3Z"}}',
            "TP0",
        ),
        # JSON mode
        (
            '{"asctime": "2026-12-01 03:40:43,123", "levelname": "INFO", "name": "vllm.v1", "processName": "Worker-0",'
            f' "process": 5, "message": "{AVAILABLE}", "vllm_process_name": "Worker_TP0"}}',
            "TP0",
        ),
        (
            '2026-07-17T12:38:51.3Z {"levelname": "INFO", "process": 5, "message": "first\\n'
            f'{AVAILABLE}", "vllm_process_name": "Worker_TP1"}}',
            "TP1",
        ),
    ],
)
def test_rank(line: str, rank: str) -> None:
    found = report(line)
    assert {label: figure.value for label, figure in found.kv_available_gib.items()} == {rank: 45.83}
    assert found.engine == "vllm"


SAID = "(Worker_TP0 pid=5) " + HEAD + "GPU KV cache size: 1,024 tokens"
READY = "INFO:     Application startup complete."
KEEPERS = [
    "2026-10-05T11:36:32.276529356Z {}",
    "2026-10-05T13:36:32+02:00 {}",
    "2026-10-05 11:36:32,123 {}",
    "[2026-10-05T11:36:32.123Z] {}",
    "Oct 05 11:36:32 {}",
    "Oct  5 11:36:32 ws1 docker[1234]: {}",
    "Oct  5 11:36:32 ws1 vllm: {}",
    "2026-10-05T11:36:32.123456+0200 ws1 systemd-lane@a.service[12]: {}",
    "1791200192.123456 ws1 vllm[1234]: {}",
    "vllm-1  | {}",
    "deepseek.v4_lane    | {}",
    "\x1b[36mvllm-1  | \x1b[0m2026-10-05T11:36:32Z {}",
    "[pod/vllm-0/server] {}",
    "[1,0]<stdout>: {}",
    "\ufeff{}",
    "\0\0\0{}",
    "{}  \t",
]
RECORDS = [
    {"log": "{}\n", "stream": "stderr", "time": "2026-10-05T11:36:32.276529356Z"},
    {"stream": "stderr", "time": "2026-10-05T11:36:32.276529356Z", "log": "{}\n"},
    {"timestamp": "2026-10-05T11:36:32Z", "level": "info", "message": "{}"},
    {"ts": 1791200192.5, "msg": "{}"},
    {"__REALTIME_TIMESTAMP": "1", "_PID": "3", "MESSAGE": "{}"},
    {"log": "\x1b[32mfirst\x1b[0m\r\n\x1b[36mvllm-1 | \x1b[0m{}\n"},
]


@pytest.mark.parametrize("keeper", [*KEEPERS, *(json.dumps(one) for one in RECORDS)])
def test_who_kept_the_log_changes_nothing(keeper: str) -> None:
    log = "\n".join(keeper.replace("{}", line) for line in (SAID, READY))
    found = report(log)
    assert found.kv_tokens and found.kv_tokens.value == 1024 and found.state == "ready" and not found.unread_count


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_a_windows_shell_redirects_in_utf16(codec: str) -> None:
    raw = (codecs.BOM_UTF16_BE if codec == "utf-16-be" else b"") + f"{SAID}\r\n{READY}\r\n".encode(codec)
    found = report(raw)
    assert found.kv_tokens and found.kv_tokens.value == 1024 and found.state == "ready" and found.lines == 2
    reader = StartupLog()
    for at in range(len(raw)):
        reader.feed(raw[at : at + 1])
    reader.finish()
    assert reader.report() == found


def test_lines_without_a_prefix_are_nobodys_once_processes_have_names() -> None:
    log = f"(EngineCore_DP0 pid=1) {HEAD}GPU KV cache size: 1,024 tokens\n{HEAD}{AVAILABLE}\n"
    assert list(report(log).kv_available_gib) == ["?"]


def test_nobodys_figures_that_differ_are_all_kept() -> None:
    merged = "(Worker_TP1 pid=1) (Worker_TP0 pid=3) "
    log = "".join(f"{merged}{HEAD}Available KV cache memory: {gib} GiB\n" for gib in ("15.27", "15.5", "15.27"))
    found = report(log).kv_available_gib
    assert {label: figure.value for label, figure in found.items()} == {"?": 15.27, "?2": 15.5}


def test_a_worker_is_named_by_its_rank_once_that_is_known() -> None:
    log = (
        f"(Worker pid=210) {HEAD}Loading weights took 5.00 seconds\n"
        f"(Worker pid=232) {HEAD}Loading weights took 6.00 seconds\n"
    )
    assert set(report(log).weights_load_seconds) == {"pid210", "pid232"}
    log += f"(Worker_TP0 pid=210) {HEAD}{AVAILABLE}\n(Worker_TP1 pid=232) {HEAD}{AVAILABLE}\n"
    found = report(log)
    assert {label: figure.value for label, figure in found.weights_load_seconds.items()} == {"TP0": 5.0, "TP1": 6.0}
    assert found.ranks == 2


def test_ranks_of_two_nodes_may_share_a_pid() -> None:
    log = "".join(
        f"node-{rank}  | (Worker_TP{rank} pid=7) {HEAD}Available KV cache memory: {rank}.5 GiB\n" for rank in range(2)
    )
    found = report(log).kv_available_gib
    assert {label: figure.value for label, figure in found.items()} == {"TP0": 0.5, "TP1": 1.5}


def test_several_engine_cores_are_never_summed() -> None:
    lines = [
        f"(EngineCore_DP{number} pid={number + 1}) {HEAD}GPU KV cache size: {tokens} tokens"
        for number, tokens in enumerate(("1,024", "2,048"))
    ]
    found = report("\n".join(lines))
    assert found.kv_tokens is None
    assert {name: figure.value for name, figure in found.groups["kv_tokens"].items()} == {
        "EngineCore_DP0": 1024,
        "EngineCore_DP1": 2048,
    }


def test_engine_cores_that_agree_have_one_figure() -> None:
    lines = [f"(EngineCore_DP{number} pid={number + 1}) {HEAD}GPU KV cache size: 1,024 tokens" for number in range(2)]
    found = report("\n".join(lines)).kv_tokens
    assert found and found.value == 1024


def test_invalid_utf8_is_read_around() -> None:
    found = report(b"\xff\xfe (Worker_TP0 pid=5) " + (HEAD + AVAILABLE).encode() + b" \xc3\x28\n")
    assert found.kv_available_gib["TP0"].value == 45.83


def test_each_part_between_carriage_returns_is_a_line_of_its_own() -> None:
    bar = b"Capturing CUDA graphs (FULL):   0%|          | 0/8 [00:00<?, ?it/s]\r"
    log = b"first\n" + bar * 3 + f"(Worker_TP0 pid=5) {HEAD}{AVAILABLE}\r\nlast\n".encode()
    found = report(log)
    source = found.kv_available_gib["TP0"].source
    assert (source.line, source.offset, found.lines) == (2, 6 + 3 * len(bar), 3)
    assert found.last_phase == "profile" and found.phases[0].name == "graph_capture"


def test_time_of_a_phase_is_the_logs_own() -> None:
    found = report(
        f"2026-07-17T12:38:51.397694046Z (EngineCore pid=1) {HEAD}{AVAILABLE}\n{HEAD}vLLM is using nccl==2.1"
    )
    assert [phase.at for phase in found.phases] == ["2026-07-17T12:38:51.397694046Z", "10-05 10:04:21"]


def test_secrets_in_a_line_are_not_kept() -> None:
    log = f"(Worker_TP0 pid=5) {HEAD}{AVAILABLE} api_key=abcdef123456 hf_{'a' * 20}"
    text = report(log).kv_available_gib["TP0"].source.text
    assert "abcdef123456" not in text and "hf_a" not in text and text.count("[redacted]") == 2
