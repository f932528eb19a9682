"""Keys: made so that nobody else reads them, found where they are, refused with the reason."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from anvil_tui.bundles import keys, sign, trust
from anvil_tui.bundles.keys import KeyRefused
from anvil_tui.bundles.ssh import agent
from anvil_tui.bundles.ssh.public_key import parse_line
from anvil_tui.bundles.trust import Trusted
from anvil_tui.bundles.verify import verify
from anvil_tui.errors import BadInput
from anvil_tui.records.bundle import SigningKey
from tests.unit.bundles.conftest import SECRET, Folder, Person

needs_openssh = pytest.mark.skipif(
    not all(map(shutil.which, ("ssh-keygen", "ssh-agent", "ssh-add"))), reason="needs OpenSSH's tools"
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def stock_key(path: Path, *options: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    argv = ["ssh-keygen", "-q", "-N", "", "-C", "me@lab", "-f", str(path), *(options or ("-t", "ed25519"))]
    subprocess.run(argv, check=True, capture_output=True, timeout=30)
    return path


def test_a_created_key_is_for_its_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        key = keys.create(tmp_path / "config" / "keys", "operator@lab", None)
    finally:
        os.umask(old)
    assert key.path is not None
    path = Path(key.path)
    assert (mode(path), mode(path.parent)) == (0o600, 0o700)
    assert path.with_name("signing_ed25519.pub").read_text() == f"{key.public} operator@lab\n"
    assert (key.own, key.agent, key.needs_passphrase, key.comment) == (True, False, False, "operator@lab")
    assert sorted(item.name for item in path.parent.iterdir()) == ["signing_ed25519", "signing_ed25519.pub"]


def test_a_key_is_never_replaced(tmp_path: Path) -> None:
    key = keys.create(tmp_path, "operator@lab", None)
    before = Path(str(key.path)).read_bytes()
    with pytest.raises(KeyRefused) as caught:
        keys.create(tmp_path, "operator@lab", SECRET)
    assert caught.value.code == "KEY_EXISTS"
    assert Path(str(key.path)).read_bytes() == before


def test_a_file_system_without_modes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As drvfs without metadata: chmod succeeds and everything stays 0777."""
    real = os.fstat
    monkeypatch.setattr(os, "fchmod", lambda fd, mode: None)
    monkeypatch.setattr(os, "fstat", lambda fd: os.stat_result((stat.S_IFREG | 0o777, *tuple(real(fd))[1:])))
    with pytest.raises(KeyRefused) as caught:
        keys.create(tmp_path, "operator@lab", None)
    assert caught.value.code == "KEY_FS_NO_MODES"
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_or_read(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_bytes(b"")
    with pytest.raises(KeyRefused) as caught:
        keys.create(tmp_path / "file" / "keys", "operator@lab", None)
    assert caught.value.code == "KEY_UNWRITABLE"
    with pytest.raises(BadInput, match="a readable file"):
        trust.read(tmp_path)
    with pytest.raises(BadInput, match="a readable file"):
        trust.add(tmp_path / "file" / "allowed_signers", Trusted("op@lab", parse_line(KEY)[0]))


@pytest.mark.parametrize("principal", ["", "*", "a*", "!x", "a b", "a,b", "-x", "a@b@c", "ä", "a\n", "a@"])
def test_a_principal_is_one_exact_name(tmp_path: Path, principal: str) -> None:
    with pytest.raises(BadInput, match="NAME or NAME@HOST"):
        keys.create(tmp_path, principal, None)
    assert list(tmp_path.iterdir()) == []


def test_the_default_principal_is_a_principal() -> None:
    trust.check_principal(trust.default_principal())


@pytest.mark.parametrize("bits", [0o644, 0o640, 0o604, 0o777])
def test_a_key_that_others_may_read_is_refused(tmp_path: Path, bits: int) -> None:
    path = Path(str(keys.create(tmp_path, "operator@lab", None).path))
    path.chmod(bits)
    with pytest.raises(KeyRefused, match="chmod 600") as caught:
        keys.load(path)
    assert caught.value.code == "KEY_TOO_OPEN"


def test_the_mode_is_read_from_the_file_that_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = Path(str(keys.create(tmp_path, "operator@lab", None).path))
    path.chmod(0o644)
    monkeypatch.setattr(os, "stat", lambda *args, **kwargs: pytest.fail("it asked the path, not the descriptor"))
    with pytest.raises(KeyRefused):
        keys.load(path)


@pytest.mark.parametrize(
    ("given", "code"), [(None, "KEY_PASSPHRASE"), (b"", "KEY_PASSPHRASE"), (b"wrong", "KEY_PASSPHRASE"), (SECRET, None)]
)
def test_passphrases(tmp_path: Path, given: bytes | None, code: str | None) -> None:
    key = keys.create(tmp_path, "operator@lab", SECRET)
    assert key.needs_passphrase is True
    if code is None:
        assert keys.signer(key, given).key.fingerprint == key.fingerprint
    else:
        with pytest.raises(KeyRefused) as caught:
            keys.signer(key, given)
        assert caught.value.code == code
        assert SECRET.decode() not in str(caught.value)


def test_a_passphrase_for_an_open_key_does_no_harm(tmp_path: Path) -> None:
    key = keys.create(tmp_path, "operator@lab", None)
    assert keys.signer(key, SECRET).key.line == key.public


def test_what_is_no_key(tmp_path: Path) -> None:
    key = Path(str(keys.create(tmp_path, "operator@lab", None).path))
    cut = tmp_path / "cut"
    cut.write_bytes(key.read_bytes()[:200] + b"\n-----END OPENSSH PRIVATE KEY-----\n")
    pem = tmp_path / "pem"
    pem.write_bytes(b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIA==\n-----END PRIVATE KEY-----\n")
    for path in (cut, pem):
        path.chmod(0o600)
    os.mkfifo(tmp_path / "pipe", 0o600)
    unreadable = [tmp_path / "pipe", tmp_path / "nothing", tmp_path]
    for path, code in [
        (cut, "KEY_UNSUPPORTED"),
        (pem, "KEY_UNSUPPORTED"),
        *((p, "KEY_UNREADABLE") for p in unreadable),
    ]:
        with pytest.raises(KeyRefused) as caught:
            keys.load(path)
        assert caught.value.code == code, path


@needs_openssh
def test_keys_under_ssh_are_found_beside_our_own(tmp_path: Path) -> None:
    ssh = tmp_path / "ssh"
    stock_key(ssh / "id_ed25519")
    stock_key(ssh / "work.lab", "-t", "ecdsa")
    stock_key(ssh / "old", "-t", "rsa", "-b", "2048", "-m", "PEM")
    stock_key(ssh / "lonely").unlink()
    ssh.joinpath("notes.pub").write_bytes(b"\xff\xfe not a key")
    ssh.joinpath("long.pub").write_bytes(b"ssh-ed25519 " + b"A" * 100_000)
    os.mkfifo(ssh / "pipe.pub")
    operator = Person(tmp_path / "config")
    found = keys.usable(tmp_path / "config" / "keys", operator.trusted, ssh)
    assert [(Path(str(key.path)).name, key.key_type, key.own) for key in found] == [
        ("signing_ed25519", "ssh-ed25519", True),
        ("id_ed25519", "ssh-ed25519", False),
        ("old", "ssh-rsa", False),
        ("work.lab", "ecdsa-sha2-nistp256", False),
    ]
    assert [key.needs_passphrase for key in found] == [False, False, None, False]
    assert [key.principal for key in found] == ["operator@lab", None, None, None]
    assert [key.comment for key in found[1:]] == ["me@lab"] * 3
    assert keys.usable(tmp_path / "no-keys", (), tmp_path / "no-ssh") == ()
    with pytest.raises(KeyRefused, match="ssh-keygen -p -f FILE"):
        keys.signer(found[2])


@needs_openssh
def test_the_public_file_beside_a_key_is_not_believed(tmp_path: Path) -> None:
    operator = Person(tmp_path / "config")
    other = stock_key(tmp_path / "other")
    shutil.copy(f"{other}.pub", tmp_path / "config/keys/signing_ed25519.pub")
    found = keys.usable(tmp_path / "config/keys", operator.trusted, tmp_path / "no-ssh")
    assert [key.fingerprint for key in found] == [operator.key.fingerprint]


# What to sign with.


def _key(**fields: object) -> SigningKey:
    base = {"public": "", "key_type": "", "fingerprint": "", "comment": "", "own": False, "agent": False, "path": "x"}
    return SigningKey(**(base | {"needs_passphrase": False, "principal": "me@lab"} | fields))


def test_the_key_that_signs_is_one_that_is_trusted_here() -> None:
    stranger, other, own = _key(principal=None), _key(), _key(own=True)
    locked, held = _key(needs_passphrase=True, own=True), _key(needs_passphrase=None, agent=True)
    assert sign.choose([]) is None
    assert sign.choose([stranger]) is None
    assert sign.choose([stranger, other, own]) is own
    assert sign.choose([other, locked]) is locked
    assert sign.choose([locked], unattended=True) is None
    assert sign.choose([locked, held], unattended=True) is held
    assert sign.choose([_key(needs_passphrase=None)], unattended=True) is None


# The agent.


@pytest.fixture
def ssh_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A real ssh-agent of this test alone, ended with it."""
    address = Path(os.path.relpath(tmp_path / "agent.sock")) if len(str(tmp_path)) > 80 else tmp_path / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(address)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(address))
    yield address
    process.terminate()
    process.stdout.close()
    process.wait(10)


@needs_openssh
@pytest.mark.parametrize("options", [("-t", "ed25519"), ("-t", "ecdsa"), ("-t", "rsa", "-b", "2048")])
def test_an_agent_signs(tmp_path: Path, campaign: Folder, ssh_agent: Path, options: tuple[str, ...]) -> None:
    path = stock_key(tmp_path / "ssh/id", *options)
    subprocess.run(["ssh-add", "-q", str(path)], check=True, capture_output=True, timeout=30)
    path.unlink()
    public = parse_line(path.with_suffix(".pub").read_text())[0]
    store = (Trusted("me@lab", public),)
    (key,) = keys.usable(tmp_path / "no-keys", store, tmp_path / "ssh")
    assert (key.agent, key.path, key.comment, key.principal) == (True, None, "me@lab", "me@lab")
    assert sign.choose([key], unattended=True) is key
    campaign.seal()
    report = sign.sign(campaign.path, key)
    assert (report.file, report.fingerprint) == ("signatures/operator.sig", public.fingerprint)
    assert verify(campaign.path, store).exit_code == 0


@needs_openssh
def test_an_agent_that_no_longer_holds_the_key_refuses(tmp_path: Path, campaign: Folder, ssh_agent: Path) -> None:
    path = stock_key(tmp_path / "ssh/id")
    subprocess.run(["ssh-add", "-q", str(path)], check=True, capture_output=True, timeout=30)
    (key,) = keys.usable(tmp_path / "no-keys", (), tmp_path / "ssh")
    subprocess.run(["ssh-add", "-q", "-D"], check=True, capture_output=True, timeout=30)
    campaign.seal()
    with pytest.raises(KeyRefused, match="it refused") as caught:
        sign.sign(campaign.path, key)
    assert caught.value.code == "AGENT_REFUSED"
    assert not campaign.path.joinpath("signatures").exists()


def test_an_agent_that_is_not_there_has_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.held() == ()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "nothing"))
    assert agent.held() == ()


# Signing in the child.


def test_a_wrong_passphrase_leaves_the_bundle_sealed_and_unsigned(tmp_path: Path, campaign: Folder) -> None:
    operator = Person(tmp_path / "config", passphrase=SECRET)
    campaign.seal()
    before = sorted(campaign.path.rglob("*"))
    for passphrase in (None, b"wrong"):
        with pytest.raises(KeyRefused) as caught:
            sign.sign(campaign.path, operator.key, passphrase)
        assert caught.value.code == "KEY_PASSPHRASE"
    assert sorted(campaign.path.rglob("*")) == before
    assert sign.sign(campaign.path, operator.key, SECRET).file == "signatures/operator.sig"


def test_the_passphrase_is_in_no_argument_and_no_environment(
    tmp_path: Path, campaign: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Person(tmp_path / "config", passphrase=SECRET)
    campaign.seal()
    seen: list[list[str]] = []
    real = subprocess.run

    def watch(argv: list[str], **rest: object) -> object:
        seen.append(argv)
        assert "env" not in rest
        return real(argv, **rest)

    monkeypatch.setattr(subprocess, "run", watch)
    sign.sign(campaign.path, operator.key, SECRET)
    assert len(seen) == 1
    assert SECRET.decode() not in " ".join([*seen[0], *os.environ.values()])


# The trust store.

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"
NS = 'namespaces="bundle@anvil-tui"'


@pytest.mark.parametrize(
    "text",
    [
        f"operator@lab {NS} {KEY}",
        f"# who\n\noperator@lab {NS} {KEY} a comment\n",
        f"operator@lab {NS} {KEY}\r\n",
        f'op {NS},valid-after="20200101Z",valid-before="20991231235959Z" {KEY}\n',
        f'op valid-before="209912312359Z",{NS} {KEY}\n',
    ],
)
def test_good_trust_lines(text: str) -> None:
    (line,) = trust.parse(text.encode(), "allowed_signers")
    assert line.key.line == KEY
    assert trust.parse(line.line.encode(), "again") == (line,)


@pytest.mark.parametrize(
    "line",
    [
        f"* {NS} {KEY}",
        f"op*@lab {NS} {KEY}",
        f"!op {NS} {KEY}",
        f"a,b {NS} {KEY}",
        f"op@lab {KEY}",
        f'op@lab namespaces="git" {KEY}',
        f'op@lab namespaces="anvil-*" {KEY}',
        f'op@lab namespaces="bundle@anvil-tui,git" {KEY}',
        f"op@lab cert-authority,{NS} {KEY}",
        f"op@lab {NS},{NS} {KEY}",
        f'op@lab {NS},valid-before="20270101" {KEY}',
        f'op@lab {NS},valid-before="20271301Z" {KEY}',
        f'op@lab {NS},valid-before="tomorrow" {KEY}',
        f"op@lab {NS}",
        f"op@lab {NS} ssh-rsa {KEY.split()[1]}",
        f"op@lab {NS} ssh-ed25519 AAAA",
        f"\ufeffop@lab {NS} {KEY}",
        f" op@lab {NS} {KEY}",
        "junk",
    ],
)
def test_lines_outside_the_subset_are_refused_by_number(line: str) -> None:
    with pytest.raises(BadInput, match="allowed_signers"):
        trust.parse(f"operator@lab {NS} {KEY}\n{line}\n".encode(), "allowed_signers")


def test_trust_is_added_once_and_nothing_else_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "new" / "allowed_signers"
    key = parse_line(KEY)[0]
    trust.add(path, Trusted("op@lab", key))
    path.write_bytes(b"# mine\n" + path.read_bytes().rstrip(b"\n"))
    with pytest.raises(Exception, match="already trusts"):
        trust.add(path, Trusted("other@lab", key))
    other = parse_line(keys.create(tmp_path / "keys", "second@lab", None).public)[0]
    trust.add(path, Trusted("second@lab", other))
    assert path.read_text().startswith("# mine\nop@lab ")
    assert [line.principal for line in trust.read(path)] == ["op@lab", "second@lab"]
