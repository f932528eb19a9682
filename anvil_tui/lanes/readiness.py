"""Ready means that the endpoint itself answers with the served name, and nothing less."""

from __future__ import annotations

from dataclasses import dataclass

from anvil_tui.engines.endpoint import EndpointClient, EndpointError
from anvil_tui.text import sanitise


@dataclass(frozen=True)
class Answer:
    """What an endpoint said of itself. `ready` is false with the reason in `words`."""

    ready: bool
    words: str
    max_model_len: int | None = None
    engine_version: str | None = None


async def ask(endpoint: EndpointClient, served_name: str) -> Answer:
    """Ask `/v1/models` once, and `/version` where it serves the right name."""
    try:
        models = await endpoint.models()
    except EndpointError as error:
        return Answer(False, str(error))
    served = next((model for model in models if model.id == served_name), None)
    if served is None:
        names = ", ".join(sanitise(model.id) for model in models) or "nothing"
        return Answer(False, f"the endpoint serves {names}, not {served_name}")
    try:
        version = await endpoint.version()
    except EndpointError:
        version = None
    return Answer(True, "ready", max_model_len=served.length, engine_version=version)
