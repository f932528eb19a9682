"""What a server says when it refuses or fails: read from any of the shapes that servers use, bounded and sanitised."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from anvil_tui.records.request import RequestError
from anvil_tui.text import redact, sanitise

BODY_LIMIT = 4096

_TOO_LONG_NAMES = {"input_tokens", "context_length_exceeded", "exceed_context_size_error", "string_too_long"}
_TOO_LONG_WORDS = re.compile(
    r"(maximum|max|model'?s?|available|the) (context|input|sequence) (length|size|window)|max_model_len|max_seq_len"
    r"|context (length|window|size) (of|is|exceeded|limit)|exceeds? (the )?(context|maximum)"
    r"|(prompt|input)[^.]{0,40}too long|too many (input )?tokens|n_ctx|longer than the (model|maximum)",
    re.IGNORECASE,
)


def error_of(message: dict[str, Any], *, named_error: bool = False) -> RequestError | None:
    """The error in a chunk or a body: `{"error": …}`, the older `{"object": "error", …}`, or FastAPI's detail."""
    found = message.get("error")
    if not found and (
        named_error or message.get("object") == "error" or ("detail" in message and "choices" not in message)
    ):
        found = message if "message" in message else message.get("detail", message)
    if not found:
        return None
    fields = found if isinstance(found, dict) else {}
    words = fields.get("message", found)
    return RequestError(
        message=shown(words if isinstance(words, str) else json.dumps(words)),
        type=_word(fields.get("type")),
        param=_word(fields.get("param")),
        code=_word(fields.get("code")),
    )


def http_error(status: int, body: bytes, headers: Mapping[str, str]) -> RequestError:
    """What a server said with a status that is not 200. Bounded, sanitised, without secrets."""
    message = decoded(body)
    error = error_of(message) if isinstance(message, dict) else None
    text = shown(body.decode("utf-8", "replace"))
    if error is None:
        where = f", redirected to {shown(headers['location'])}" if "location" in headers else ""
        words = text or f"HTTP {status} without a body{where}"
        return RequestError(message=words, status=status, body=text or None)
    return msgspec.structs.replace(error, status=status, body=text)


def too_long(error: RequestError) -> bool:
    """Whether the server refused a prompt that does not fit. Codes and parameters first: the texts change."""
    if error.status == 413 or _TOO_LONG_NAMES & {error.param, error.code, error.type}:
        return True
    return error.status in (None, 400, 422, 500) and _TOO_LONG_WORDS.search(error.message) is not None


def shown(text: str) -> str:
    """Text of a server as a record keeps it: without secrets, on one line, at most 4 KiB."""
    clean, _ = redact(text[:BODY_LIMIT].encode("utf-8", "replace"))
    return sanitise(clean.replace(b"\r", b" ").replace(b"\n", b" ").strip(), BODY_LIMIT)


def no_answer(beginning: bytes, headers: Mapping[str, str]) -> RequestError | None:
    """What came with status 200 and was neither an event nor a completion; None where the body was empty."""
    if not beginning:
        return None
    encoding = headers.get("content-encoding", "identity").strip().lower()
    if encoding != "identity":
        return RequestError(message=shown(f"the body came as {encoding} although identity was asked for"))
    kind = headers.get("content-type") or "of no type"
    text = beginning.decode("utf-8", "replace")
    return RequestError(
        message=shown(f"the body ({kind}) is neither an event stream nor a completion; it begins {text!r}")
    )


def decoded(data: bytes) -> Any:
    """JSON of any kind; None where it is none. NaN and lone surrogates, which the strict decoder refuses, may pass."""
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError:
        try:
            return json.loads(data.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None


def short(value: object) -> str | None:
    """A short text of a server, safe to keep; None where it is none."""
    return sanitise(value, 256) if isinstance(value, str) and value else None


def _word(value: object) -> str | None:
    return sanitise(str(value), 256) if isinstance(value, str | int) and value != "" else None
