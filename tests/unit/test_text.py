"""The one boundary for outside text: what is shown is harmless, what is kept holds no secret."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.text import DISPLAY_LIMIT, looks_secret, redact, sanitise


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (b"plain", "plain"),
        (b"\x1b[0;36m(EngineCore pid=1)\x1b[0;0m INFO", "(EngineCore pid=1) INFO"),
        (b"\x1b]0;owned\x07title", "title"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x9b31mred", "red"),
        (b"\x1bP1;2qdata\x1b\\after", "after"),
        (b"\x1b]52;c;unterminated", ""),
        (b"a\rb\x00c\x7fd", "a\ufffdb\ufffdc\ufffdd"),
        (b"bad \xff\xfe utf-8", "bad \ufffd\ufffd utf-8"),
        ("\u202eevil\u202c", "\ufffdevil\ufffd"),
        ("zero\u200bwidth\ufeff", "zero\ufffdwidth\ufffd"),
        ("lone \udcff surrogate", "lone \ufffd surrogate"),
        ("line\u2028sep\u0085nel", "line\ufffdsep\ufffdnel"),
        ("tab\tstays", "tab\tstays"),
        ("[/b] [red]markup[/]", "[/b] [red]markup[/]"),
        ("日本語 ✓ é", "日本語 ✓ é"),
    ],
)
def test_shown_text_is_harmless(raw: bytes | str, shown: str) -> None:
    assert sanitise(raw) == shown


def test_a_long_line_is_cut_and_counted() -> None:
    shown = sanitise(b"x" * 1_000_000)
    assert shown == "x" * DISPLAY_LIMIT + f"… (+{1_000_000 - DISPLAY_LIMIT:,} characters)"


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200)))
@settings(max_examples=300, deadline=None)
def test_no_control_survives(raw: bytes | str) -> None:
    shown = sanitise(raw)
    assert not [
        one for one in shown if (ord(one) < 32 and one != "\t") or 127 <= ord(one) < 160 or 0xD800 <= ord(one) < 0xE000
    ]
    assert "\u202e" not in shown and "\u2028" not in shown


@pytest.mark.parametrize(
    ("raw", "kept", "rule"),
    [
        (b"token hf_abcdefghijklmnopqrstuvwx.", b"token [redacted].", "hugging-face-token"),
        (b"key sk-proj-abcdefghij0123456789", b"key [redacted]", "api-key"),
        (b"Authorization: Bearer abc.def-ghi_jkl=", b"Authorization: Bearer [redacted]", "bearer"),
        (b"https://me:hunter22@host/x", b"https://me:[redacted]@host/x", "url-password"),
        (b"api_key='s3cr3t-value', port=1", b"api_key='[redacted]', port=1", "named-secret"),
        (b'"HF_TOKEN": "abcdef123"', b'"HF_TOKEN": "[redacted]"', "named-secret"),
        (b"--api-key=abcdef123 --port 1", b"--api-key=[redacted] --port 1", "named-secret"),
        (b"AKIAIOSFODNN7EXAMPLE", b"[redacted]", "aws-key"),
    ],
)
def test_secrets_are_redacted_and_counted(raw: bytes, kept: bytes, rule: str) -> None:
    assert redact(raw) == (kept, {rule: 1})


@pytest.mark.parametrize(
    "raw",
    [
        b"GPU KV cache size: 283,917 tokens, Maximum concurrency for 131,072 tokens per request: 2.17x",
        b"non-default args: {'api_key': None, 'max_tokens': 4096}",
        b"max_num_batched_tokens=8192 completion_tokens=409600",
        b"(EngineCore pid=133) INFO 08-10 21:04:38 [core.py:58] tokenizer='deepseek-ai/DeepSeek-V4'",
    ],
)
def test_what_is_no_secret_stays(raw: bytes) -> None:
    assert redact(raw) == (raw, {})


@pytest.mark.parametrize("unit", [b"a", b"a.", b"api_key", b"x://a:", b"secret ", b"_token=", b"-", b"sk-", b"Bearer "])
def test_a_hostile_line_ends(unit: bytes) -> None:
    # A rule whose cost grew with the square of the length would keep this busy for hours.
    assert redact(unit * (1 << 18))[1].keys() <= {"bearer", "named-secret", "api-key", "url-password"}


@pytest.mark.parametrize("name", ["HF_TOKEN", "OPENAI_API_KEY", "api_key", "DB_PASSWORD", "AWS_SECRET", "KEY"])
def test_secret_names(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name",
    ["MAX_TOKENS_PER_STEP", "MAX_NUM_BATCHED_TOKENS", "TOKENIZER", "MAX_MODEL_LEN", "KEYBOARD", "NCCL_P2P_DISABLE"],
)
def test_other_names(name: str) -> None:
    assert not looks_secret(name)
