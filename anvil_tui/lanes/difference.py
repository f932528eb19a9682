"""What two lanes differ in, as they would be launched: each functional difference once, operational ones apart.

A recipe field that changes shows up again in the arguments and variables that say it. Such a text is no difference of
its own: both are brought to one form, `{recipe.…}` for whatever says a recipe field, before they are compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from anvil_tui.engines import flags
from anvil_tui.evidence.arms.differences import OPERATIONAL, Difference, flat
from anvil_tui.lanes import recipe
from anvil_tui.lanes.profile import Lane

_ONE_REFERENCE = re.compile(r"\{recipe\.([A-Za-z0-9_.-]+)\}")

Texts = tuple[str, ...]
"""What a flag, a variable or another text of a launch says; empty for a flag without a value."""


@dataclass(frozen=True)
class LaneDifference:
    """All differences of two lanes. What one of them does not have is None."""

    functional: tuple[Difference, ...]
    """By key path; an argument is named by its flag (`launch.argv.--enforce-eager`)."""
    operational: tuple[Difference, ...]
    """By what documents call them: port, served model name, container name, log file."""


def lane_difference(baseline: Lane, candidate: Lane) -> LaneDifference:
    """Compare two lanes. Pure: nothing is asked of the machine beyond the site values that the lanes carry."""
    functional = sorted(_functional(baseline, candidate), key=lambda one: one.field)
    return LaneDifference(tuple(functional), tuple(_operational(baseline, candidate)))


def covers(declared: str, field: str) -> bool:
    """Whether a declared key path names this field or a table above it."""
    return field == declared or field.startswith((f"{declared}.", f"{declared}["))


def _operational(baseline: Lane, candidate: Lane) -> Iterator[Difference]:
    old, new = flat(baseline.profile), flat(candidate.profile)
    for key, word in OPERATIONAL.items():
        if old.get(key) != new.get(key):
            yield Difference(word, old.get(key), new.get(key))


def _functional(baseline: Lane, candidate: Lane) -> Iterator[Difference]:
    old, new = _values(baseline), _values(candidate)
    for key in old.keys() | new.keys():
        if old.get(key) != new.get(key):
            yield Difference(key, old.get(key), new.get(key))
    before, after = _texts(baseline), _texts(candidate)
    for key in before.keys() | after.keys():
        if not _explained(key, before.get(key), after.get(key), baseline, candidate):
            yield Difference(key, _shown(before.get(key), baseline), _shown(after.get(key), candidate))


def _is_text(key: str, value: Any) -> bool:
    return key.startswith("launch.") and (isinstance(value, str) or key == "launch.argv")


def _values(lane: Lane) -> dict[str, Any]:
    """Every functional value by key path that no reference may stand in."""
    return {key: one for key, one in flat(lane.profile).items() if key not in OPERATIONAL and not _is_text(key, one)}


def _texts(lane: Lane) -> dict[str, Texts]:
    """The texts of the launch by key path, its arguments one by one."""
    found: dict[str, Texts] = {}
    for key, value in flat(lane.profile).items():
        if key == "launch.argv":
            found |= _arguments(key, value)
        elif key not in OPERATIONAL and _is_text(key, value):
            found[key] = (value,)
    return found


def _arguments(key: str, argv: Sequence[str]) -> dict[str, Texts]:
    """Arguments by flag, however they are ordered; those before the first flag by position."""
    found: dict[str, Texts] = {}
    flag = ""
    for index, text in enumerate(argv):
        if re.match(r"--?[A-Za-z]", text):
            name, equals, value = text.partition("=")
            flag = f"{key}.{name.replace('_', '-')}"
            found[flag] = (*found.get(flag, ()), *((value,) if equals else ()))
        elif flag:
            found[flag] = (*found[flag], text)
        else:
            found[f"{key}[{index}]"] = (text,)
    return found


def _explained(key: str, before: Texts | None, after: Texts | None, baseline: Lane, candidate: Lane) -> bool:
    """Whether two texts say the same, or differ only as the recipes, ports and served names do."""
    if before == after:
        return True
    old = None if before is None else _canonical(key, before, baseline)
    new = None if after is None else _canonical(key, after, candidate)
    if old is None or new is None:
        return _only_recipe(old or new or (), baseline, candidate)
    if _is_own_name(before, baseline) and _is_own_name(after, candidate):
        return True
    ways = ((baseline, candidate), (baseline, baseline), (candidate, candidate))
    rendered = ((_rendered(old, one), _rendered(new, other)) for one, other in ways)
    return any(one is not None and one == other for one, other in rendered)


def _only_recipe(texts: Texts, baseline: Lane, candidate: Lane) -> bool:
    """Whether a text that one lane lacks says nothing but recipe fields in which the lanes differ."""
    old, new = recipe.stated(baseline.profile.recipe), recipe.stated(candidate.profile.recipe)
    fields = [match[1] if (match := _ONE_REFERENCE.fullmatch(text)) else None for text in texts]
    return bool(fields) and all(field is not None and old.get(field) != new.get(field) for field in fields)


def _is_own_name(texts: Texts | None, lane: Lane) -> bool:
    """Whether a text is the lane's own port or served name, written out."""
    return texts in ((str(lane.address[1]),), (lane.profile.endpoint.served_name,))


def _canonical(key: str, texts: Texts, lane: Lane) -> Texts:
    """The texts with `{recipe.…}` for each value that says a field of the lane's recipe; a JSON object by its keys."""
    name = key.rpartition(".")[2] if key.startswith("launch.env.") else key.partition("launch.argv.")[2]
    if len(texts) != 1 or not name:
        return texts
    engine = lane.profile.identity.engine
    text = recipe.render(texts[0], lane.names())
    stated = recipe.stated(lane.profile.recipe)
    if key.startswith("launch.env."):
        said = flags.literals(engine, (), {name: text})
    else:
        said = flags.literals(engine, (name, text), {})
    fields = {field for field, _, value in said if field in stated and recipe.same_value(stated[field], value)}
    table = _object(text)
    if table is not None:
        keys = flags.CONFIGS.get(engine, {}).get(name, {})
        return tuple(
            f"{{recipe.{keys[one]}}}" if keys.get(one) in fields else f"{one}={json.dumps(table[one], sort_keys=True)}"
            for one in sorted(table)
        )
    return (f"{{recipe.{fields.pop()}}}",) if len(fields) == 1 else texts


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _rendered(texts: Texts, lane: Lane) -> Texts | None:
    """The texts as this lane would launch them; None where they refer to what it does not have."""
    names = lane.names()
    if any(True for text in texts for _ in recipe.reference_faults("", text, names)):
        return None
    return tuple(recipe.render(text, names) for text in texts)


def _shown(texts: Texts | None, lane: Lane) -> str | bool | None:
    """A text as a reader knows it: rendered, a flag without a value as true."""
    if texts is None:
        return None
    return " ".join(_rendered(texts, lane) or texts) if texts else True
