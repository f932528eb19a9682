"""The controlled change: seed 004's percentages, claims and next test from inputs of its shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from anvil_tui.evidence.comparison import compare
from anvil_tui.records.campaign_file import CampaignFile
from anvil_tui.records.plan import GatePlan, LadderPlan
from anvil_tui.records.validation import decode_toml
from tests.unit.evidence.samples import artifact, check, request, start, write

LENGTH, LARGEST = 131_072, 119_503
CHECKS = (
    "short coding smoke",
    "structured JSON",
    "typed tool calls",
    "streaming tool call",
    "tool-result",
    "Responses",
)
PROVEN = {"memory_moved", "candidate_capable", "baseline_reproduced"}
NOT_PROVEN = {"tokens_are_no_requests", "tokens_outgrow_bytes", "too_few_for_ranking"}


def profile(batch: int) -> dict[str, Any]:
    return {
        "identity": {
            "model": "deepseek-ai/DeepSeek-V4-Flash-0731",
            "model_revision": "9e165c30e2704aec5d9d593cce3eebd58bbef1cb",
            "image": "voipmonitor/vllm@sha256:fdde59fed7f9fc12f9fd5ef1b3b3ea8d5097bf10ebad54b348497102c3a83f82",
            "engine": "vllm",
            "runtime": "0.11.2.dev280+gilded.gnosis.v20.vllmfa13d33.b12x06db0f4.fi1ac6942.cu132.20260809.r33",
            "hardware": "2x NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "topology": "exclusive TP=2 over PCIe without NVLink",
        },
        "recipe": {
            "max_model_len": LENGTH,
            "max_num_seqs": 1,
            "max_num_batched_tokens": batch,
            "gpu_memory_utilization": 0.975,
            "weight_path": "B12X W4A8 with NVFP4 MoE and FP8 dense/activation path",
            "kv_cache_dtype": "FP8 DS-MLA",
            "host_kv_offload_gib": 0,
        },
        "launch": {"kind": "attach"},
        "endpoint": {"base_url": f"http://127.0.0.1:{30000 + batch}", "served_name": f"r33-batch{batch}"},
    }


def rung(lane: str, number: int, tokens: int, target: int, figures: tuple[float, float, float, float]) -> Any:
    """A rung with the published TTFT, E2E (ms), effective prefill and decode (tok/s) of the largest request."""
    ttft, e2e, prefill, decode = figures
    first = tokens / prefill * 1000
    output = round((e2e - first) / 1000 * decode) + 1
    row = request(
        prompt_tokens=tokens,
        output_tokens=output,
        time_to_first_output_ms=first,
        ttft_ms=ttft,
        e2e_ms=e2e,
        nonce=f"{target}",
        max_tokens=10_240,
        reasoning_effort="high",
    )
    return artifact(
        f"{lane}-r{number}", (row,), lane=lane, target_tokens=target, started_at=f"2026-08-11T00:0{number}:00Z"
    )


@pytest.fixture
def seed004(tmp_path: Path) -> dict[str, tuple[str, Path]]:
    """Every input by name: its arm and its file."""
    figures = {
        "8192": (17_444.791, 17_885.786, 7_537.341, 73.856),
        "4096": (17_364.43, 17_708.37, 7_343.7, 75.2),
    }
    inputs: dict[str, tuple[str, Path]] = {}
    for lane in ("8192", "4096"):
        folder = tmp_path / lane
        inputs[f"profile {lane}"] = lane, write(folder / f"lane{lane}.toml", profile(int(lane)))
        for number, (target, tokens) in enumerate(((117_500, 87_207), (118_500, 118_830), (119_500, LARGEST)), 1):
            name = f"rung {number} {lane}"
            inputs[name] = lane, write(folder / f"rung{number}.json", rung(lane, number, tokens, target, figures[lane]))
    inputs["start 8192"] = "8192", write(tmp_path / "8192" / "start-1.json", start(15.27, 283_917, 2.17, 1.73))
    inputs["replay 8192"] = "8192", write(tmp_path / "8192" / "start-2.json", start(15.27, 283_917, 2.17, 1.73))
    inputs["start 4096"] = "4096", write(tmp_path / "4096" / "start.json", start(15.99, 553_243, 4.22, 1.14))
    gate = artifact("4096-r9", (request(reasoning_effort="high"),), what="gate", checks=tuple(map(check, CHECKS)))
    inputs["gate 4096"] = "4096", write(tmp_path / "4096" / "gate.json", gate)
    return inputs


def changed(
    inputs: dict[str, tuple[str, Path]], without: tuple[str, ...] = (), at: int | None = 393_216
) -> dict[str, Any]:
    kept = [told for name, told in inputs.items() if name not in without]
    groups = [[path for lane, path in kept if lane == wanted] for wanted in ("8192", "4096")]
    return compare("8192", groups[0], "4096", groups[1], "change", at=at, generated_at="2026-08-11T01:00:00Z")


def claims(document: dict[str, Any], status: str) -> dict[str, dict[str, Any]]:
    return {one["rule"]: one for one in document["interpretation"][status]}


def test_shape_and_identity(seed004: dict[str, tuple[str, Path]]) -> None:
    document = changed(seed004)
    assert document["schema"] == "controlled-change/v1"
    assert document["controlled_change"] == {
        "field": "max_num_batched_tokens",
        "baseline": 8192,
        "candidate": 4096,
        "other_functional_recipe_differences": [],
        "operational_identity_differences": ["port", "served model name"],
    }
    assert document["identity"]["context_tokens"] == LENGTH
    assert document["identity"]["speculative_decoding"] is False
    assert document["evidence_types"] == ["functional", "capacity", "bounded-performance"]
    assert document["functional_gate_4096"]["checks_passed"] == 6
    assert document["campaign_closeout"]["route_changed"] is None
    assert document["unknown"]["campaign_closeout.route_changed"] == "no file or URL was watched"
    hashes = document["private_raw_artifact_hashes_sha256"]
    assert len(hashes) == len(seed004)
    assert all(len(value) == 64 and not name.startswith("/") for name, value in hashes.items())


def test_percentages(seed004: dict[str, tuple[str, Path]]) -> None:
    document = changed(seed004)
    assert document["startup_measurements"]["candidate_minus_baseline"] == {
        "available_kv_cache_gib": 0.72,
        "available_kv_cache_percent": 4.715,
        "gpu_kv_cache_tokens_reported": 269_326,
        "gpu_kv_cache_tokens_reported_percent": 94.861,
        "reported_full_context_concurrency": 2.05,
        "peak_activation_gib_per_rank": -0.59,
        "peak_activation_percent": -34.104,
    }
    assert document["startup_measurements"]["baseline_8192"]["non_torch_gib_tp1"] == 0.12
    ladder = document["matched_context_ladder"]
    assert ladder["targets"] == [117_500, 118_500, 119_500]
    assert ladder["baseline_8192"]["largest_actual_prompt_tokens"] == LARGEST
    assert ladder["baseline_8192"]["largest_ttft_ms"] == 17_444.791
    percent = ladder["largest_request_candidate_minus_baseline_percent"]
    assert percent["ttft"] == pytest.approx(-0.461, abs=1e-3)
    assert percent["e2e"] == pytest.approx(-0.992, abs=1e-3)
    assert percent["effective_prefill_tokens_per_second"] == pytest.approx(-2.569, abs=1e-3)
    assert percent["decode_tokens_per_second"] == pytest.approx(1.82, abs=0.4)
    assert percent["time_to_first_output"] == pytest.approx(2.637, abs=1e-2)


def test_kv_is_explained_and_predicted(seed004: dict[str, tuple[str, Path]]) -> None:
    kv = changed(seed004)["kv_explanation"]
    assert [one["prediction"]["tokens"] for one in kv["reports"].values()] == [745_615, 1_312_150]
    assert kv["change"]["status"] == "explained"
    assert "+94.861 % of reported tokens for +4.715 % of KV memory" in kv["change"]["words"]


def test_three_proven_and_three_not(seed004: dict[str, tuple[str, Path]]) -> None:
    document = changed(seed004)
    proven, open_ = claims(document, "proven"), claims(document, "not_proven")
    assert set(proven) == PROVEN
    assert set(open_) == NOT_PROVEN
    assert all(one["evidence"] for one in (*proven.values(), *open_.values()))
    assert proven["memory_moved"]["text"] == (
        "On this exact recipe, changing max_num_batched_tokens from 8192 to 4096 reduced profiled peak activation "
        "memory and increased the GPU memory assigned to KV (+0.72 GiB)."
    )
    assert (
        "4096 remained healthy and passed the same bounded functional and 119,503-prompt-token"
        in proven["candidate_capable"]["text"]
    )
    assert "15.27 GiB, 283,917 reported KV tokens, 2.17x" in proven["baseline_reproduced"]["text"]
    assert (
        "553,243-token KV figure is not proof that a 393,216-token configured serve"
        in open_["tokens_are_no_requests"]["text"]
    )
    outgrow = open_["tokens_outgrow_bytes"]["text"]
    assert "+94.861 % is not explained" in outgrow
    assert "+4.715 % alone" in outgrow
    assert "until a long-context load and request validate it" in outgrow
    assert open_["too_few_for_ranking"]["text"].startswith("One context request per target does not establish")


@pytest.mark.parametrize(
    ("without", "falls", "missing"),
    [
        (("start 8192", "replay 8192"), "memory_moved", "the start-up report of 8192"),
        (("start 4096",), "memory_moved", "the start-up report of 4096"),
        (("profile 8192",), "memory_moved", "profiles of both lanes"),
        (("gate 4096",), "candidate_capable", "a functional gate of 4096"),
        (("rung 3 8192", "rung 2 8192", "rung 1 8192"), "candidate_capable", "that both arms passed"),
        (("replay 8192",), "baseline_reproduced", "a second start of 8192"),
    ],
)
def test_a_claim_falls_with_its_input(
    seed004: dict[str, tuple[str, Path]], without: tuple[str, ...], falls: str, missing: str
) -> None:
    document = changed(seed004, without)
    assert falls not in claims(document, "proven")
    assert missing in claims(document, "not_proven")[falls]["missing"]


def test_one_rung_less_lowers_the_claim(seed004: dict[str, tuple[str, Path]]) -> None:
    text = claims(changed(seed004, ("rung 3 8192",)), "proven")["candidate_capable"]["text"]
    assert "118,830-prompt-token" in text


def test_a_replay_that_differs_proves_nothing(seed004: dict[str, tuple[str, Path]]) -> None:
    write(seed004["replay 8192"][1], start(15.10, 280_000, 2.14, 1.73))
    assert "2 different sets" in claims(changed(seed004), "not_proven")["baseline_reproduced"]["missing"]


def test_a_second_difference_is_told_and_nothing_is_proven_of_the_first(seed004: dict[str, tuple[str, Path]]) -> None:
    other = profile(4096)
    other["recipe"]["max_num_seqs"] = 4
    write(seed004["profile 4096"][1], other)
    document = changed(seed004)
    fields = [one["field"] for one in document["controlled_change"]["other_functional_recipe_differences"]]
    assert fields == ["recipe.max_num_seqs"]
    assert "memory_moved" in claims(document, "not_proven")


def test_a_rehearsal_proves_nothing(seed004: dict[str, tuple[str, Path]]) -> None:
    simulated = {**profile(4096), "launch": {"kind": "rehearsal"}}
    write(seed004["profile 4096"][1], simulated)
    document = changed(seed004)
    assert document["rehearsal"] is True
    assert claims(document, "proven") == {}
    assert {one["missing"] for one in claims(document, "not_proven").values()} == {"a rehearsal is no evidence"}


def test_next_test_is_a_campaign_file(seed004: dict[str, tuple[str, Path]]) -> None:
    test = changed(seed004)["interpretation"]["next_test"]
    file = decode_toml(CampaignFile, tomli_w.dumps(test).encode(), "next test", closed=True)
    assert file.arms.baseline is None
    assert file.arms.candidate.recipe.max_model_len == 393_216
    assert file.arms.candidate.recipe.max_num_batched_tokens == 4096
    targets = (301_000, 381_952)
    assert file.ladder == LadderPlan(targets=targets, max_tokens=10_240, margin=1024, reasoning_effort="high")
    assert file.post_gate == GatePlan(reasoning_effort="high")
    accepted = {one["what"]: one for one in test["acceptance"]}
    assert accepted["reported_kv_tokens"]["at_least"] == 393_216
    assert accepted["actual_prompt_tokens"]["above"] == 300_000
    assert {"healthy_start", "post_probe_gate", "no_route_change", "no_promotion_change"} <= set(accepted)


def test_without_profiles_or_starts_fields_are_null_with_a_reason(seed004: dict[str, tuple[str, Path]]) -> None:
    document = changed(seed004, tuple(name for name in seed004 if not name.startswith("rung")), at=None)
    assert document["controlled_change"]["field"] is None
    assert document["startup_measurements"]["baseline_8192"] is None
    assert document["interpretation"]["next_test"] is None
    for field in (
        "controlled_change",
        "startup_measurements.baseline_8192",
        "interpretation.next_test",
        "identity.model",
    ):
        assert document["unknown"][field]
    json.dumps(document)
