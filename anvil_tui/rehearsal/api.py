"""The HTTP routes of the simulated engine: those of vLLM 0.32 that the console uses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from time import monotonic
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from anvil_tui.records.rehearsal import EngineConfig
from anvil_tui.rehearsal import asks, figures, metrics, tokenizer, wire
from anvil_tui.rehearsal.asks import Refused, Work
from anvil_tui.rehearsal.core import EngineCore, EngineDead


def application(config: EngineConfig, core: EngineCore) -> Starlette:
    """The routes over one engine core."""
    model, limit = config.served_name, figures.max_model_len(config)
    created = int(time.time())

    async def health(_: Request) -> Response:
        return Response()

    async def version(_: Request) -> Response:
        return _json({"version": config.engine.version})

    async def models(_: Request) -> Response:
        card = {
            "id": model,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": config.model,
            "parent": None,
            "max_model_len": limit,
            "permission": [],
        }
        return _json({"object": "list", "data": [card]})

    async def counters(_: Request) -> Response:
        return PlainTextResponse(
            metrics.exposition(config, core.counters, core.gauges()),
            media_type="text/plain; version=1.0.0; charset=utf-8",
        )

    async def tokenize(request: Request) -> Response:
        body = asks.read(await request.body(), asks.TokenizeBody)
        asks.check_model(config, body.model)
        text = body.text()
        ids = tokenizer.encode(text)
        strings = tokenizer.split(text) if body.return_token_strs else None
        return _json({"count": len(ids), "max_model_len": limit, "tokens": ids, "token_strs": strings})

    async def detokenize(request: Request) -> Response:
        body = asks.read(await request.body(), asks.DetokenizeBody)
        asks.check_model(config, body.model)
        try:
            return _json({"prompt": tokenizer.decode(body.tokens)})
        except ValueError as error:
            raise Refused(400, "BadRequestError", str(error), "tokens") from None

    async def chat(request: Request) -> Response:
        arrived = monotonic()
        body = asks.read(await request.body(), asks.ChatBody)
        work = asks.chat_work(config, body, arrived)
        if body.stream:
            return _events(wire.chat_events(core, work, body, model))
        return await _whole(request, core, work, lambda: wire.chat_completion(work, body, model))

    async def responses(request: Request) -> Response:
        arrived = monotonic()
        body = asks.read(await request.body(), asks.ResponsesBody)
        work = asks.responses_work(config, body, arrived)
        if body.stream:
            return _events(wire.response_events(core, work, model))
        return await _whole(request, core, work, lambda: wire.whole_response(work, model))

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/ping", health, methods=["GET", "POST"]),
            Route("/version", version),
            Route("/v1/models", models),
            Route("/metrics", counters),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/detokenize", detokenize, methods=["POST"]),
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/responses", responses, methods=["POST"]),
        ],
        exception_handlers={Refused: _refused, HTTPException: _http_error},
    )


async def _whole(request: Request, core: EngineCore, work: Work, body: Callable[[], dict[str, Any]]) -> Response:
    """The answer in one piece when it is due; a client that hangs up ends the work."""

    async def generate() -> None:
        async for _ in core.generate(work.request):
            pass

    async def hung_up() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    tasks = [asyncio.ensure_future(generate()), asyncio.ensure_future(hung_up())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        ended, _ = await asyncio.gather(*tasks, return_exceptions=True)
    return _json(wire.DEAD, 500) if isinstance(ended, EngineDead) else _json(body())


def _events(body: Any) -> Response:
    return StreamingResponse(body, media_type="text/event-stream")


def _json(body: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _json(error.body, error.status)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _json({"detail": error.detail}, error.status_code)
