"""What stock OpenSSH and coreutils say of our bundles, and we of their signatures."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from anvil_tui.bundles import keys, sign, verify
from anvil_tui.bundles.refused import Refused
from anvil_tui.bundles.ssh import sshsig
from anvil_tui.bundles.ssh.public_key import parse_line
from anvil_tui.bundles.trust import Trusted
from tests.unit.bundles.conftest import CAMPAIGN_ID, SECRET, Folder, Person

pytestmark = pytest.mark.skipif(
    not shutil.which("ssh-keygen") or not shutil.which("sha256sum"), reason="needs ssh-keygen and sha256sum"
)


def run(*argv: str, cwd: Path | None = None, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, cwd=cwd, input=stdin, capture_output=True, timeout=30, check=False)


def stock_verify(message: bytes, armored: bytes, allowed: Path, principal: str = "operator@lab") -> bool:
    signature = allowed.with_name("stock.sig")
    signature.write_bytes(armored)
    argv = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", principal, "-n", sshsig.NAMESPACE]
    return run(*argv, "-s", str(signature), stdin=message).returncode == 0


def stock_key(folder: Path, kind: str, bits: int | None, passphrase: bytes = b"") -> Path:
    path = folder / f"id_{kind}_{bits}"
    size = [] if bits is None else ["-b", str(bits)]
    made = run("ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase.decode(), "-C", "me@lab", "-f", str(path))
    assert made.returncode == 0, made.stderr
    return path


def allowed_signers(folder: Path, public: str) -> Path:
    path = folder / "allowed"
    path.write_text(f'operator@lab namespaces="{sshsig.NAMESPACE}" {public}\n')
    return path


KINDS = [("ed25519", None), ("rsa", 2048), ("ecdsa", 256), ("ecdsa", 384), ("ecdsa", 521)]


@pytest.mark.parametrize(("kind", "bits"), KINDS)
@pytest.mark.parametrize("passphrase", [b"", SECRET])
def test_stock_accepts_what_we_sign_with_its_keys(
    tmp_path: Path, kind: str, bits: int | None, passphrase: bytes
) -> None:
    path = stock_key(tmp_path, kind, bits, passphrase)
    signer = keys.load(path, passphrase or None)
    message = b"some bytes\x00\xff\n"
    signature = sshsig.Signature(signer.key, sshsig.NAMESPACE, "sha512", signer.sign(sshsig.signed_data(message)))
    armored = sshsig.write(signature)
    allowed = allowed_signers(tmp_path, signer.key.line)
    assert stock_verify(message, armored, allowed)
    assert not stock_verify(message + b"x", armored, allowed)
    sshsig.check(sshsig.parse(armored), message)


@pytest.mark.parametrize(("kind", "bits"), KINDS)
@pytest.mark.parametrize("hash_name", ["sha512", "sha256"])
def test_we_accept_what_stock_signs(tmp_path: Path, kind: str, bits: int | None, hash_name: str) -> None:
    path = stock_key(tmp_path, kind, bits)
    message = b"some bytes\x00\xff\n"
    argv = ["ssh-keygen", "-Y", "sign", "-f", str(path), "-n", sshsig.NAMESPACE, "-O", f"hashalg={hash_name}"]
    signed = run(*argv, stdin=message)
    assert signed.returncode == 0, signed.stderr
    signature = sshsig.parse(signed.stdout)
    assert signature.hash_name == hash_name
    assert signature.key == parse_line(path.with_name(path.name + ".pub").read_text())[0]
    sshsig.check(signature, message)
    with pytest.raises(Refused, match="SIG_BAD"):
        sshsig.check(signature, message + b"x")


def test_our_ed25519_file_is_byte_identical_to_the_stock_one(tmp_path: Path) -> None:
    path = stock_key(tmp_path, "ed25519", None)
    signer = keys.load(path)
    message = b"0123456789abcdef  a\n"
    ours = sshsig.write(
        sshsig.Signature(signer.key, sshsig.NAMESPACE, "sha512", signer.sign(sshsig.signed_data(message)))
    )
    stock = run("ssh-keygen", "-Y", "sign", "-f", str(path), "-n", sshsig.NAMESPACE, stdin=message).stdout
    assert ours == stock


@pytest.mark.parametrize("passphrase", [b"", SECRET])
def test_stock_reads_the_key_that_we_create(tmp_path: Path, passphrase: bytes) -> None:
    key = keys.create(tmp_path / "keys", "operator@lab", passphrase or None)
    shown = run("ssh-keygen", "-y", "-P", passphrase.decode(), "-f", str(key.path))
    assert shown.stdout.decode().split()[:2] == key.public.split()
    listed = run("ssh-keygen", "-l", "-f", f"{key.path}.pub")
    assert key.fingerprint in listed.stdout.decode()


def readme_commands(bundle: Path) -> list[str]:
    """The shell commands of README.txt, continuation lines joined."""
    text = bundle.joinpath("README.txt").read_text().replace("\\\n", " ")
    starts = ("ssh-keygen", "sha256sum", "find")
    return [
        line.strip() for line in text.splitlines() if line.startswith("       ") and line.strip().startswith(starts)
    ]


def test_the_readme_commands_work_as_they_stand(signed: tuple[Path, Person]) -> None:
    bundle, operator = signed
    shutil.copy(operator.allowed, bundle.parent / "allowed_signers")
    who, sums, special, rest = readme_commands(bundle)
    answer = run("bash", "-c", who, cwd=bundle)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.startswith(b'Good "bundle@anvil-tui" signature for operator@lab')
    for command in (sums, special, rest):
        answer = run("bash", "-c", command, cwd=bundle)
        assert (answer.returncode, answer.stdout, answer.stderr) == (0, b"", b""), command
    bundle.joinpath("runs/base-r1.json").write_bytes(b"{}")
    assert run("bash", "-c", sums, cwd=bundle).returncode != 0
    bundle.joinpath("extra.json").write_bytes(b"{}")
    assert b"extra.json" in run("bash", "-c", rest, cwd=bundle).stdout
    bundle.joinpath("link").symlink_to("README.txt")
    assert b"link" in run("bash", "-c", special, cwd=bundle).stdout


def test_we_accept_a_bundle_that_stock_signed(tmp_path: Path, campaign: Folder) -> None:
    campaign.seal()
    path = stock_key(tmp_path, "ecdsa", 256)
    listed = campaign.path / "SHA256SUMS"
    made = run("ssh-keygen", "-Y", "sign", "-f", str(path), "-n", sshsig.NAMESPACE, stdin=listed.read_bytes())
    campaign.put("signatures/operator.sig", made.stdout)
    key = parse_line(path.with_name(path.name + ".pub").read_text())[0]
    result = verify.verify(campaign.path, [Trusted("operator@lab", key)])
    assert (result.exit_code, result.errors, result.notes) == (0, (), ())


def test_the_whole_way_in_a_child_with_a_passphrase(tmp_path: Path, campaign: Folder) -> None:
    operator = Person(tmp_path / "config", passphrase=SECRET)
    report = campaign.seal()
    signed = sign.sign(campaign.path, operator.key, SECRET)
    assert signed.root == report.root
    assert signed.file == "signatures/operator.sig"
    assert stock_verify(
        campaign.path.joinpath("SHA256SUMS").read_bytes(),
        campaign.path.joinpath(signed.file).read_bytes(),
        operator.allowed,
    )
    result = verify.verify(campaign.path, operator.trusted)
    assert (result.exit_code, result.errors, result.notes) == (0, (), ())
    assert result.bundle_id == CAMPAIGN_ID
    assert result.root == report.root
    assert [signer.principal for signer in result.signers] == ["operator@lab"]
