"""The one small HTTP client of an engine: models, version, health, metrics, tokenize, one token. Not for measuring."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
import msgspec
from msgspec import Struct

from anvil_tui.errors import CannotRun
from anvil_tui.text import sanitise

Message = Mapping[str, Any]
"""One chat message, `{"role": …, "content": …}`."""

_BODY_LIMIT = 64 * 1024 * 1024
_WORDS_LIMIT = 400
_T = TypeVar("_T")


class EndpointError(Exception):
    """An endpoint gave no good answer. The text says which call and what came instead.

    `status` is the HTTP status, also 200 where the answer was not what it should be, and null where none came;
    `refused` says that nothing listens there.
    """

    def __init__(self, words: str, *, status: int | None = None, refused: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.refused = refused


class ServedModel(Struct, frozen=True, kw_only=True):
    """One entry of `/v1/models`."""

    id: str
    root: str | None = None
    max_model_len: int | None = None
    max_context_length: int | None = None
    context_length: int | None = None

    @property
    def length(self) -> int | None:
        """The longest prompt plus answer in tokens, under whichever name the engine gives it; None is not said."""
        return self.max_model_len or self.max_context_length or self.context_length


class TokenCount(Struct, frozen=True, kw_only=True):
    """The answer of `/tokenize`: how many tokens the messages make over the chat template."""

    count: int
    max_model_len: int | None = None
    token_strs: tuple[str, ...] | None = None


class OneToken(Struct, frozen=True, kw_only=True):
    """A completion came: what the engine counted of it; null is not said."""

    prompt_tokens: int | None
    completion_tokens: int | None


class ResponsePart(Struct, frozen=True, kw_only=True):
    """One piece of content: `output_text`, `reasoning_text` and the like."""

    type: str = ""
    text: str | None = None


class ResponseItem(Struct, frozen=True, kw_only=True):
    """One output item: `message`, `reasoning` or `function_call`."""

    type: str = ""
    content: tuple[ResponsePart, ...] | None = None


class ResponseTokens(Struct, frozen=True, kw_only=True):
    """Of what the output tokens are part."""

    reasoning_tokens: int | None = None


class ResponseUsage(Struct, frozen=True, kw_only=True):
    """What the engine counted; null is not said."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: ResponseTokens | None = None


class Responded(Struct, frozen=True, kw_only=True):
    """An answer of `/v1/responses`; `status` is `completed` or `incomplete`."""

    id: str | None = None
    status: str | None = None
    output: tuple[ResponseItem, ...] = ()
    usage: ResponseUsage | None = None

    def text(self, part: str) -> str:
        """The texts of all content of type `part`, joined."""
        parts = [one for item in self.output for one in item.content or ()]
        return "".join(one.text or "" for one in parts if one.type == part)


class _Models(Struct):
    data: tuple[ServedModel, ...]


class _Version(Struct):
    version: str


class _Usage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(Struct):
    choices: tuple[msgspec.Raw, ...]
    usage: _Usage | None = None


def api_base(base_url: str) -> str:
    """`http://host:port/v1` and `http://host:port/` are both `http://host:port`."""
    return base_url.rstrip("/").removesuffix("/v1").rstrip("/")


def auth_headers(api_key_env: str | None) -> dict[str, str]:
    """The Authorization header with the key in environment variable `api_key_env`; none where it is null.

    Raises CannotRun where the variable is not set.
    """
    if api_key_env is None:
        return {}
    key = os.environ.get(api_key_env, "").strip()
    if not key:
        raise CannotRun(f"environment variable {api_key_env} is not set; it must hold the API key of the endpoint")
    if not (key.isascii() and key.isprintable()):
        raise CannotRun(f"environment variable {api_key_env} holds characters that no HTTP header may carry")
    return {"Authorization": f"Bearer {key}"}


class EndpointClient:
    """Asks one endpoint, `async with EndpointClient("http://127.0.0.1:8000") as endpoint: …`.

    Each call has a deadline of its own, in seconds; redirects and proxies from the environment are not followed. Every
    call raises EndpointError where no good answer comes in time.
    """

    def __init__(self, base_url: str, *, api_key_env: str | None = None, timeout_s: float = 5.0) -> None:
        self.base_url = api_base(base_url)
        self._timeout_s = timeout_s
        self._http = httpx.AsyncClient(
            headers={"Accept": "application/json", **auth_headers(api_key_env)},
            trust_env=False,
            follow_redirects=False,
            timeout=None,
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def models(self, *, timeout_s: float | None = None) -> tuple[ServedModel, ...]:
        """The models that `/v1/models` lists."""
        return self._typed(_Models, await self._get("/v1/models", timeout_s), "/v1/models").data

    async def version(self, *, timeout_s: float | None = None) -> str:
        """The engine's own version from `/version` (vLLM)."""
        return self._typed(_Version, await self._get("/version", timeout_s), "/version").version

    async def health(self, *, timeout_s: float | None = None) -> bool:
        """Whether `/health` answers 200. Says little: an engine may hang behind it; `one_token` tells."""
        status, _ = await self._ask("GET", "/health", None, timeout_s)
        return status == 200

    async def metrics(self, *, timeout_s: float | None = None) -> str:
        """The text of `/metrics`; `engines.metrics` reads it."""
        return (await self._get("/metrics", timeout_s)).decode("utf-8", "replace")

    async def tokenize(
        self,
        model: str,
        messages: Sequence[Message],
        *,
        chat_template_kwargs: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        token_strs: bool = False,
        timeout_s: float = 120.0,
    ) -> TokenCount:
        """Tokens of `messages` over the chat template, generation prompt included, as a completion would count them."""
        body: dict[str, Any] = {"model": model, "messages": list(messages), "add_generation_prompt": True}
        if chat_template_kwargs:
            body["chat_template_kwargs"] = dict(chat_template_kwargs)
        if tools:
            body["tools"] = list(tools)
        if token_strs:
            body["return_token_strs"] = True
        return self._typed(TokenCount, await self._post("/tokenize", body, timeout_s), "/tokenize")

    async def one_token(
        self,
        model: str,
        *,
        messages: Sequence[Message] = ({"role": "user", "content": "Say yes."},),
        reasoning_effort: str | None = None,
        timeout_s: float = 60.0,
    ) -> OneToken:
        """Have the engine generate one token: the proof that it lives. Also tells how many tokens `messages` are."""
        path = "/v1/chat/completions"
        body: dict[str, Any] = {"model": model, "messages": list(messages), "max_tokens": 1, "temperature": 0}
        if reasoning_effort is not None:
            body["reasoning_effort"] = reasoning_effort
        answer = self._typed(_Completion, await self._post(path, body, timeout_s), path)
        if not answer.choices:
            raise EndpointError(f"POST {path}: an answer without a choice", status=200)
        usage = answer.usage or _Usage()
        return OneToken(prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens)

    async def respond(
        self,
        model: str,
        text: str,
        *,
        max_output_tokens: int,
        reasoning_effort: str | None = None,
        timeout_s: float = 600.0,
    ) -> Responded:
        """One answer of the Responses API to `text`, at temperature 0, in one piece."""
        path = "/v1/responses"
        body: dict[str, Any] = {"model": model, "input": text, "max_output_tokens": max_output_tokens, "temperature": 0}
        if reasoning_effort is not None:
            body["reasoning"] = {"effort": reasoning_effort}
        return self._typed(Responded, await self._post(path, body, timeout_s), path)

    async def _get(self, path: str, timeout_s: float | None) -> bytes:
        return self._good("GET", path, *await self._ask("GET", path, None, timeout_s))

    async def _post(self, path: str, body: object, timeout_s: float | None) -> bytes:
        return self._good("POST", path, *await self._ask("POST", path, msgspec.json.encode(body), timeout_s))

    async def _ask(self, method: str, path: str, body: bytes | None, timeout_s: float | None) -> tuple[int, bytes]:
        """Status and body of one call, the body bounded and everything under one deadline."""
        deadline = self._timeout_s if timeout_s is None else timeout_s
        headers = {} if body is None else {"Content-Type": "application/json"}
        try:
            async with (
                asyncio.timeout(deadline),
                self._http.stream(method, self.base_url + path, content=body, headers=headers) as response,
            ):
                parts = bytearray()
                async for part in response.aiter_bytes():
                    parts += part
                    if len(parts) > _BODY_LIMIT:
                        raise EndpointError(f"{method} {path}: an answer larger than {_BODY_LIMIT >> 20} MiB")
                return response.status_code, bytes(parts)
        except TimeoutError:
            raise EndpointError(f"{method} {path}: no answer within {deadline:g} s") from None
        except httpx.ConnectError as error:
            raise EndpointError(f"{method} {path}: cannot connect: {_words(error)}", refused=True) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise EndpointError(f"{method} {path}: {_words(error)}") from None

    @staticmethod
    def _good(method: str, path: str, status: int, body: bytes) -> bytes:
        if status == 200:
            return body
        raise EndpointError(f"{method} {path}: HTTP {status}: {sanitise(body, _WORDS_LIMIT)}", status=status)

    @staticmethod
    def _typed(record: type[_T], body: bytes, path: str) -> _T:
        try:
            return msgspec.json.decode(body, type=record)
        except msgspec.MsgspecError as error:
            words = f"{path}: {sanitise(str(error), _WORDS_LIMIT)}: {sanitise(body, _WORDS_LIMIT)}"
            raise EndpointError(words, status=200) from None


def _words(error: Exception) -> str:
    return sanitise(str(error), _WORDS_LIMIT) or type(error).__name__
