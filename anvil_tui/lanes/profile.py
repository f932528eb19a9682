"""Finding, reading and judging lane profiles."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anvil_tui.engines import flags
from anvil_tui.errors import BadInput, Fault, nearest
from anvil_tui.lanes import recipe
from anvil_tui.lanes.site import read_site
from anvil_tui.locations import Locations
from anvil_tui.records.lane import AttachLaunch, LaneProfile, LaunchKind, ProcessLaunch, RehearsalLaunch
from anvil_tui.records.validation import decode_toml, read_bytes
from anvil_tui.text import looks_secret

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_NAME_WORDS = "a-z, 0-9, dot, dash and underscore, from 1 to 64, beginning with a letter or digit"


@dataclass(frozen=True)
class Lane:
    """A profile as it was loaded, with the bytes that it was loaded from."""

    name: str
    path: Path
    raw: bytes
    profile: LaneProfile
    site: Mapping[str, str]
    shadows: Path | None = None
    """A shipped profile of the same name that this one hides."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def rehearsal(self) -> bool:
        return isinstance(self.profile.launch, RehearsalLaunch)

    @property
    def kind(self) -> LaunchKind:
        match self.profile.launch:
            case ProcessLaunch():
                return "process"
            case AttachLaunch():
                return "attach"
            case RehearsalLaunch():
                return "rehearsal"

    @property
    def address(self) -> tuple[str, int]:
        """Host and port of the endpoint."""
        return address(self.profile.endpoint.base_url)

    def names(self) -> dict[str, Any]:
        """What `{recipe.…}`, `{endpoint.…}`, `{identity.…}` and `{site.…}` may refer to."""
        return recipe.names(self.profile, self.address, self.site)


def address(base_url: str) -> tuple[str, int]:
    """Host and port of a base URL; the port of its scheme where none stands there."""
    parts = urlsplit(base_url)
    return parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


def read_lane(path: Path, site: Mapping[str, str], shadows: Path | None = None) -> Lane:
    """Read one profile. Raises BadInput with every fault that it has."""
    return decode_lane(path, read_bytes(path), site, shadows)


def decode_lane(path: Path, raw: bytes, site: Mapping[str, str], shadows: Path | None = None) -> Lane:
    """Read one profile from its bytes. Raises BadInput with every fault that it has."""
    profile = decode_toml(LaneProfile, raw, str(path))
    lane = Lane(name=path.stem, path=path, raw=raw, profile=profile, site=site, shadows=shadows)
    faults = tuple(_faults(lane))
    if faults:
        raise BadInput(str(path), *faults)
    return lane


def profile_paths(locations: Locations) -> dict[str, tuple[Path, Path | None]]:
    """Every profile by lane name: its path, and the shipped path that it shadows."""
    shipped = {path.stem: path for path in sorted((locations.shipped_profiles / "lanes").glob("*.toml"))}
    own = {path.stem: path for path in sorted((locations.profiles / "lanes").glob("*.toml"))}
    return {
        name: (own.get(name) or shipped[name], shipped.get(name) if name in own else None) for name in own | shipped
    }


def find_lane(name: str, locations: Locations) -> Lane:
    """The lane of this name, or the profile at this path. Raises BadInput."""
    site = read_site(locations.machine)
    if name.endswith(".toml") or "/" in name:
        return read_lane(Path(name), site)
    paths = profile_paths(locations)
    if name not in paths:
        fault = Fault("lane", f"no lane {name!r}", ", ".join(sorted(paths)) or "none yet", nearest(name, paths))
        raise BadInput(str(locations.profiles / "lanes"), fault)
    path, shadows = paths[name]
    return read_lane(path, site, shadows)


def all_lanes(locations: Locations) -> dict[str, Lane | BadInput]:
    """Every lane by name, or why its profile is refused."""
    site = read_site(locations.machine)
    found: dict[str, Lane | BadInput] = {}
    for name, (path, shadows) in sorted(profile_paths(locations).items()):
        try:
            found[name] = read_lane(path, site, shadows)
        except BadInput as refused:
            found[name] = refused
    return found


def _faults(lane: Lane) -> Iterator[Fault]:
    profile = lane.profile
    if not _NAME.fullmatch(lane.name):
        yield Fault("file name", repr(lane.name), _NAME_WORDS)
    if profile.endpoint.base_url.rstrip("/").endswith("/v1"):
        yield Fault("endpoint.base_url", repr(profile.endpoint.base_url), "the address without /v1")
    if profile.gpus.policy != "enforce" and not profile.gpus.reason:
        yield Fault("gpus.reason", "missing", f"why the reserve is {profile.gpus.policy}")
    launch = profile.launch
    if isinstance(launch, RehearsalLaunch):
        yield from _rehearsal_faults(lane, launch)
    elif profile.gpus.source == "rehearsal":
        yield Fault("gpus.source", "'rehearsal'", "nvml, none; rehearsal only with launch.kind = 'rehearsal'")
    if isinstance(launch, ProcessLaunch):
        yield from _process_faults(lane, launch)


def _rehearsal_faults(lane: Lane, launch: RehearsalLaunch) -> Iterator[Fault]:
    profile = lane.profile
    if profile.gpus.source == "nvml":
        yield Fault("gpus.source", "'nvml'", "rehearsal, none: a simulated engine uses no real GPU")
    if profile.gpus.source == "rehearsal" and not launch.gpus:
        yield Fault("launch.gpus", "missing", "at least one simulated GPU")
    if lane.address[0] != "127.0.0.1":
        yield Fault("endpoint.base_url", repr(profile.endpoint.base_url), "an address on 127.0.0.1")
    if profile.recipe.max_model_len is None:
        yield Fault("recipe.max_model_len", "missing", "a whole number above 0: the simulated engine needs it")


def _process_faults(lane: Lane, launch: ProcessLaunch) -> Iterator[Fault]:
    texts = [(f"launch.argv[{index}]", text) for index, text in enumerate(launch.argv)]
    texts += [(f"launch.env.{name}", text) for name, text in launch.env.items()]
    if launch.cwd:
        texts.append(("launch.cwd", launch.cwd))
    names = lane.names()
    for place, text in texts:
        yield from recipe.reference_faults(place, text, names)
    for name in launch.env:
        if looks_secret(name):
            yield Fault(f"launch.env.{name}", "a literal under a secret-looking name", "its name in launch.env_from")
    for index, text in enumerate(launch.argv):
        flag, _, value = text.partition("=")
        literal = value or (launch.argv[index + 1] if index + 1 < len(launch.argv) else "")
        if (
            flag.startswith("--")
            and looks_secret(flag[2:].replace("-", "_"))
            and literal
            and not literal.startswith("-")
        ):
            yield Fault(
                f"launch.argv[{index}]", f"a literal secret after {flag}", "a variable named in launch.env_from"
            )
    yield from _contradictions(lane, launch)


def _contradictions(lane: Lane, launch: ProcessLaunch) -> Iterator[Fault]:
    """A literal flag or variable that says something else than the recipe."""
    stated = recipe.stated(lane.profile.recipe)
    for field, place, value in flags.literals(lane.profile.identity.engine, launch.argv, launch.env):
        if recipe.refers(value) or field not in stated:
            continue
        if not recipe.same_value(stated[field], value):
            wanted = f"{stated[field]}, or better {{recipe.{field}}}"
            yield Fault(f"launch.{place}", f"{value!r} contradicts recipe.{field} = {stated[field]}", wanted)
