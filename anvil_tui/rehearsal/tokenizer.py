"""The simulated engine's own tokenizer and chat template.

A token is a word or a part of it, up to three digits, a run of blanks, one other character, or a special token. Its id
carries its text, so any list of ids can be turned back without a vocabulary.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

SPECIAL = ("<|begin|>", "<|end|>", "<|system|>", "<|developer|>", "<|user|>", "<|assistant|>", "<|tool|>", "<|tools|>")
_PIECE = re.compile(
    r"[ _]?[A-Za-z]{1,7}|[0-9]{1,3}|\n {0,7}| {1,8}|<\|(?:" + "|".join(name[2:-2] for name in SPECIAL) + r")\|>|[\s\S]"
)
_PACKED = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _\n"
_DIGIT = {letter: number for number, letter in enumerate(_PACKED, 1)}
_BASE = len(_PACKED) + 1
_SINGLE = 256
"""Ids from here are one character by its code point, from _WORD several characters as digits of base 66."""
_WORD = 1 << 24


def split(text: str) -> list[str]:
    """The tokens of `text`, in order; joined they are `text` again. Linear in its length."""
    return _PIECE.findall(text)


def encode(text: str) -> list[int]:
    """The token ids of `text`, each below 2**53."""
    ids = _Ids()
    return [ids[piece] for piece in split(text)]


def decode(ids: Sequence[int]) -> str:
    """The text of token ids. Raises ValueError for a number that is no token."""
    return "".join(map(_text_of, ids))


class _Ids(dict[str, int]):
    """Token text to id, worked out once a token."""

    def __missing__(self, piece: str) -> int:
        if piece in SPECIAL:
            number = SPECIAL.index(piece)
        elif len(piece) == 1:
            number = _SINGLE + ord(piece)
        else:
            number = 0
            for letter in piece:
                number = number * _BASE + _DIGIT[letter]
            number += _WORD
        self[piece] = number
        return number


def _text_of(number: int) -> str:
    if 0 <= number < len(SPECIAL):
        return SPECIAL[number]
    if _SINGLE <= number <= _SINGLE + 0x10FFFF:
        return chr(number - _SINGLE)
    rest, letters = number - _WORD, []
    while rest > 0:
        rest, digit = divmod(rest, _BASE)
        letters.append(_PACKED[digit - 1] if digit else "")
    if not 2 <= len(letters) <= 8 or "" in letters:
        raise ValueError(f"token id {number} is out of vocabulary")
    return "".join(reversed(letters))


def apply_chat_template(
    messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]] = (), *, add_generation_prompt: bool = True
) -> str:
    """The prompt text of a conversation: a begin token, the tools, each message in its role's tokens."""
    parts = ["<|begin|>"]
    if tools:
        parts += ["<|tools|>", msgspec.json.encode(tools).decode(), "<|end|>"]
    for message in messages:
        parts += [f"<|{message.get('role', 'user')}|>", message_text(message)]
        for call in message.get("tool_calls") or ():
            parts.append(msgspec.json.encode(call.get("function", call)).decode())
        parts.append("<|end|>")
    if add_generation_prompt:
        parts.append("<|assistant|>")
    return "".join(parts)


def message_text(message: dict[str, Any]) -> str:
    """The text of a message whose content is a string, a list of parts, or nothing."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
