"""A real campaign folder, as a runner leaves it, and the people who sign it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from anvil_tui.bundles import keys, seal, sign, trust
from anvil_tui.bundles.ssh.public_key import parse_line
from anvil_tui.bundles.trust import Trusted
from anvil_tui.records import events
from anvil_tui.records.bundle import SealReport, SigningKey
from anvil_tui.records.events import Event

CAMPAIGN_ID = "20261201T032355Z-ladder-7c1e9a"
LANE = b'[identity]\nmodel = "acme/model-8b"\nengine = "vllm"\nmodel_revision = "abc123"\n'
SECRET = b"a passphrase that stands nowhere else"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Folder:
    """A campaign folder and its journal, written as DESIGN tells a runner to write them."""

    def __init__(self, path: Path, *, rehearsal: bool = False, kind: str = "ladder") -> None:
        self.path = path
        self.rehearsal = rehearsal
        path.mkdir(parents=True)
        plan = json.dumps(
            {"schema": "anvil-plan/v1", "rehearsal": rehearsal, "lane_sha256": {"base": sha256(LANE)}}
        ).encode()
        self.put("lanes/base.toml", LANE)
        self.put("plan.json", plan)
        self.append(
            events.RunnerStarted(tool_version="0.1.0", python="3.11.7", pid=1, boot_id="boot", resumed=False),
            events.CampaignPlanned(
                campaign_id=CAMPAIGN_ID,
                campaign_kind=kind,
                lanes=("base",),
                plan_sha256=sha256(plan),
                rehearsal=rehearsal,
            ),
        )

    def put(self, path: str, data: bytes) -> str:
        target = self.path / path
        target.parent.mkdir(exist_ok=True, parents=True)
        target.write_bytes(data)
        return sha256(data)

    def append(self, *bodies: Event) -> None:
        """Chain events onto the journal."""
        for body in bodies:
            self.append_raw(events.kind_of(type(body)), msgspec.json.encode(body))

    def append_raw(self, kind: str, body: bytes) -> None:
        journal = self.path / "journal.jsonl"
        lines = journal.read_bytes().split(b"\n")[:-1] if journal.exists() else []
        envelope = events.Envelope(
            seq=len(lines),
            prev=sha256(lines[-1]) if lines else "0" * 64,
            t=f"2026-12-01T03:24:{len(lines) % 60:02}.000Z",
            mono_us=1000 * len(lines),
            kind=kind,
            body=msgspec.Raw(body),
        )
        with journal.open("ab") as file:
            file.write(msgspec.json.encode(envelope) + b"\n")
            os.fsync(file.fileno())

    def start(self, run: str) -> None:
        self.append(events.RunStarted(lane="base", run=run, what="rung", target_tokens=2000))

    def finish(self, run: str, *, passed: bool = True) -> None:
        artifact = json.dumps(
            {"schema": "anvil-run/v1", "run": run, "rehearsal": self.rehearsal, "nonce": os.urandom(16).hex()}
        ).encode()
        digest = self.put(f"runs/{run}.json", artifact)
        self.append(
            events.RunFinished(
                run=run,
                path=f"runs/{run}.json",
                sha256=digest,
                bytes=len(artifact),
                passed=passed,
                outcome="ok",
                reserve=None,
                words="hit its target",
            )
        )

    def complete(self) -> Folder:
        """Two good runs, a failed one, an interrupted one, logs, samples, a document, a decision, and the end."""
        for run, passed in (("base-r1", True), ("base-r2", True), ("base-r3", False)):
            self.start(run)
            self.finish(run, passed=passed)
        self.start("base-r4")
        self.append(events.RunInterrupted(run="base-r4", words="the lane died"))
        log = b"INFO engine up\nINFO token=[redacted]\n"
        digest = self.put("logs/base-load1.log", log)
        self.append(
            events.LogCopied(
                lane="base", path="logs/base-load1.log", sha256=digest, bytes=len(log), redactions={"bearer": 1}
            )
        )
        report = self.put("startup/base-load1.json", b'{"schema": "anvil-startup-report/v1"}')
        self.append(events.StartupReported(lane="base", load_id="load1", path="startup/base-load1.json", sha256=report))
        self.put("vram/base.jsonl", b'{"kind":"sample"}\n')
        self.put("documents/ladder.json", b'{"medians": {"ttft_ms": 50.5}}')
        self.put("runner.log", b"runner: all good\n")
        self.append(events.RunnerEnded(ending="complete", words="done", exit_code=0))
        decision = self.put("decision.txt", b"Keep the baseline.\n")
        self.append(events.Decided(path="decision.txt", sha256=decision))
        self.put("live.json", b"{}")
        self.put("inbox/123-4.json", b"{}")
        return self

    def seal(self) -> SealReport:
        return seal.seal(self.path, self.append)

    def copy(self, to: Path) -> Path:
        shutil.copytree(self.path, to, symlinks=True)
        return to


class Person:
    """An operator with a key and a name in a trust store."""

    def __init__(self, home: Path, principal: str = "operator@lab", passphrase: bytes | None = None) -> None:
        self.home = home
        self.passphrase = passphrase
        self.key: SigningKey = keys.create(home / "keys", principal, passphrase)
        self.allowed = home / "allowed_signers"
        trust.add(self.allowed, Trusted(principal, parse_line(self.key.public)[0]))

    @property
    def trusted(self) -> tuple[Trusted, ...]:
        return trust.read(self.allowed)

    def sign(self, bundle: Path) -> str:
        """Sign in this process, which saves a test the start of a child."""
        return sign.add_signature(bundle, keys.signer(self.key, self.passphrase)).file


@pytest.fixture(autouse=True)
def no_agent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither the agent nor the home of whoever runs the tests is touched."""
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


@pytest.fixture
def campaign(tmp_path: Path) -> Folder:
    return Folder(tmp_path / CAMPAIGN_ID).complete()


@pytest.fixture
def operator(tmp_path: Path) -> Person:
    return Person(tmp_path / "config")


@pytest.fixture(scope="session")
def _signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Person]:
    base = tmp_path_factory.mktemp("signed")
    folder = Folder(base / CAMPAIGN_ID).complete()
    folder.seal()
    person = Person(base / "config")
    person.sign(folder.path)
    return folder.path, person


@pytest.fixture
def signed(_signed: tuple[Path, Person], tmp_path: Path) -> Iterator[tuple[Path, Person]]:
    """A fresh copy of one sealed and signed bundle, and who signed it."""
    original, person = _signed
    yield Path(shutil.copytree(original, tmp_path / "bundle" / CAMPAIGN_ID)), person
