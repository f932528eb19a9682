"""The main job, end to end, as an operator does it: a lane, a ladder, a sealed and signed bundle."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Bench


def stock_verify(bundle: Path, signer_line: str) -> None:
    """Check a bundle with what every machine has: ssh-keygen and sha256sum."""
    allowed = bundle.parent / "allowed_signers"
    allowed.write_text(signer_line + "\n")
    principal = signer_line.split()[0]
    with (bundle / "SHA256SUMS").open("rb") as sums:
        subprocess.run(
            [
                "ssh-keygen",
                "-Y",
                "verify",
                "-f",
                str(allowed),
                "-I",
                principal,
                "-n",
                "bundle@anvil-tui",
                "-s",
                "signatures/operator.sig",
            ],
            cwd=bundle,
            stdin=sums,
            check=True,
        )
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=bundle, check=True)


def test_a_rehearsal_ladder_from_nothing_to_a_verified_bundle(bench: Bench) -> None:
    lane = bench.rehearsal("practice")
    line = bench.good("keys", "--create", "op@lab", "--no-passphrase").rsplit("this line: ", 1)[1].strip()
    printed = bench.good("ladder", lane, "--targets", "2000,6000,12000", "--up", "--seal").splitlines()
    folder = bench.last
    assert printed[-1] == str(folder.path)
    assert any("REHEARSAL" in text for text in printed)
    artifacts = [json.loads((folder.path / f"runs/{lane}-r{number}.json").read_bytes()) for number in (1, 2, 3)]
    for artifact, target in zip(artifacts, (2000, 6000, 12000), strict=True):
        (request,) = artifact["requests"]
        assert artifact["passed"] and artifact["rehearsal"]
        assert request["prompt_tokens"] == target == artifact["target_tokens"]
        assert request["cached_tokens"] == 0
        assert request["outcome"] == "ok"
        assert artifact["limit_tokens"] == 131072 - 10240 - 1024
        assert artifact["reserve"]["samples"] > 0
        assert artifact["reserve"]["rehearsal"]
        assert all(gpu["min_free_bytes"] for gpu in artifact["reserve"]["gpus"])
        assert artifact["counters_after"]["values"] != artifact["counters_before"]["values"]
    assert len({request["nonce"] for artifact in artifacts for request in artifact["requests"]}) == 3
    report = json.loads(next((folder.path / "startup").iterdir()).read_bytes())
    assert report["kv_tokens"]["value"] == 553243
    assert {rank: figure["value"] for rank, figure in report["kv_available_gib"].items()}["TP0"] == 15.99
    manifest = json.loads((folder.path / "MANIFEST.json").read_bytes())
    assert manifest["rehearsal"] and manifest["status"] == "complete"
    stock_verify(folder.path, line)
    verified = bench.json("verify", str(folder.path))
    assert verified["exit_code"] == 0
    assert bench.json("campaigns")["campaigns"][0]["standing"] == "sealed"
    assert not (folder.path / "live.json").exists() and not (folder.path / "inbox").exists()
    bench.good("down", lane)
    assert bench.json("lanes")["lanes"][0]["state"] in ("stopped", "down")


@pytest.mark.slow
def test_each_act_by_itself(bench: Bench, tmp_path: Path) -> None:
    lane = bench.rehearsal("practice")
    assert bench.json("up", lane)["standing"] == "complete"
    assert (
        bench.json("ladder", lane, "--targets", "3000", "--max-tokens", "512", "--margin", "0")["runs"][0]["state"]
        == "passed"
    )
    folder = bench.last
    assert bench.kinds()[-1] == "runner_ended"
    text = tmp_path / "decision.txt"
    text.write_text("Keep the 4096 arm.\n")
    bench.good("decide", "last", "--text", str(text))
    bench.good("verify", str(folder.path), code=2)
    bench.good("seal", "last")
    assert bench.run("verify", folder.id).returncode == 3
    bench.good("sign", "last", code=2)
    bench.good("keys", "--create", "op@lab", "--no-passphrase")
    bench.good("sign", folder.id)
    bench.good("verify", folder.id)
    assert bench.run("decide", "last", "--text", str(text)).returncode == 2
    assert "sealed" in bench.run("resume", "last").stderr


def test_the_start_up_figures_name_their_lines(bench: Bench) -> None:
    lane = bench.rehearsal("practice", shipped="rehearsal-dspark")
    bench.good("up", lane)
    log = next((bench.state / "lanes" / lane).iterdir()) / "lane.log"
    read = bench.json("read-log", str(log), "--lines")
    assert (read["engine"], read["kv_tokens"], read["unread_count"]) == ("vllm", 138459, 0)
    lines = log.read_bytes().split(b"\n")
    assert b"138,459" in lines[read["lines"]["kv_tokens"][0]["line"] - 1]
    assert log.stat().st_mode & 0o777 == 0o600
