"""The child process that signs: `python -m anvil_tui.bundles.signer BUNDLE KEY`, the passphrase on standard input.

KEY is a SigningKey record as JSON. One JSON line on standard output answers, whatever happens.
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from anvil_tui.bundles import keys, sign
from anvil_tui.errors import AnvilError
from anvil_tui.records.bundle import SigningKey


def main(argv: list[str]) -> int:
    """Sign and answer; the exit code is the answer's."""
    bundle, key = argv
    passphrase = sys.stdin.buffer.read() or None
    try:
        signer = keys.signer(msgspec.json.decode(key, type=SigningKey), passphrase)
        answer = sign.SignerAnswer(report=sign.add_signature(Path(bundle), signer))
    except AnvilError as error:
        code = error.code if isinstance(error, keys.KeyRefused) else None
        answer = sign.SignerAnswer(words=str(error), code=code, exit_code=error.exit_code)
    sys.stdout.buffer.write(msgspec.json.encode(answer) + b"\n")
    return answer.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
