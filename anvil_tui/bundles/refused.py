"""The one exception of this room: a code of the verifier's closed list, and words."""

from __future__ import annotations

from anvil_tui.records.bundle import Finding
from anvil_tui.text import sanitise


class Refused(Exception):
    """Something in a bundle, a signature or a key is refused. `words` and `path` may hold text from outside."""

    def __init__(self, code: str, words: str, path: str | None = None) -> None:
        self.code = code
        self.words = words
        self.path = path
        super().__init__(f"{code}: {words}")

    @property
    def finding(self) -> Finding:
        """What an operator is shown, safe to print."""
        return finding(self.code, self.words, self.path)


def finding(code: str, words: str, path: str | None = None) -> Finding:
    """A finding whose texts are safe to print."""
    return Finding(code=code, words=sanitise(words, 400), path=None if path is None else sanitise(path, 400))
