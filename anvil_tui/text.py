"""The one boundary for bytes from outside: what may be shown, and what must not be kept."""

from __future__ import annotations

import re

DISPLAY_LIMIT = 4096
"""Characters of one line that are shown; the rest is counted."""

# Escape sequences, whole or cut off: CSI, then the string sequences OSC/DCS/SOS/PM/APC, then two-byte escapes.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
# C0 but tab, DEL, C1, line separators, zero-width and bidirectional controls, the byte-order mark, lone surrogates.
_CONTROLS = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def sanitise(raw: bytes | str, limit: int = DISPLAY_LIMIT) -> str:
    """One line of outside text made safe to show: no escape sequence, no control, no bidi override, bounded length.

    A removed control is shown as U+FFFD, so that nothing vanishes silently; escape sequences leave no trace. Tabs stay.
    """
    text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
    if len(text) > 4 * limit:
        text, cut = text[: 4 * limit], len(text) - 4 * limit
    else:
        cut = 0
    if not text.isascii() or not text.isprintable():
        text = _CONTROLS.sub("\ufffd", _ESCAPES.sub("", text))
    if len(text) > limit:
        text, cut = text[:limit], cut + len(text) - limit
    return f"{text}… (+{cut:,} characters)" if cut else text


# Each rule keeps group 1 and hides what follows it. Every repetition before a secret is bounded: logs may be hostile.
_SECRETS: tuple[tuple[str, re.Pattern[bytes]], ...] = (
    ("hugging-face-token", re.compile(rb"()\bhf_[A-Za-z0-9]{16,}")),
    ("api-key", re.compile(rb"()\b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}")),
    ("github-token", re.compile(rb"()\bgh[pousr]_[A-Za-z0-9]{20,}")),
    ("aws-key", re.compile(rb"()\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    ("bearer", re.compile(rb"((?i:bearer)[ =:]+)[A-Za-z0-9._~+/-]{8,}=*")),
    ("url-password", re.compile(rb"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]{0,256}:)[^\s/@]{1,256}(?=@)")),
    (
        "named-secret",
        re.compile(
            rb"((?i:api[_-]?key|secret|passw(?:or)?d|passphrase|access[_-]?token|auth[_-]?token|_token)"
            rb"[\"']?[ \t]{0,8}[=:][ \t]{0,8}[\"']?)(?!None\b|null\b|True\b|False\b)[^\s\"',}\])]{6,}"
        ),
    ),
)
_HIDDEN = b"[redacted]"


def redact(raw: bytes) -> tuple[bytes, dict[str, int]]:
    """`raw` with secrets replaced, and how often each rule struck. Lines and their count are kept."""
    counts: dict[str, int] = {}
    for rule, pattern in _SECRETS:
        raw, struck = pattern.subn(rb"\1" + _HIDDEN, raw)
        if struck:
            counts[rule] = struck
    return raw, counts


def looks_secret(name: str) -> bool:
    """Whether an environment variable or header of this name is expected to hold a secret."""
    return (
        re.search(r"(?i)(^|_)(token|secrets?|passw(or)?ds?|passphrases?|credentials?)$|api_?key|_key$|^key$", name)
        is not None
    )
