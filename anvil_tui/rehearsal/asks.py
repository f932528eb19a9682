"""What clients ask: the request bodies that are understood, how they are checked, and errors in vLLM's shape."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import Struct

from anvil_tui.records.lane import Effort
from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.rehearsal import figures
from anvil_tui.rehearsal.answers import EFFORT, Ask, Token, answer, extend
from anvil_tui.rehearsal.core import Prompt, Request, hash_blocks
from anvil_tui.rehearsal.tokenizer import apply_chat_template, split

T = TypeVar("T", bound=Struct)
Messages = list[dict[str, Any]]


class Refused(Exception):
    """A request that is answered with an error: `{"error": {"message", "type", "param", "code"}}`."""

    def __init__(self, status: int, kind: str, message: str, param: str | None = None) -> None:
        self.status = status
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": status}}
        super().__init__(message)


class StreamOptions(Struct, kw_only=True):
    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class ChatBody(Struct, kw_only=True):
    """`/v1/chat/completions`; unknown fields are ignored, as vLLM does."""

    messages: Messages
    model: str | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    min_tokens: int = 0
    ignore_eos: bool = False
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    reasoning_effort: Effort | None = None
    include_reasoning: bool = True
    chat_template_kwargs: dict[str, Any] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    response_format: dict[str, Any] | None = None
    structured_outputs: dict[str, Any] | None = None
    cache_salt: str | None = None
    seed: int | None = None


class Reasoning(Struct, kw_only=True):
    effort: Effort | None = None


class ResponsesBody(Struct, kw_only=True):
    """`/v1/responses`."""

    input: str | Messages
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: int | None = None
    stream: bool | None = None
    reasoning: Reasoning | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] | None = None
    cache_salt: str | None = None
    previous_response_id: str | None = None


class TokenizeBody(Struct, kw_only=True):
    """`/tokenize`: a prompt, or messages over the chat template."""

    model: str | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_generation_prompt: bool = True
    add_special_tokens: bool = True
    return_token_strs: bool | None = None
    tools: list[dict[str, Any]] | None = None

    def text(self) -> str:
        """The text whose tokens are asked for."""
        if self.messages is not None:
            return apply_chat_template(
                self.messages, self.tools or (), add_generation_prompt=self.add_generation_prompt
            )
        if self.prompt is None:
            raise Refused(400, "Bad Request", "Field required: prompt or messages", "prompt")
        return "<|begin|>" + self.prompt if self.add_special_tokens else self.prompt


class DetokenizeBody(Struct, kw_only=True):
    """`/detokenize`."""

    tokens: list[int]
    model: str | None = None


@dataclass(frozen=True)
class Work:
    """A request that was accepted: what the core schedules and what it will say."""

    request: Request
    tokens: list[Token]
    finish_reason: str
    """As the chat API says it: stop, length or tool_calls."""

    @property
    def reasoning_tokens(self) -> int:
        return sum(token.channel == "reasoning" for token in self.tokens)


def read(raw: bytes, kind: type[T]) -> T:
    """Decode a body. Raises Refused (400) that names the field."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        place = re.search(r"`\$\.?([^`]*)`|field `(\w+)`", str(error))
        param = (place.group(1) or place.group(2)) if place else None
        raise Refused(400, "Bad Request", str(error), param) from None
    except msgspec.DecodeError as error:
        raise Refused(400, "Bad Request", f"JSON decode error: {error}") from None


def check_model(config: EngineConfig, model: str | None) -> None:
    """Raise Refused (404) for a model that is not served here."""
    if model is not None and model != config.served_name:
        words = f"The model `{model}` does not exist. Valid aliases: {config.served_name}."
        raise Refused(404, "NotFoundError", words, "model")


def chat_work(config: EngineConfig, body: ChatBody, arrived: float) -> Work:
    """Accept a chat request, or raise Refused as vLLM would."""
    check_model(config, body.model)
    text = apply_chat_template(body.messages, body.tools or ())
    prompt = prompt_of(text, body.cache_salt or "")
    asked = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    most = _room(config, prompt, asked)
    if not 0 <= body.min_tokens <= most:
        words = f"min_tokens must be less than or equal to max_tokens={most}, got {body.min_tokens}."
        raise Refused(400, "BadRequestError", words, "min_tokens")
    thinks = (body.chat_template_kwargs or {}).get("enable_thinking", True)
    choice = _choice(body.tool_choice)
    ask = Ask(
        messages=body.messages,
        tools=body.tools or (),
        tool_choice=choice,
        schema=_schema(body.response_format, body.structured_outputs),
        reasoning=_reasoning(config, body.reasoning_effort) if thinks else 0,
        visible=max(1, config.engine.output_tokens - config.engine.reasoning_tokens),
    )
    least = most if body.ignore_eos else body.min_tokens
    return _work(prompt, text, ask, most, least, body.seed, arrived)


def responses_work(config: EngineConfig, body: ResponsesBody, arrived: float) -> Work:
    """Accept a Responses request, or raise Refused as vLLM would."""
    check_model(config, body.model)
    if body.previous_response_id is not None:
        words = f"Response with id '{body.previous_response_id}' not found."
        raise Refused(404, "invalid_request_error", words, "previous_response_id")
    messages = _messages(body)
    text = apply_chat_template(messages, body.tools or ())
    prompt = prompt_of(text, body.cache_salt or "")
    most = _room(config, prompt, body.max_output_tokens)
    ask = Ask(
        messages=messages,
        tools=body.tools or (),
        tool_choice=_choice(body.tool_choice),
        reasoning=_reasoning(config, body.reasoning.effort if body.reasoning else None),
        visible=max(1, config.engine.output_tokens - config.engine.reasoning_tokens),
    )
    return _work(prompt, text, ask, most, 0, None, arrived)


@lru_cache(maxsize=4)
def prompt_of(text: str, salt: str) -> Prompt:
    """Tokens and block hashes of a prompt text; the last few are kept, for they are often asked for twice."""
    return hash_blocks(split(text), salt)


def _work(prompt: Prompt, text: str, ask: Ask, most: int, least: int, seed: int | None, arrived: float) -> Work:
    digest = hashlib.blake2b(f"{seed}\x00{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    luck = int.from_bytes(digest)
    rng = Random(luck)
    tokens = extend(answer(ask, rng), least, rng)
    cut = len(tokens) > most or (least == most and len(tokens) == most)
    tokens = tokens[:most]
    called = any(token.channel == "name" for token in tokens)
    named = ask.tool_choice not in ("auto", "none", "required")
    finish = "length" if cut else "tool_calls" if called and not named else "stop"
    return Work(Request(prompt, len(tokens), "length" if cut else "stop", luck, arrived), tokens, finish)


def _room(config: EngineConfig, prompt: Prompt, asked: int | None) -> int:
    """Tokens that the answer may have. Raises Refused (400) where prompt and answer do not fit the model's length."""
    limit = figures.max_model_len(config)
    value = f"(parameter=input_tokens, value={prompt.tokens})"
    if asked is not None and asked < 1:
        raise Refused(400, "BadRequestError", f"max_tokens must be at least 1, got {asked}.", "max_tokens")
    if asked is not None and asked > limit:
        words = f"max_tokens={asked} cannot be greater than max_model_len={limit}. Please request fewer output tokens."
        raise Refused(400, "BadRequestError", words, "max_tokens")
    if prompt.tokens + 1 > limit:
        words = (
            f"This model's maximum context length is {limit} tokens. However, your prompt contains at least "
            f"{prompt.tokens} input tokens. Please reduce the length of the input prompt. {value}"
        )
        raise Refused(400, "BadRequestError", words, "input_tokens")
    if asked is not None and prompt.tokens + asked > limit:
        words = (
            f"This model's maximum context length is {limit} tokens. However, you requested {asked} output tokens and "
            f"your prompt contains at least {prompt.tokens} input tokens, for a total of at least "
            f"{prompt.tokens + asked} tokens. Please reduce the length of the input prompt or the number of requested "
            f"output tokens. {value}"
        )
        raise Refused(400, "BadRequestError", words, "input_tokens")
    return limit - prompt.tokens if asked is None else asked


def _reasoning(config: EngineConfig, effort: str | None) -> int:
    return round(config.engine.reasoning_tokens * EFFORT[effort or "high"])


def _choice(given: str | dict[str, Any] | None) -> str:
    """`auto`, `none`, `required`, or the name of the one function."""
    if isinstance(given, dict):
        return str((given.get("function") or given).get("name"))
    return given or "auto"


def _schema(response_format: dict[str, Any] | None, structured: dict[str, Any] | None) -> dict[str, Any] | None:
    """The JSON schema that an answer must fit; empty for any object, None for free text."""
    kind = (response_format or {}).get("type")
    if kind == "json_schema":
        return (response_format or {}).get("json_schema", {}).get("schema") or {}
    if kind == "json_object" or (structured or {}).get("json_object"):
        return {}
    schema = (structured or {}).get("json")
    return schema if isinstance(schema, dict) else None


def _messages(body: ResponsesBody) -> Messages:
    """The conversation of a Responses request as chat messages."""
    told: Messages = [{"role": "system", "content": body.instructions}] if body.instructions else []
    if isinstance(body.input, str):
        return [*told, {"role": "user", "content": body.input}]
    for item in body.input:
        match item.get("type", "message"):
            case "function_call":
                call = {"name": item.get("name"), "arguments": item.get("arguments")}
                told.append({"role": "assistant", "content": None, "tool_calls": [{"function": call}]})
            case "function_call_output":
                told.append({"role": "tool", "content": str(item.get("output", ""))})
            case "message":
                told.append({"role": item.get("role", "user"), "content": item.get("content")})
    return told
