"""The recipe drives the launch: references in argv and env are rendered from it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from anvil_tui.errors import Fault, nearest
from anvil_tui.records.lane import LaneProfile, ProcessLaunch, Recipe, RehearsalLaunch

_REFERENCE = re.compile(r"\{([a-z_]+(?:\.[A-Za-z0-9_-]+)+)\}")

Origin = Literal["rendered", "literal", "declared only"]


def names(profile: LaneProfile, address: tuple[str, int], site: Mapping[str, str]) -> dict[str, Any]:
    """Everything that a text may refer to, by dotted name; a null value is known but not set."""
    host, port = address
    found: dict[str, Any] = {f"recipe.{name}": value for name, value in _flat(profile.recipe)}
    found |= {f"identity.{name}": value for name, value in msgspec.to_builtins(profile.identity).items()}
    found |= {
        "endpoint.host": host,
        "endpoint.port": port,
        "endpoint.base_url": profile.endpoint.base_url,
        "endpoint.served_name": profile.endpoint.served_name,
    }
    return found | {f"site.{name}": value for name, value in site.items()}


def stated(recipe: Recipe) -> dict[str, Any]:
    """The fields of a recipe that are set, by dotted name (`speculation.tokens`)."""
    return {name: value for name, value in _flat(recipe) if value is not None}


def refers(text: str) -> bool:
    """Whether a text holds a reference."""
    return _REFERENCE.search(text) is not None


def reference_faults(place: str, text: str, known: Mapping[str, Any]) -> Iterator[Fault]:
    """A Fault for each reference that names nothing, or something that is not set."""
    for name in _REFERENCE.findall(text):
        if name not in known:
            root = name.split(".")[0]
            allowed = sorted(one for one in known if one.startswith(root + ".")) or sorted(known)
            yield Fault(place, f"{{{name}}} names nothing", ", ".join(allowed), nearest(name, known))
        elif known[name] is None:
            yield Fault(place, f"{{{name}}} is not set in this profile", f"a value for {name}")


def render(text: str, known: Mapping[str, Any]) -> str:
    """`text` with its references replaced. Every reference must be known and set (`reference_faults` told)."""
    return _REFERENCE.sub(lambda match: str(known[match[1]]), text)


def same_value(declared: Any, literal: str) -> bool:
    """Whether a literal of a command line says what the recipe says; numbers compare as numbers."""
    if isinstance(declared, bool):
        return literal.lower() in (("true", "1") if declared else ("false", "0"))
    if isinstance(declared, int | float):
        try:
            return float(literal.replace("_", "")) == float(declared)
        except ValueError:
            return False
    return literal == str(declared)


def origins(profile: LaneProfile, literal_fields: frozenset[str]) -> dict[str, Origin]:
    """How each stated recipe field reaches the engine; `declared only` reaches it in no way that we can see."""
    launch = profile.launch
    texts = (*launch.argv, *launch.env.values()) if isinstance(launch, ProcessLaunch) else ()
    rendered = {name for text in texts for name in _REFERENCE.findall(text)}
    simulated = isinstance(launch, RehearsalLaunch)
    found: dict[str, Origin] = {}
    for field in stated(profile.recipe):
        if simulated or f"recipe.{field}" in rendered:
            found[field] = "rendered"
        else:
            found[field] = "literal" if field in literal_fields else "declared only"
    return found


def _flat(recipe: Recipe) -> Iterator[tuple[str, Any]]:
    for field in msgspec.structs.fields(Recipe):
        value = getattr(recipe, field.name)
        if field.name == "speculation":
            yield "speculation.method", value and value.method
            yield "speculation.tokens", value and value.tokens
        elif field.name == "engine":
            yield from ((f"engine.{name}", one) for name, one in value.items())
        else:
            yield field.name, value
