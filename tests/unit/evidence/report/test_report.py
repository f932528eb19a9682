"""The whole page from a folder: complete, escaped, self-contained, the same bytes each time; broken folders too."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from anvil_tui.errors import CannotRun
from anvil_tui.evidence.comparison import compare
from anvil_tui.evidence.report.contents import read_contents
from anvil_tui.evidence.report.report import write_report
from anvil_tui.records import events
from anvil_tui.records.artifact import Check
from anvil_tui.records.request import RequestError
from anvil_tui.records.vram import GpuReserve, ReserveVerdict, SamplerGap, Verdict
from tests.unit.evidence.report.folders import BOOT, GPU, INVENTORY, MIB, SECOND, campaign, runner_started, sample
from tests.unit.evidence.report.test_markup import parsed
from tests.unit.evidence.samples import artifact, request, start, write

drawn = pytest.mark.skipif(importlib.util.find_spec("vl_convert") is None, reason="the extra `report` is not installed")
NASTY = '<script>alert("x")</script>\x1b[31m\u202e'


def reserve(free_mib: int) -> ReserveVerdict:
    gpu = GpuReserve(
        uuid=GPU.uuid, name=GPU.name, min_free_bytes=free_mib * MIB, min_free_at_us=1, below_seconds=0.0,
        margin_bytes=(free_mib - 3072) * MIB, reserved_bytes=None, total_bytes=97887 * MIB,
        verdict="PASS" if free_mib >= 3072 else "FAIL",
    )  # fmt: skip
    return ReserveVerdict(
        verdict=gpu.verdict, reason="", policy="enforce", policy_reason=None, reserve_mib=3072, window_from_us=0,
        window_to_us=SECOND, samples=20, hz=20.0, max_gap_ms=51.0, coverage_pct=100.0, spill="none",
        spill_witness=None, gpus=(gpu,),
    )  # fmt: skip


def page(folder: Path, **options: Any) -> str:
    return write_report(folder, **options).decode()


def finished(run: str, verdict: Verdict, words: str) -> events.RunFinished:
    good = verdict == "PASS"
    return events.RunFinished(
        run=run, path=f"runs/{run}.json", sha256="0", bytes=1, passed=good, outcome="ok" if good else "disconnected",
        reserve=verdict, words=words,
    )  # fmt: skip


def rung_campaign(folder: Path) -> Path:
    """A ladder of two rungs, one passed and one that failed, with samples and a start that the runner saw."""
    good = artifact(
        "lane-r1", (request(prompt_tokens=2000),), target_tokens=2000, reserve=reserve(4000),
        checks=(Check(name="exact", passed=True, words="target 2,000, the API counted 2,000"),),
    )  # fmt: skip
    bad = artifact(
        "lane-r2",
        (request(outcome="disconnected", ttft_ms=None, e2e_ms=None, output_tokens=None, prompt_tokens=None,
                 cached_tokens=None, error=RequestError(message="gone: api_key=abcdef123456789")),),
        target_tokens=9000, passed=False, reserve=reserve(2000),
    )  # fmt: skip
    load = "20260811T000000Z-a"
    journal = [
        runner_started(),
        events.CampaignPlanned(
            campaign_id="c", campaign_kind="ladder", lanes=("lane",), plan_sha256="f" * 64, rehearsal=False
        ),
        events.LoadStarted(lane="lane", load_id=load, launch="process", pid=7),
        events.PhaseReached(lane="lane", phase="load_weights", line=3),
        events.PhaseReached(lane="lane", phase="kv_report", line=30),
        events.LoadReady(
            lane="lane", load_id=load, startup_seconds=3.0, served_name="s", max_model_len=131072, engine_version="0.32"
        ),
        events.StartupReported(lane="lane", load_id=load, path="startup/lane-a.json", sha256="0"),
        events.RunStarted(lane="lane", run="lane-r1", what="rung", target_tokens=2000),
        finished("lane-r1", "PASS", "fine"),
        events.RunStarted(lane="lane", run="lane-r2", what="rung", target_tokens=9000),
        finished("lane-r2", "FAIL", "the lane hung up"),
        events.RunSkipped(what="rung", target_tokens=20_000, words="the rung before failed"),
        events.RunnerEnded(ending="failed", words="a rung failed", exit_code=1),
    ]  # fmt: skip
    samples = [INVENTORY, *(sample(step * 50_000, 90_000 - 800 * step) for step in range(105))]
    campaign(folder, (good, bad), journal=journal, samples=samples)
    write(folder / "startup" / "lane-a.json", start(15.27, 283917, 2.17, 1.73))
    (folder / "decision.txt").write_text("Keep the old one.\nFor now.")
    (folder / "decision-2.txt").write_text("Take the new one.\n\nReally.")
    return folder


@drawn
def test_the_page_tells_the_whole_campaign(tmp_path: Path) -> None:
    text = parsed(page(rung_campaign(tmp_path / "c"))).text
    for words in (
        "ladder campaign", "a rung failed", "the lane hung up", "rung of 20,000 tokens: the rung before failed",
        "runs/lane-r1.json", "longest prompt served", "2,000 tokens", "10,000 tok/s", "+928", "-1,072", "283,917",
        "Take the new one.", "decision-2.txt", "startup/lane-a.json", "vram/samples.jsonl", "f" * 64, "n/a",
        "target 2,000, the API counted 2,000",
    ):  # fmt: skip
        assert words in text, words
    assert "REHEARSAL" not in text and "Keep the old one" not in text and "abcdef123456789" not in text


@drawn
def test_every_plot_is_there_once_and_ids_are_unique(tmp_path: Path) -> None:
    markup = page(rung_campaign(tmp_path / "c"))
    assert re.findall(r'<figure id="plot-([a-z0-9-]+)">', markup) == ["ladder", "requests", "memory-1", "start-1"]
    assert markup.count("<svg ") == 4
    ids = re.findall(r' id="([^"]+)"', markup)
    assert len(ids) == len(set(ids))
    used = set(re.findall(r"url\(#([^)]+)\)", markup))
    assert used and used <= set(ids)
    assert set(re.findall(r'href="#([^"]+)"', markup)) <= set(ids)


@drawn
def test_the_same_folder_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = rung_campaign(tmp_path / "c")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert write_report(folder) == write_report(folder)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_without_charts_the_tables_stand_and_the_page_says_so(tmp_path: Path) -> None:
    markup = page(rung_campaign(tmp_path / "c"), charts=False)
    assert "<svg" not in markup and "plots were not asked for" in markup and "283,917" in markup


@drawn
def test_nothing_runs_and_nothing_is_fetched(tmp_path: Path) -> None:
    found = parsed(page(rung_campaign(tmp_path / "c")))
    assert not {name for name, _ in found.tags} & {"script", "img", "image", "link", "iframe", "object", "embed", "use"}
    for _, attributes in found.tags:
        for key, value in attributes:
            assert not key.startswith("on") and key not in ("src", "xlink:href", "action", "style", "xmlns"), key
            assert key != "href" or (value or "").startswith("#")
            assert "http://" not in (value or "") and "https://" not in (value or "")
    assert "default-src 'none'" in page(rung_campaign(tmp_path / "d"), charts=False)


@drawn
def test_nasty_names_stay_text(tmp_path: Path) -> None:
    nasty = artifact(
        "x-r1", (request(finish_reason=NASTY, warnings=(NASTY,), error=RequestError(message=NASTY)),), lane=NASTY,
        target_tokens=1000, checks=(Check(name=NASTY, passed=None, words=NASTY),), words=NASTY,
    )  # fmt: skip
    journal = [
        runner_started(),
        events.LoadFailed(lane=NASTY, load_id=NASTY, words=NASTY, cause=NASTY),
        events.RunnerEnded(ending="failed", words=NASTY, exit_code=1),
    ]
    documents = {"x.json": {"schema": NASTY, NASTY: [NASTY, {NASTY: NASTY}], "caveats": [NASTY], "unknown": {NASTY: 1}}}
    folder = campaign(tmp_path / "c", (nasty,), journal=journal, documents=documents, kind=NASTY, lanes=[NASTY])
    (folder / "decision.txt").write_text(NASTY)
    markup = page(folder)
    found = parsed(markup)
    assert "script" not in {name for name, _ in found.tags} and "alert" in found.text
    assert not set("\x1b\u202e\x07") & set(markup)


def test_a_rehearsal_says_so_in_large_letters(tmp_path: Path) -> None:
    markup = page(campaign(tmp_path / "c", (artifact("a-r1", (request(),), rehearsal=True),)), charts=False)
    assert "<strong>REHEARSAL</strong>" in markup and "<title>REHEARSAL: " in markup
    assert "<strong>REHEARSAL</strong>" in page(campaign(tmp_path / "d", rehearsal=True), charts=False)


def test_a_folder_with_nothing_but_a_plan_is_told_as_that(tmp_path: Path) -> None:
    (tmp_path / "c").mkdir()
    write(tmp_path / "c" / "plan.json", {"kind": "gate", "lanes": ["a"]})
    text = parsed(page(tmp_path / "c")).text
    assert "not ended" in text and "No run was begun." in text and "journal.jsonl: No such file" in text


@pytest.mark.parametrize("plan", [None, b"{", b"[1]"])
def test_no_campaign_folder_is_refused(tmp_path: Path, plan: bytes | None) -> None:
    if plan is not None:
        (tmp_path / "plan.json").write_bytes(plan)
    with pytest.raises(CannotRun, match=r"plan\.json"):
        write_report(tmp_path)


def test_files_that_cannot_be_read_are_named_and_the_rest_is_told(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", (artifact("a-r1", (request(),)),), samples=[INVENTORY, sample(0, 9000)])
    (folder / "runs" / "a-r2.json").write_text('{"schema": "anvil-run/v1"}')
    write(folder / "documents" / "broken.json", "no object")
    with (folder / "journal.jsonl").open("ab") as file:
        file.write(b'{"seq": 1, "kind"')
    with (folder / "vram" / "samples.jsonl").open("ab") as file:
        file.write(b'{"kind":"sample","mono_us":')
    text = parsed(page(folder, charts=False)).text
    for words in (
        "runs/a-r2.json: nonce: missing", "documents/broken.json: ", "journal.jsonl: 1 lines that are no events",
        "vram/samples.jsonl: 1 lines that are no samples", "a-r1",
    ):  # fmt: skip
        assert words in text, words
    assert str(tmp_path) not in text


def test_an_event_of_another_version_is_shown_as_unknown(tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c")
    line = (folder / "journal.jsonl").read_bytes()
    (folder / "journal.jsonl").write_bytes(line + line.replace(b"runner_started", b"moon_phase"))
    assert "moon_phase, 1 times: written by another version" in parsed(page(folder)).text


def test_interruptions_alarms_and_a_resume_are_told(tmp_path: Path) -> None:
    journal = [
        runner_started(),
        events.RunStarted(lane="a", run="a-r1", what="rung", target_tokens=9000),
        events.AlarmRaised(alarm="reserve", words="GPU0 is short"),
        runner_started(boot="other", resumed=True),
        events.Recovered(torn_bytes=3, torn_sha256=None, kept_as=None, interrupted_runs=("a-r1",),
                         found_after_crash=()),
        events.RunInterrupted(run="a-r1", words="the runner died"),
        events.Asked(request="1", ask="note", text="lights flicker"),
        events.SamplerFailed(reason="NVML is gone", hint="restart"),
        events.BlockLoadBegun(number=0, block=1, arm="baseline", lane="a", replay=False),
        events.BlockLoadEnded(
            number=0, block=1, arm="baseline", load_id=None, whole=False, health="silent",
            shared_memory_reclaimable_bytes=None, words="it died",
        ),
        events.MemoryReturned(returned=False, words="2 GiB stayed"),
        events.Validated(name="tests", exit_code=2, path="documents/validation.txt", sha256="0"),
        events.RunnerEnded(ending="stopped", words="stopped by the operator", exit_code=1),
    ]  # fmt: skip
    text = parsed(page(campaign(tmp_path / "c", journal=journal, lanes=["a"]), charts=False)).text
    for words in (
        "GPU0 is short", "3 torn bytes, a-r1 interrupted", "a-r1: the runner died", "note: lights flicker",
        "NVML is gone. restart", "load 0 of block 1: it died", "2 GiB stayed", "tests: exit code 2", "cut short",
        "campaign stopped", "a new runner took over",
    ):  # fmt: skip
        assert words in text, words


def test_runs_of_a_block_that_is_redone_are_kept_and_not_counted(tmp_path: Path) -> None:
    def load(number: int, load_id: str) -> list[events.Event]:
        return [
            events.BlockLoadBegun(number=number, block=1, arm="baseline", lane="a", replay=False),
            events.LoadStarted(lane="a", load_id=load_id, launch="process", pid=1),
        ]

    runs = [
        artifact("a-r1", (request(prompt_tokens=9000),), target_tokens=9000, load_id="first"),
        artifact("a-r2", (request(prompt_tokens=5000),), target_tokens=5000, load_id="second"),
    ]
    journal = [runner_started(), *load(0, "first"), events.BlockInterrupted(block=1, words="cut"), *load(0, "second")]
    contents = read_contents(campaign(tmp_path / "c", runs, journal=journal))
    assert contents.story.put_aside == {"first"}
    assert [one.path for one in contents.counted] == ["runs/a-r2.json"]
    text = parsed(page(tmp_path / "c", charts=False)).text
    assert "not in the journal, not counted" in text and "not ended, not counted" in text
    assert "longest prompt served5,000 tokens" in text


def test_a_paired_document_is_told_with_values_verdicts_claims_and_what_is_unknown(tmp_path: Path) -> None:
    def side(name: str, decode: float) -> list[Path]:
        records = tuple(request(index, e2e_ms=200.0 + 100_000 / decode) for index in range(3))
        return [write(tmp_path / f"{name}-r1.json", artifact(f"{name}-r1", records, what="capacity"))]

    document = compare("control", side("control", 100.0), "dspark", side("dspark", 200.0), generated_at="now")
    text = parsed(page(campaign(tmp_path / "c", documents={"comparison.json": document}), charts=False)).text
    for words in (
        "Paired comparison", "documents/comparison.json", "decode_tok_s_p50", "100.0", "200.0", "+100.0 %",
        "inconclusive", "Unknown field", "not proven", "image_digest",
    ):  # fmt: skip
        assert words in text, words


def test_a_controlled_change_stands_side_by_side_and_odd_documents_do_no_harm(tmp_path: Path) -> None:
    change = {
        "schema": "controlled-change/v1",
        "startup_measurements": {
            "baseline_b8192": {"kv_gib": 15.27, "peak": None, "replays": [{"x": 1}]},
            "candidate_b4096": {"kv_gib": 15.99, "peak": 1.14},
            "candidate_minus_baseline": {"kv_gib": 0.72},
        },
        "matched_context_ladder": None,
        "interpretation": {"proven": [{"odd": 1}], "not_proven": 7},
        "invariants": "none",
    }
    acceptance = {
        "schema": "anvil-acceptance/v1",
        "conditions": [
            {"what": "gate", "text": "the gate passes", "state": "not yet known", "words": "no gate", "evidence": []}
        ],
    }
    odd: dict[str, Any] = {"schema": "paired-capacity-comparison/v1", "success": {"a": 1, "b": 2}, "metrics": {"m": 1}}
    documents = {"change.json": change, "acceptance.json": acceptance, "odd.json": odd}
    text = parsed(page(campaign(tmp_path / "c", documents=documents), charts=False)).text
    for words in ("15.27", "15.99", "+0.72", "b8192", "b4096", "the gate passes", "not yet known"):
        assert words in text, words


@drawn
def test_memory_of_two_boots_is_two_plots(tmp_path: Path) -> None:
    journal = [runner_started(), *(events.AlarmRaised(alarm="disk", words="") for _ in range(60)), runner_started("c")]
    later = sample(0, 8000)
    later = type(later)(mono_us=5, at="2026-08-11T00:02:00.000Z", gpus=later.gpus)
    gap = SamplerGap(from_us=1, to_us=2, reason="restarted")
    samples = [INVENTORY, sample(10, 9000), gap, sample(SECOND, 9000), later]
    markup = page(campaign(tmp_path / "c", journal=journal, samples=samples))
    assert BOOT == "b" and 'id="plot-memory-1"' in markup and 'id="plot-memory-2"' in markup
