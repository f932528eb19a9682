"""`README.txt` of a bundle: how anyone checks it with stock commands, and what the signature does not say."""

from __future__ import annotations

from anvil_tui.bundles.ssh.sshsig import NAMESPACE
from anvil_tui.records.bundle import Manifest

_REHEARSAL = """\
*** REHEARSAL ***
A simulated engine and simulated GPUs made this. It is a demonstration and never evidence of anything.

"""

_TEXT = """\
Bundle {bundle_id}
{kind} campaign, ended {status}, sealed {created_utc} (the signer's own clock)

{rehearsal}What is here
  SHA256SUMS      the hash of every file of this bundle; this list is what is signed
  signatures/     signatures over SHA256SUMS, made after sealing
  MANIFEST.json   what each file is, and which ones a published copy withholds
  journal.jsonl   what happened, one event a line, each line holding the SHA-256 of the line before it

How to check it with stock commands (bash, OpenSSH 8.1 or later, coreutils), in this order, in this folder
  1. Get the signer's line from a channel that you trust, never from this folder, and put it into a file
     `allowed_signers` beside this folder:
       NAME namespaces="{namespace}" ssh-ed25519 AAAA...
  2. Who signed. It must print: Good "{namespace}" signature
       ssh-keygen -Y verify -f ../allowed_signers -I "$(cut -d' ' -f1 ../allowed_signers)" \\
         -n {namespace} -s signatures/operator.sig < SHA256SUMS
  3. The files. It must print nothing (in a published copy, add --ignore-missing):
       sha256sum --check --strict --quiet SHA256SUMS
  4. Nothing else is here. Both must print nothing (in a published copy, the second prints lines with "<" only):
       find . ! -type f ! -type d
       find . -type f | cut -c3- | LC_ALL=C sort \\
         | grep -v -e '^SHA256SUMS$' -e '^signatures/[A-Za-z0-9][A-Za-z0-9._+-]*\\.sig$' \\
         | diff <(cut -c67- SHA256SUMS) -
Do not use -Y check-novalidate or -Y find-principals: neither verifies who signed.
`anvil-tui verify FOLDER` does all of this, checks the journal and the manifest as well, and follows no link.
Unpack an archive of this folder into a new, empty folder.

What a good signature means
  The holder of the key sealed exactly these bytes. It does not prove that the measurement happened as told: whoever
  holds the key can also invent one. A second lab that repeats the campaign can tell.
"""


def write(manifest: Manifest) -> bytes:
    """The text for the bundle of `manifest`, LF line ends."""
    text = _TEXT.format(
        bundle_id=manifest.bundle_id,
        kind=manifest.kind,
        status=manifest.status,
        created_utc=manifest.created_utc,
        rehearsal=_REHEARSAL if manifest.rehearsal else "",
        namespace=NAMESPACE,
    )
    return text.encode("utf-8")
