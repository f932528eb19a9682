"""The paired document: seed 000 from its public artifacts, our own campaigns, and faults."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anvil_tui.errors import BadInput
from anvil_tui.evidence.comparison import compare
from anvil_tui.records.events import LoadReady, StartupReported, kind_of
from anvil_tui.records.vram import GpuReading, VramSample
from tests.unit.evidence.samples import GOLDENS, SEED000, artifact, check, request, start, write

WHEN = "2026-08-02T02:38:15Z"


@pytest.fixture
def seed000() -> tuple[list[Path], list[Path]]:
    if not SEED000.is_dir():
        pytest.skip("the public artifacts of seed 000 are not here")
    control = sorted(SEED000.glob("capacity-*nospec*.json"))
    return control, [path for path in sorted(SEED000.glob("*.json")) if path not in control]


def compared(control: list[Path], dspark: list[Path], **options: Any) -> dict[str, Any]:
    return compare("control", control, "dspark", dspark, generated_at=WHEN, **options)


def caveats(document: dict[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in document["caveats"]:
        assert one["evidence"], one
        found.setdefault(one["rule"], []).append(one["text"])
    return found


def test_seed_000_metrics_follow_from_the_artifacts(seed000: tuple[list[Path], list[Path]]) -> None:
    """Each value, median and delta of the published document, to 1e-9."""
    document = compared(*seed000)
    published = GOLDENS["paired_comparison_r16"]["metrics"]
    assert list(document["metrics"]) == list(published)
    for metric, fields in published.items():
        for field, value in fields.items():
            assert document["metrics"][metric][field] == pytest.approx(value, abs=1e-9), (metric, field)
        assert document["metrics"][metric]["basis"] == "recomputed from request records"


def test_seed_000_capacity_files_alone_are_enough(seed000: tuple[list[Path], list[Path]]) -> None:
    control, dspark = seed000
    document = compared(control, [path for path in dspark if path.name.startswith("capacity")])
    assert document["metrics"]["e2e_p50_ms"]["dspark_latency_delta_percent"] == pytest.approx(-58.79648105932318)
    assert document["memory"]["dspark_used_mib"] is None
    assert "memory.dspark_used_mib" in document["unknown"]
    assert "memory_not_captured" in caveats(document)


def test_seed_000_the_failed_run_is_retained(seed000: tuple[list[Path], list[Path]]) -> None:
    document = compared(*seed000)
    assert (
        document["control"]["retained_failure_artifact"]
        == GOLDENS["paired_comparison_r16"]["control"]["retained_failure_artifact"]
    )
    assert document["control"]["artifacts"] == GOLDENS["paired_comparison_r16"]["control"]["artifacts"]
    assert document["success"]["control"]["requests"] == [11, 12]
    assert document["dspark"]["cumulative_accepted_token_fraction"] == pytest.approx(0.5509626274065685, abs=1e-12)
    assert document["functional_gate"]["dspark"] == "pass"
    assert document["functional_gate"]["reasoning_evidence"] == "required"
    assert document["memory"]["dspark_in_request_min_free_mib"] == [1179, 2031]
    assert document["memory"]["dspark_reserve_pass"] is False


def test_seed_000_caveats_that_its_author_missed(seed000: tuple[list[Path], list[Path]]) -> None:
    found = caveats(compared(*seed000))
    assert "3 of 6 runs say served context 8192, against 131072 claimed" in found["served_context"][0]
    assert len(found["warm_prefixes"]) == 2
    assert all("0.634, 0.951, 0.951" in text for text in found["warm_prefixes"])
    assert "687, 427, 581" in found["unequal_output_lengths"][0]
    assert "339, 604, 815" in found["unequal_output_lengths"][0]
    assert "different phases" in found["memory_phases"][0]
    assert any("582 ms" in text for text in found["no_warm_up"])
    assert any("828 ms" in text for text in found["no_warm_up"])
    assert "20.1 minutes later" in found["not_interleaved"][0]
    assert "4,096 labelled, 2,960 counted" in found["labels_exceed_tokens"][0]
    assert {"too_few_blocks", "identity_missing", "failures_excluded"} <= set(found)


def test_seed_000_memory_from_snapshots(seed000: tuple[list[Path], list[Path]], tmp_path: Path) -> None:
    """used = total − reserved − free; snapshots of different phases give no increment."""
    control, dspark = seed000
    header = "uuid, memory.total [MiB], memory.used [MiB], memory.free [MiB]\n"
    after_ladder = tmp_path / "idle-after-ladder.csv"
    after_ladder.write_text(header + "GPU-a, 97887 MiB, 97044 MiB, 395 MiB\nGPU-b, 97887 MiB, 97174 MiB, 265 MiB\n")
    rows = "GPU-a, 97887 MiB, 95457 MiB, 1982 MiB\nGPU-b, 97887 MiB, 94846 MiB, 2593 MiB\n"
    after_capacity = tmp_path / "idle-after-capacity.csv"
    after_capacity.write_text(header + rows)
    memory = compared([*control, after_capacity], [*dspark, after_ladder])["memory"]
    assert memory["dspark_used_mib"] == [97044, 97174]
    assert memory["control_used_mib"] == [95457, 94846]
    assert memory["dspark_increment_mib"] is None
    same = tmp_path / "candidate" / "idle-after-capacity.csv"
    same.parent.mkdir()
    same.write_text(after_ladder.read_text())
    memory = compared([*control, after_capacity], [*dspark, same])["memory"]
    assert memory["dspark_increment_mib"] == [1587, 2328]
    assert memory["capture_phase"] == "idle after capacity"


def test_seed_000_below_three_blocks_nothing_is_ranked(seed000: tuple[list[Path], list[Path]]) -> None:
    document = compared(*seed000)
    decode = document["metrics"]["decode_tok_s_p50"]["effect"]
    assert decode["verdict"].startswith("inconclusive (1 block")
    assert "observed, variation between loads not measured" in decode["words"]
    assert document["metrics"]["e2e_p50_ms"]["effect"]["verdict"] == "inconclusive (the answers differ in length)"
    equal = document["latency_at_equal_output_length"]
    assert equal["output_tokens"] == 190
    assert equal["dspark_latency_delta_percent"] == pytest.approx(-44.54, abs=0.01)
    assert document["claims"]["proven"] == []
    assert document["decision"].startswith("dspark against control over 1 block: decode +101.4 %")


def test_seed_000_order_of_files_changes_nothing(seed000: tuple[list[Path], list[Path]]) -> None:
    control, dspark = seed000
    document = compared(control, dspark)
    assert compared(control[::-1], dspark[::-1]) == document
    assert compared(control[2:] + control[:2], dspark[3:] + dspark[:3] + dspark[:1]) == document


def test_seed_000_holds_no_path_of_this_machine(seed000: tuple[list[Path], list[Path]]) -> None:
    assert str(SEED000.parent) not in json.dumps(compared(*seed000))


# --- our own artifacts ---------------------------------------------------------------------------------------------


def write_arm(root: Path, lane: str, factor: float, loads: int, length: int = 101) -> Path:
    """A folder of `loads` loads with two runs each, decode and latency scaled by `factor`."""
    for number in range(loads):
        drift = 1 + 0.004 * number
        for repeat in range(2):
            rows = tuple(
                request(
                    index,
                    nonce=f"{number}{repeat}{index}",
                    e2e_ms=200.0 + (length - 1) * 10.0 / factor * drift,
                    output_tokens=length,
                )
                for index in range(3)
            )
            name = f"{lane}-r{2 * number + repeat + 1}"
            write(
                root / "runs" / f"{name}.json",
                artifact(
                    name,
                    rows,
                    what="capacity",
                    lane=lane,
                    load_id=f"2026080{number + 1}T000000Z-{lane}",
                    started_at=f"2026-08-0{number + 1}T00:0{repeat}:00Z",
                    finished_at=f"2026-08-0{number + 1}T00:0{repeat}:30Z",
                ),
            )
    return root


def test_six_blocks_of_our_own_are_decided(tmp_path: Path) -> None:
    old, new = write_arm(tmp_path / "a", "control", 1, 6), write_arm(tmp_path / "b", "fast", 1.1, 6)
    document = compare("control", [old], "fast", [new], generated_at=WHEN)
    decode = document["metrics"]["decode_tok_s_p50"]
    assert decode["effect"]["verdict"] == "faster"
    assert decode["effect"]["blocks"] == 6
    assert decode["fast_delta_percent"] == pytest.approx(10, abs=1e-6)
    assert "too_few_blocks" not in caveats(document)
    proven = [one["text"] for one in document["claims"]["proven"]]
    assert any(text.startswith("decode_tok_s_p50: fast against control +10.0 % (faster)") for text in proven)
    assert {one["text"]: one["status"] for one in document["invariants"]}["same prompts"] == "observed"


def test_a_folder_with_both_lanes_gives_each_arm_its_own(tmp_path: Path) -> None:
    write_arm(write_arm(tmp_path / "c", "control", 1, 3), "fast", 1.1, 3)
    document = compare("control", [tmp_path / "c"], "fast", [tmp_path / "c"], generated_at=WHEN)
    assert document["metrics"]["decode_tok_s_p50"]["effect"]["method"].startswith("Student's t")
    with pytest.raises(BadInput, match="control, fast"):
        compare("one", [tmp_path / "c"], "fast", [tmp_path / "c"])


def test_an_arm_against_itself_never_wins(tmp_path: Path) -> None:
    old, new = write_arm(tmp_path / "a", "one", 1, 6), write_arm(tmp_path / "b", "two", 1, 6)
    document = compare("one", [old], "two", [new], generated_at=WHEN)
    verdicts = {metric: part["effect"]["verdict"] for metric, part in document["metrics"].items()}
    assert set(verdicts.values()) == {"equivalent within 2 %"}


def test_a_campaign_folder_tells_starts_memory_and_gates(tmp_path: Path) -> None:
    """Startup seconds and loads come from the journal, the idle snapshot from the samples after the last request."""
    root = write_arm(tmp_path / "a", "control", 1, 1)
    gate = artifact("control-r9", (request(reasoning_chunks=3),), what="gate", checks=(check("smoke"), check("json")))
    write(root / "runs" / "control-r9.json", gate)
    write(root / "startup" / "control-x.json", start(15.27, 283_917, 2.17, 1.73))
    events = [
        LoadReady(
            lane="control",
            load_id="x",
            startup_seconds=237.9,
            served_name="s",
            max_model_len=131_072,
            engine_version=None,
        ),
        StartupReported(lane="control", load_id="x", path="startup/control-x.json", sha256="0"),
    ]
    lines = [
        {"seq": n, "prev": "", "t": "", "mono_us": 0, "kind": kind_of(type(event)), "body": json.loads(_json(event))}
        for n, event in enumerate(events)
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"seq": 9, "kind": "something new"}\ntorn'
    (root / "journal.jsonl").write_text(text)
    mib = 1 << 20
    samples = [
        VramSample(
            mono_us=at,
            at="",
            gpus=(GpuReading(uuid="GPU-a", total=97887 * mib, reserved=448 * mib, free=free * mib),),
        )
        for at, free in ((0, 9000), (5_300_000, 1982), (9_000_000, 5000))
    ]
    (root / "vram").mkdir()
    (root / "vram" / "samples.jsonl").write_bytes(b"\n".join(_json(one) for one in samples))
    document = compare("control", [root], "fast", [write_arm(tmp_path / "b", "fast", 1.1, 1)], generated_at=WHEN)
    assert document["control"]["startup_seconds"] == 237.9
    assert document["control"]["kv_cache_tokens"] == 283_917
    assert document["memory"]["control_used_mib"] == [95457]
    assert document["memory"]["control_capture_phase"] == "idle immediately after the last request"
    assert document["functional_gate"] == {
        "fast": None,
        "control": "pass",
        "checks": ["smoke", "json"],
        "reasoning_evidence": None,
        "reasoning_seen": {"fast": None, "control": True},
    }


def _json(record: Any) -> bytes:
    import msgspec

    return msgspec.json.encode(record)


def test_arms_without_a_common_protocol_are_invalid(tmp_path: Path) -> None:
    old = write(tmp_path / "a.json", artifact("a-r1", (request(),), target_tokens=1000))
    new = write(tmp_path / "b.json", artifact("b-r1", (request(),), target_tokens=2000))
    document = compare("a", [old], "b", [new], generated_at=WHEN)
    verdicts = {part["effect"]["verdict"] for part in document["metrics"].values()}
    assert verdicts == {"invalid (the arms ran no common protocol)"}


def test_a_ladder_is_compared_rung_by_rung(tmp_path: Path) -> None:
    for lane, target in itertools.product(("a", "b"), (1000, 2000)):
        rows = (request(prompt_tokens=target, ttft_ms=target / 10, time_to_first_output_ms=target / 10),)
        write(
            tmp_path / lane / "runs" / f"{lane}-r{target}.json",
            artifact(f"{lane}-r{target}", rows, target_tokens=target),
        )
    document = compare("a", [tmp_path / "a"], "b", [tmp_path / "b"], generated_at=WHEN)
    assert list(document["metrics_by_protocol"]) == ["1000 × 1", "2000 × 1"]
    assert document["protocol"]["context_tokens"] == 2000
    assert document["metrics"]["ttft_p50_ms"]["a_median"] == 200


def test_a_rehearsal_is_said_and_never_wins(tmp_path: Path) -> None:
    old = write(tmp_path / "a.json", artifact("a-r1", (request(),), rehearsal=True))
    new = write(tmp_path / "b.json", artifact("b-r1", (request(),), rehearsal=True))
    document = compare("a", [old], "b", [new], generated_at=WHEN)
    assert document["rehearsal"] is True
    assert document["metrics"]["e2e_p50_ms"]["effect"]["verdict"] == "invalid (a rehearsal is no evidence)"
    assert "rehearsal" in caveats(document)
    assert document["decision"].startswith("REHEARSAL: ")
    assert document["claims"]["proven"] == []


def test_the_operator_edits_the_decision(tmp_path: Path) -> None:
    old = write(tmp_path / "a.json", artifact("a-r1", (request(),)))
    new = write(tmp_path / "b.json", artifact("b-r1", (request(),)))
    document = compare("a", [old], "b", [new], template="Keep $baseline; decode of $candidate is $decode.")
    assert document["decision"].startswith("Keep a; decode of b is +0.0 %")
    for template, words in (("$decod", "did you mean 'decode'"), ("100 $", "placeholder")):
        with pytest.raises(BadInput, match=words):
            compare("a", [old], "b", [new], template=template)


@pytest.mark.parametrize(
    ("baseline", "candidate", "words"),
    [
        ("metrics", "b", "no field"),
        ("a", "a", "another name"),
        ("a b", "b", "letters, digits"),
        ("../a", "b", "letters, digits"),
    ],
)
def test_names_that_no_arm_may_have(tmp_path: Path, baseline: str, candidate: str, words: str) -> None:
    path = write(tmp_path / "a.json", artifact("a-r1", (request(),)))
    with pytest.raises(BadInput, match=words):
        compare(baseline, [path], candidate, [path])


def test_files_that_are_refused(tmp_path: Path) -> None:
    good = write(tmp_path / "good.json", artifact("a-r1", (request(),)))
    empty = tmp_path / "empty"
    empty.mkdir()
    torn = tmp_path / "torn.json"
    torn.write_text('{"schema": "anvil-run/v1"')
    endless = tmp_path / "nan.json"
    endless.write_text('{"schema": "anvil-serving.benchmark/v1", "wall_clock_ms": NaN}')
    for path, words in (
        (tmp_path / "absent.json", "No such file"),
        (torn, "JSON"),
        (endless, "NaN is not a number"),
        (empty, "none of our artifacts"),
        (write(tmp_path / "other.json", {"schema": "someone/v1"}), "someone/v1"),
        (write(tmp_path / "wrong.json", {"schema": "anvil-run/v1"}), "missing"),
        (good, "given for both arms"),
    ):
        with pytest.raises(BadInput, match=words):
            compare("a", [good], "b", [path])
    with pytest.raises(BadInput, match="at least one"):
        compare("a", [good], "b", [])


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.permutations(range(6)))
def test_the_order_of_our_files_changes_nothing(tmp_path: Path, order: list[int]) -> None:
    root = tmp_path / "order"
    if not root.exists():
        write_arm(write_arm(root, "a", 1, 3), "b", 1.2, 3)
    files = [sorted((root / "runs").glob(f"{lane}-*")) for lane in ("a", "b")]
    documents = [
        compare("a", [files[0][n] for n in places], "b", [files[1][n] for n in places], generated_at=WHEN)
        for places in (range(6), order)
    ]
    assert documents[0] == documents[1]
