"""What a campaign watches from outside: files and URLs, hashed before the first load and after the last."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import httpx

from anvil_tui.lanes import recipe
from anvil_tui.records.campaign_file import Watched
from anvil_tui.records.events import Event, WatchHashed
from anvil_tui.text import sanitise

_LIMIT = 64 << 20


async def hash_watched(
    watched: Sequence[Watched], phase: Literal["before", "after"], base: Path, site: dict[str, str]
) -> list[WatchHashed]:
    """Hash everything that is watched; `base` is what relative paths start from. What cannot be read says why."""
    return [await _hash(one, phase, base, site) for one in watched]


def changed(means: str, events: Sequence[Event]) -> bool | None:
    """Whether what is watched as `means` changed since it was first hashed; null where nothing tells. A runner that
    goes on with a campaign hashes again: only an "after" that nothing follows says that nothing changed."""
    seen: dict[str, list[WatchHashed]] = {}
    for event in events:
        if isinstance(event, WatchHashed) and event.means == means:
            seen.setdefault(event.target, []).append(event)
    if any(len({one.sha256 for one in hashed if one.sha256 is not None}) > 1 for hashed in seen.values()):
        return True
    whole = all(hashed[-1].phase == "after" and len(hashed) > 1 for hashed in seen.values())
    known = all(one.sha256 is not None for hashed in seen.values() for one in hashed)
    return False if seen and whole and known else None


async def _hash(one: Watched, phase: Literal["before", "after"], base: Path, site: dict[str, str]) -> WatchHashed:
    target = one.url or recipe.render(one.file or "", {f"site.{name}": value for name, value in site.items()})
    digest, words = hashlib.sha256(), ""
    try:
        if one.url is not None:
            async with (
                httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=10.0) as client,
                client.stream("GET", one.url) as response,
            ):
                response.raise_for_status()
                taken = 0
                async for part in response.aiter_bytes():
                    digest.update(part)
                    taken += len(part)
                    if taken > _LIMIT:
                        raise httpx.HTTPError(f"more than {_LIMIT >> 20} MiB")
        else:
            digest.update((base / target).read_bytes())
    except (OSError, httpx.HTTPError) as error:
        words = sanitise(str(error), 400) or type(error).__name__
    sha256 = None if words else digest.hexdigest()
    return WatchHashed(phase=phase, means=one.means, target=sanitise(target, 400), sha256=sha256, words=words)
