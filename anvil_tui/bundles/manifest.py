"""`MANIFEST.json`: what the files of a bundle are. It carries no hashes; those stand in SHA256SUMS alone."""

from __future__ import annotations

import json
import platform
import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from anvil_tui import __version__, clock
from anvil_tui.bundles import journal_check
from anvil_tui.bundles.journal_check import Journal
from anvil_tui.bundles.refused import Refused
from anvil_tui.records import events
from anvil_tui.records.bundle import Manifest, ManifestFile, ManifestRun, Role

NAME = "MANIFEST.json"
README = "README.txt"
PRIVATE_ROLES: frozenset[Role] = frozenset({"raw-run", "failed-run", "startup-log", "log", "vram", "runner-log"})
"""What a published copy withholds unless the operator says otherwise before sealing."""

_BY_NAME: dict[str, Role] = {
    "campaign.toml": "campaign",
    "plan.json": "plan",
    journal_check.NAME: "journal",
    "journal.torn.*": "journal",
    "decision*.txt": "decision",
    "report.html": "report",
    "*.log": "runner-log",
    README: "doc",
}
_BY_FOLDER: dict[str, Role] = {
    "lanes": "profile",
    "startup": "startup-report",
    "vram": "vram",
    "documents": "document",
}


def role_of(path: str, runs: Mapping[str, ManifestRun]) -> Role | None:
    """The role of a file by its place in the campaign folder; None where the place is nobody's.

    `runs` are the ends of runs by their artifact's path.
    """
    folder, _, rest = path.partition("/")
    if not rest:
        return next((role for pattern, role in _BY_NAME.items() if fnmatchcase(path, pattern)), None)
    if folder == "runs":
        return "raw-run" if path in runs and runs[path].state == "ok" else "failed-run"
    if folder == "logs":
        return "startup-log" if "startup" in rest else "log"
    return _BY_FOLDER.get(folder)


def build(
    journal: Journal,
    sizes: Mapping[str, int],
    profiles: Mapping[str, bytes],
    private_roles: frozenset[Role] = PRIVATE_ROLES,
) -> Manifest:
    """The manifest of a campaign whose journal is sealed.

    `sizes` in bytes of every file but the manifest, `profiles` the bytes of each lane's TOML file. A file in nobody's
    place is private. Raises Refused RUN_UNACCOUNTED or JOURNAL_BROKEN.
    """
    planned = journal.planned
    if journal.sealed is None or planned is None:
        raise Refused("JOURNAL_BROKEN", "a campaign needs its `campaign_planned` and its `sealed` event")
    runs = journal_check.runs(journal)
    by_path = {run.path: run for run in runs if run.path is not None}
    roles = {path: role_of(path, by_path) for path in sorted(sizes)}
    redactions: dict[str, int] = {}
    for body in journal.bodies:
        if isinstance(body, events.LogCopied):
            for rule, count in body.redactions.items():
                redactions[rule] = redactions.get(rule, 0) + count
    return Manifest(
        bundle_id=planned.campaign_id,
        created_utc=journal.envelopes[-1].t,
        status=journal.sealed.ending,
        rehearsal=journal.rehearsal,
        kind=planned.campaign_kind,
        tool=_tool(journal),
        host=_host(journal),
        identity={lane: _identity(lane, profiles.get(lane), journal) for lane in planned.lanes},
        runs=runs,
        redactions=redactions,
        files=tuple(
            ManifestFile(
                path=path, role=role or "doc", bytes=sizes[path], private=role is None or role in private_roles
            )
            for path, role in roles.items()
        ),
    )


def write(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def parse(raw: bytes) -> Manifest:
    """Decode a manifest strictly: UTF-8 without BOM, no key twice, no NaN, a schema that this version knows.

    Raises Refused MANIFEST_MALFORMED or SCHEMA_UNSUPPORTED.
    """
    try:
        data = json.loads(raw.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise Refused("MANIFEST_MALFORMED", f"not strict JSON: {error}", NAME) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    if not isinstance(schema, str):
        raise Refused("MANIFEST_MALFORMED", "it names no schema", NAME)
    if schema != "anvil-bundle/v1":
        raise Refused("SCHEMA_UNSUPPORTED", f"the schema {schema!r} is not anvil-bundle/v1", NAME)
    try:
        return msgspec.convert(data, Manifest)
    except (msgspec.ValidationError, RecursionError) as error:
        raise Refused("MANIFEST_MALFORMED", str(error), NAME) from None


def _tool(journal: Journal) -> dict[str, str]:
    """What ran the campaign, as its runner said, and what sealed it."""
    tool = {"name": "anvil-tui", "sealed_with": __version__}
    for body in journal.bodies:
        if isinstance(body, events.RunnerStarted):
            tool |= {"version": body.tool_version, "python": body.python}
    return tool


def _host(journal: Journal) -> dict[str, Any]:
    """The machine. Kernel and system are read now, and null where it booted again since the last runner started."""
    boot = gpus = driver = None
    for body in journal.bodies:
        if isinstance(body, events.RunnerStarted):
            boot = body.boot_id
        elif isinstance(body, events.SamplerStarted):
            gpus, driver = msgspec.to_builtins(body.gpus), body.driver
    same = boot == clock.boot_id()
    kernel = platform.release()
    return {
        "os": platform.system() if same else None,
        "kernel": kernel if same else None,
        "wsl": "microsoft" in kernel.lower() if same else None,
        "gpus": gpus,
        "driver": driver,
    }


def _identity(lane: str, profile: bytes | None, journal: Journal) -> dict[str, Any]:
    """What the profile declares of a lane, and what its endpoint said when it was last ready."""
    declared: Any = None
    if profile is not None:
        try:
            declared = tomllib.loads(profile.decode("utf-8")).get("identity")
        except ValueError:  # the exact bytes are in the bundle; here they only are not repeated
            declared = None
    observed: dict[str, Any] | None = None
    for body in journal.bodies:
        if isinstance(body, events.LoadReady) and body.lane == lane:
            observed = {
                "load_id": body.load_id,
                "served_name": body.served_name,
                "max_model_len": body.max_model_len,
                "engine_version": body.engine_version,
                "startup_seconds": body.startup_seconds,
            }
    return {"declared": declared, "observed": observed}


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
