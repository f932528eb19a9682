"""Documents in lines."""

from __future__ import annotations

from pathlib import Path

from anvil_tui.evidence.comparison import compare
from anvil_tui.evidence.kv.reports import explain_kv
from anvil_tui.evidence.summary import summary_lines
from tests.unit.evidence.samples import DATA, artifact, request, start, write


def test_a_comparison(tmp_path: Path) -> None:
    old = write(tmp_path / "a.json", artifact("a-r1", (request(),), what="capacity", target_tokens=1000))
    new = write(tmp_path / "b.json", artifact("b-r1", (request(e2e_ms=700.0),), what="capacity", target_tokens=1000))
    lines = summary_lines(compare("a", [old], "b", [new]))
    assert lines[0].startswith("decode_tok_s_p50: b 200, a 100: +100.0 %, inconclusive (1 block")
    assert any(line.startswith("E2E at 101 output tokens: -41.7 %") for line in lines)
    assert any(line.startswith("caveat (too_few_blocks)") for line in lines)
    assert lines[-1].startswith("decision: b against a")


def test_a_change(tmp_path: Path) -> None:
    old = write(tmp_path / "a.json", start(15.27, 283_917, 2.17, 1.73))
    new = write(tmp_path / "b.json", start(15.99, 553_243, 4.22, 1.14))
    lines = summary_lines(compare("a", [old], "b", [new], "change", at=393_216))
    assert "gpu_kv_cache_tokens_reported_percent: 94.861" in lines
    assert any(line.startswith("not proven: On this exact recipe") for line in lines)
    assert "next test: an actual prompt above 300,000 tokens" in lines


def test_a_kv_explanation() -> None:
    logs = [DATA / "logs" / f"{name}.txt" for name in ("08-vllm-fork-r33-batch8192", "09-vllm-fork-r33-batch4096")]
    lines = summary_lines(explain_kv(logs))
    assert any("15,765 blocks of 1,039,680 bytes" in line for line in lines)
    assert any(line.startswith("  holds: tokens = concurrency × max_model_len") for line in lines)
    assert "+94.861 % of reported tokens" in lines[-1]


def test_foreign_names_are_made_safe(tmp_path: Path) -> None:
    rows = {"schema": "anvil-serving.benchmark/v1", "requests": 1, "completed": 1, "gpu": "\x1b[31mgpu", "metrics": {}}
    old = write(tmp_path / "a.json", rows)
    new = write(tmp_path / "b.json", {**rows, "gpu": "other"})
    lines = summary_lines(compare("a", [old], "b", [new]))
    assert not any("\x1b" in line for line in lines)
    assert any("gpu" in line and "other" in line for line in lines)
