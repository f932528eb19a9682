"""What two lanes differ in. Port, served name and container name are operational; everything else is functional."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from anvil_tui.records.lane import LaneProfile

OPERATIONAL = {
    "endpoint.base_url": "port",
    "endpoint.served_name": "served model name",
    "launch.name": "container name",
    "launch.container": "container name",
    "launch.log": "log file",
}
"""Key paths that decide no behaviour, and what the documents call them."""
_IGNORED = ("about", "schema", "gpus.reason")
_SIMULATION = ("launch.engine", "launch.gpus")
"""What a rehearsal pretends follows from its recipe; it is no setting of the lane."""


@dataclass(frozen=True)
class Difference:
    """One key path with different values; a value that is not set is None."""

    field: str
    baseline: Any
    candidate: Any


@dataclass(frozen=True)
class Differences:
    """All differences of two profiles."""

    functional: tuple[Difference, ...]
    operational: tuple[str, ...]


def lane_differences(baseline: LaneProfile, candidate: LaneProfile) -> Differences:
    """Compare two profiles key by key; env, argv, mounts, devices and limits count as functional."""
    old, new = flat(baseline), flat(candidate)
    changed = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
    return Differences(
        functional=tuple(Difference(key, old.get(key), new.get(key)) for key in changed if key not in OPERATIONAL),
        operational=tuple(dict.fromkeys(OPERATIONAL[key] for key in changed if key in OPERATIONAL)),
    )


def flat(profile: LaneProfile) -> dict[str, Any]:
    """Every value of a profile that may count, by key path; lists whole, and nothing that is not set."""
    return dict(_leaves(msgspec.to_builtins(profile), ""))


def _leaves(table: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        path = f"{place}.{key}" if place else key
        if path in _IGNORED or path in _SIMULATION or value is None:
            continue
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value
