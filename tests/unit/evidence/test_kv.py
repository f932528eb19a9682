"""KV reports explained or "not explained", changes divided, other lengths predicted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from anvil_tui.errors import BadInput
from anvil_tui.evidence.kv.change import explain_change
from anvil_tui.evidence.kv.explanation import explain
from anvil_tui.evidence.kv.reports import explain_kv, report_of_metrics, report_of_start
from anvil_tui.records.kv_explanation import KvReport
from tests.unit.evidence.samples import DATA, GOLDENS, figure, start, word, write

MODEL = "deepseek-ai/DeepSeek-V4-Flash-0731"
LOGS = DATA / "logs"
BASELINE = KvReport(
    path="a",
    source="log",
    model=MODEL,
    engine_version="r33",
    max_model_len=131_072,
    max_num_batched_tokens=8192,
    speculation="",
    available_gib=15.27,
    tokens=283_917,
    concurrency=2.17,
)
CANDIDATE = replace(
    BASELINE, path="b", max_num_batched_tokens=4096, available_gib=15.99, tokens=553_243, concurrency=4.22
)
EXPLAINED = {
    "r33 nospec seq1 batch8192": (15765, 7278),
    "r33 nospec seq1 batch4096": (16508, 3911),
    "r16 K5 seq16 650K": (9229, 6017),
    "r16 K5 seq1 1M": (10902, 5714),
    "r16 K5 seq16 1M": (9803, 5714),
    "r33 K5 seq16 393K": (9211, 4992),
    "infernal r15 K5 seq8 393K": (9920, 4890),
    "r16 K5 seq8 131K": (7759, 7345),
    "r16 nospec seq8 131K": (14299, 7278),
    "puzzle-88B 131K": None,
    "qwen35-122b 262K": None,
}


def golden(record: dict[str, Any]) -> KvReport:
    case = record["case"]
    ours = case.startswith(("r16", "r33", "infernal"))
    return KvReport(
        path=case,
        source="log",
        model=MODEL if ours else case.split()[0],
        engine_version=case if ours else None,
        max_model_len=record["max_model_len"],
        max_num_batched_tokens=record["max_num_batched_tokens"],
        speculation="dspark" if "K5" in case else "" if "nospec" in case else None,
        available_gib=record["available_kv_gib"],
        tokens=record["reported_tokens"],
        concurrency=record["reported_concurrency"],
    )


@pytest.mark.parametrize("record", GOLDENS["kv"], ids=lambda record: record["case"])
def test_golden_records(record: dict[str, Any]) -> None:
    found = explain(golden(record))
    expected = EXPLAINED[record["case"]]
    assert (found.blocks, found.blocks_per_request) == (expected or (None, None))
    assert found.status == ("explained" if expected else "not explained")
    assert all(check.holds for check in found.checks)
    if record["expected"]["gib_per_full_request"] is not None:
        assert found.gib_per_full_request == pytest.approx(record["expected"]["gib_per_full_request"], rel=5e-4)
    if expected is None:
        assert found.words.startswith("not explained: no cache geometry is known")


def test_the_near_doubling_is_explained() -> None:
    change = explain_change(explain(BASELINE), explain(CANDIDATE))
    assert change.status == "explained"
    assert change.tokens_percent == pytest.approx(94.861, abs=5e-4)
    assert change.gib_percent == pytest.approx(4.715, abs=5e-4)
    memory, batch = change.factors
    assert (memory.cause, batch.cause) == ("KV memory", "max_num_batched_tokens")
    assert memory.factor == pytest.approx(16508 / 15765)
    assert batch.factor == pytest.approx(7278 / 3911)
    assert memory.factor * batch.factor == pytest.approx(1.94861, abs=1e-5)
    assert "+94.861 % of reported tokens for +4.715 % of KV memory" in change.words


def test_other_lengths_are_predicted_with_the_same_memory() -> None:
    predictions = [explain(one, 393_216).prediction for one in (BASELINE, CANDIDATE)]
    assert [one and one.tokens for one in predictions] == [745_615, 1_312_150]
    assert [one and round(one.concurrency, 2) for one in predictions] == [1.9, 3.34]


def test_without_blocks_the_ratio_is_split_by_rounded_gib() -> None:
    old, new = (explain(replace(one, model="someone/else")) for one in (BASELINE, CANDIDATE))
    change = explain_change(old, new)
    assert (old.status, change.status) == ("not explained", "split")
    assert change.factors[-1].factor == pytest.approx(1.8609, abs=0.002)
    assert "±" in change.factors[-1].words


@pytest.mark.parametrize(
    "changes", [{"tokens": 283_918}, {"available_gib": 15.40}, {"max_num_batched_tokens": 4096}, {"tokens": None}]
)
def test_nothing_is_forced(changes: dict[str, Any]) -> None:
    found = explain(replace(BASELINE, **changes), 393_216)
    assert found.status == "not explained"
    assert found.prediction is None
    assert "not predicted at 393,216" in found.words


def test_context_and_speculation_each_get_their_factor() -> None:
    draft = replace(BASELINE, path="d", speculation="dspark", tokens=138_459, available_gib=None, concurrency=None)
    change = explain_change(
        explain(replace(BASELINE, tokens=257_515, available_gib=None, concurrency=None)), explain(draft)
    )
    assert [one.cause for one in change.factors] == ["KV memory", "bytes per block", "speculation (none → dspark)"]
    product = 1.0
    for one in change.factors:
        product *= one.factor
    assert product == pytest.approx(138_459 / 257_515, rel=1e-4)
    longer = replace(BASELINE, path="e", max_model_len=393_216, tokens=745_615, concurrency=1.9)
    assert [one.cause for one in explain_change(explain(BASELINE), explain(longer)).factors] == ["max_model_len"]


@settings(max_examples=60, deadline=None)
@given(st.integers(4000, 40_000), st.sampled_from([2048, 4096, 8192]), st.sampled_from([131_072, 262_144, 650_000]))
def test_what_an_engine_reports_is_explained_by_its_own_blocks(blocks: int, batch: int, length: int) -> None:
    from anvil_tui.engines.kv_capacity import GEOMETRIES, GIB, reported_tokens

    reservation = GEOMETRIES[0].blocks_per_request(length, 2 * batch)
    report = replace(
        BASELINE,
        max_model_len=length,
        max_num_batched_tokens=batch,
        tokens=reported_tokens(blocks, reservation, length),
        concurrency=round(blocks / reservation, 2),
        available_gib=round((blocks + 0.5) * GEOMETRIES[0].bytes_per_block / GIB, 2),
    )
    found = explain(report)
    assert (found.blocks, found.blocks_per_request) == (blocks, reservation)


def metrics_text(**labels: str) -> str:
    told = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{{{told}}} 1.0\n"


def test_metrics_tell_blocks_and_reservation_themselves() -> None:
    text = metrics_text(
        block_size="4",
        engine="0",
        kv_cache_max_concurrency=repr(15765 / 7278),
        kv_cache_size_tokens="283917",
        num_gpu_blocks="15765",
    )
    report = report_of_metrics("m", text)
    assert report is not None
    assert report.max_model_len == 131_072
    found = explain(report, 393_216)
    assert (found.status, found.blocks_per_request, found.chance) == ("explained", 7278, None)
    assert found.prediction is None


def test_a_plain_pool_is_predicted() -> None:
    text = metrics_text(
        block_size="128", kv_cache_max_concurrency="32.0", kv_cache_size_tokens="524288", num_gpu_blocks="4096"
    )
    report = report_of_metrics("m", text)
    assert report is not None
    found = explain(report, 32_768)
    assert found.geometry == "full attention, blocks of 128 tokens"
    assert found.prediction is not None
    assert (found.prediction.tokens, found.prediction.concurrency) == (524_288, 16.0)
    assert report_of_metrics("m", metrics_text(block_size="16")) is None


def test_old_logs_tell_blocks() -> None:
    found = explain(
        KvReport(
            path="v0", source="log", engine_version="0.7.2", max_model_len=2048, concurrency=10.79, num_blocks=1381
        )
    )
    assert (found.status, found.blocks_per_request) == ("explained", 128)
    assert "1,381 blocks of 16 tokens = 22,096 tokens" in found.words


def test_a_profile_tells_what_the_log_does_not() -> None:
    report = report_of_start("s", start(15.27, 283_917, 2.17, 1.73, facts={"max_num_batched_tokens": word("8192")}))
    assert (report.available_gib, report.tokens, report.max_num_batched_tokens) == (15.27, 283_917, 8192)
    assert (report.model, report.speculation) == (None, None)
    told = report_of_start("s", start(15.27, 283_917, 2.17, 1.73, figures={"max_num_batched_tokens": figure(8192)}))
    assert told.max_num_batched_tokens == 8192


@pytest.mark.parametrize(
    "name", ["08-vllm-fork-r33-batch8192", "09-vllm-fork-r33-batch4096", "11-vllm026-ds4-tp4-dspark-k5-progress-cr"]
)
def test_logs_are_explained(name: str) -> None:
    """Two of them name neither model nor version, one no batch: tokens and GiB together leave one geometry."""
    expected = json.loads((LOGS / f"{name}.json").read_bytes())["expected"]["extra"]["explain"]
    found = explain_kv([LOGS / f"{name}.txt"])["reports"][0]
    assert found["blocks"] == expected["num_gpu_blocks"]
    assert found["blocks_per_request"] == expected["blocks_per_request"]
    assert found["bytes_per_block"] == expected["bytes_per_block"]
    assert found["inferred"]


@pytest.mark.parametrize("name", ["12-vllm0231-gptoss-docker-timestamps", "24-vllm021-graph-profiling-default"])
def test_logs_of_other_models_are_not(name: str) -> None:
    assert explain_kv([LOGS / f"{name}.txt"], at=393_216)["reports"][0]["status"] == "not explained"


def test_the_verb_on_two_logs() -> None:
    document = explain_kv([LOGS / "08-vllm-fork-r33-batch8192.txt", LOGS / "09-vllm-fork-r33-batch4096.txt"], 393_216)
    assert document["schema"] == "anvil-kv-explanation/v1"
    assert [one["prediction"]["tokens"] for one in document["reports"]] == [745_615, 1_312_150]
    assert document["changes"][0]["status"] == "explained"


def test_the_verb_on_folders_and_faults(tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    write(folder / "startup" / "lane-1.json", start(15.27, 283_917, 2.17, 1.73))
    write(
        folder / "lanes" / "lane.toml",
        {
            "identity": {"model": MODEL, "engine": "vllm", "runtime": "build.r33"},
            "recipe": {"max_num_batched_tokens": 8192},
            "launch": {"kind": "attach"},
            "endpoint": {"base_url": "http://127.0.0.1:1", "served_name": "s"},
        },
    )
    found = explain_kv([folder])["reports"][0]
    assert (found["status"], found["blocks"], found["inferred"]) == ("explained", 15765, ())
    text = tmp_path / "notes.txt"
    text.write_text("nothing of an engine\n")
    for paths, at, words in (
        ([text], None, "no KV report"),
        ([tmp_path / "absent.json"], None, "No such file"),
        ([write(tmp_path / "other.json", {"schema": "x"})], None, "'x'"),
        ([folder], 0, "a whole number above 0"),
    ):
        with pytest.raises(BadInput, match=words):
            explain_kv(paths, at)


LOG = (
    "(APIServer pid=1) INFO 12-01 03:40:43 [x.py:1] non-default args: {{'max_num_batched_tokens': 8192{args}}}\n"
    "(EngineCore pid=5) INFO 12-01 03:40:43 [x.py:1] Initializing a V1 LLM engine (v0.32.0) with config:"
    " model='/models/deepseek-v4-flash', speculative_config=None, max_seq_len=131072{config}\n"
    "(Worker_TP0 pid=7) INFO 12-01 03:40:43 [x.py:1] Available KV cache memory: {gib} GiB\n"
    "(EngineCore pid=5) INFO 12-01 03:40:43 [x.py:1] GPU KV cache size: {tokens:,} tokens, Maximum concurrency for"
    " 131,072 tokens per request: {concurrency:.2f}x\n"
)
BLOCKS = 53_195


def explained_log(tmp_path: Path, reservation: int, *, args: str = "", config: str = "", **other: Any) -> Any:
    """What is said of a log in which `reservation` blocks of DeepSeek-V4 serve one full-length request."""
    figures = {"gib": 49.65, "concurrency": BLOCKS / reservation, **other}
    tokens = int(BLOCKS / reservation * 131_072)
    (tmp_path / "a.log").write_text(LOG.format(args=args, config=config, tokens=tokens, **figures))
    (found,) = explain_kv([tmp_path / "a.log"], 262_144)["reports"]
    return found


@pytest.mark.parametrize(
    ("reservation", "args", "config"),
    [
        (512 + 2 * 259 + 4099 + 2065, "", ""),
        (512 + 2 * 259 + 4099 + 2065, ", 'async_scheduling': True", ""),
        (512 + 2 * 131 + 2051 + 1041, ", 'async_scheduling': False", ""),
        (64 + 2 * 259 + 4099 + 2065, "", ", decode_context_parallel_size=8"),
    ],
)
def test_scheduling_and_shared_context_decide_the_reservation(
    tmp_path: Path, reservation: int, args: str, config: str
) -> None:
    found = explained_log(tmp_path, reservation, args=args, config=config)
    assert (found["status"], found["blocks"], found["blocks_per_request"]) == ("explained", BLOCKS, reservation)
    assert found["report"]["speculation"] == ""
    grown = reservation + 512 if "decode_context" not in config else reservation + 64
    assert found["prediction"]["tokens"] == int(BLOCKS / grown * 262_144)


def test_what_contradicts_itself_or_is_split_by_layers_is_not_explained(tmp_path: Path) -> None:
    broken = explained_log(tmp_path, 7194, concurrency=5.0)
    assert broken["status"] == "not explained" and "contradict" in broken["words"]
    assert [check["holds"] for check in broken["checks"]] == [False]
    piped = explained_log(tmp_path, 7194, config=", pipeline_parallel_size=2")
    assert piped["status"] == "not explained" and "pipeline" in piped["words"]


def test_the_smallest_rank_is_that_of_the_memory_in_use() -> None:
    told = replace(
        start(15.5, 283_917, 2.17, 1.73),
        kv_available_gib={"TP0": figure(15.5)},
        kv_in_use_gib={"TP0": figure(15.5), "TP1": figure(15.27)},
    )
    assert report_of_start("s", told).available_gib == 15.27


def test_another_engines_count_is_no_formula_of_vllms(tmp_path: Path) -> None:
    found = explain_kv([LOGS / "32-sglang-2025-tp4.txt"])["reports"][0]
    assert found["status"] == "not explained" and "vLLM" not in found["formula"].replace("are vLLM's", "")
    (tmp_path / "trt.log").write_text(
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 2000\n"
        "[TensorRT-LLM][INFO] Number of tokens per block: 32.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 20.00 GiB for max tokens in paged KV cache (64000).\n"
        "[TRT-LLM] [I] x\n[12/20/2025-04:21:10] [TRT-LLM] [W] Adjusted max_seq_len to 16384\n"
    )
    pool = explain_kv([tmp_path / "trt.log"])["reports"][0]
    assert (pool["status"], pool["blocks_per_request"]) == ("explained", 512)
    assert pool["formula"] == "tokens = blocks × tokens per block"


def test_a_length_that_fills_no_whole_block_is_a_plain_pool_too() -> None:
    reservation = 32_769 // 16 + 1
    text = metrics_text(
        block_size="16",
        kv_cache_max_concurrency=repr(50_000 / reservation),
        kv_cache_size_tokens=str(int(50_000 / reservation * 32_769)),
        num_gpu_blocks="50000",
    )
    report = report_of_metrics("m", text)
    assert report is not None
    found = explain(report)
    assert found.geometry == "full attention, blocks of 16 tokens" and "reported as 799,633 tokens" in found.words
