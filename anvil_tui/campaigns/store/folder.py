"""The campaign folder: `STATE/campaigns/<id>/`, the only truth about a campaign."""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from anvil_tui import clock
from anvil_tui.errors import BadInput, CannotRun, Fault, nearest
from anvil_tui.files import Lock
from anvil_tui.records.plan import CampaignPlan

Standing = Literal["running", "interrupted", "complete", "stopped", "failed", "sealed"]


@dataclass(frozen=True)
class CampaignFolder:
    """Paths of one campaign."""

    path: Path

    @classmethod
    def create(cls, campaigns: Path, kind: str, slug: str) -> CampaignFolder:
        """A new folder with an id that no other campaign has."""
        safe = re.sub(r"[^A-Za-z0-9._-]", "-", slug).strip("-.")[:40]
        path = campaigns / f"anvil-{clock.utc_basic()}-{kind}-{safe}-{secrets.token_hex(3)}"
        path.mkdir(parents=True, mode=0o700)
        for name in ("lanes", "runs", "logs", "startup", "vram", "documents", "inbox"):
            (path / name).mkdir(mode=0o700)
        return cls(path)

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def journal(self) -> Path:
        return self.path / "journal.jsonl"

    @property
    def inbox(self) -> Path:
        return self.path / "inbox"

    @property
    def live(self) -> Path:
        return self.path / "live.json"

    @property
    def base(self) -> Path:
        """Names the folder that the campaign file lay in: a path of this machine, no part of the bundle."""
        return self.path / "base"

    @property
    def samples(self) -> Path:
        """Every GPU sample of the campaign, as lines."""
        return self.path / "vram" / "samples.jsonl"

    @property
    def runner_log(self) -> Path:
        return self.path / "runner.log"

    @property
    def sums(self) -> Path:
        return self.path / "SHA256SUMS"

    @property
    def sealed(self) -> bool:
        """Whether the list of hashes stands. `closed` is what a writer must ask."""
        return self.sums.exists()

    @property
    def closed(self) -> bool:
        """Whether the journal has its last line: sealed, or a sealing that was cut off and can only be completed."""
        return self.sealed or b'"kind":"sealed"' in self._last_line()

    def _last_line(self) -> bytes:
        try:
            return self.journal.read_bytes().rstrip(b"\n").rpartition(b"\n")[2]
        except FileNotFoundError:
            return b""

    def running(self) -> bool:
        """Whether a writer holds the journal now: a runner, or for a moment a verb."""
        return Lock.held(self.journal)

    def plan(self) -> CampaignPlan:
        """The plan as it was written. Raises CannotRun where the folder holds none that we can read."""
        try:
            return msgspec.json.decode((self.path / "plan.json").read_bytes(), type=CampaignPlan)
        except FileNotFoundError:
            raise CannotRun(f"{self.path}: no plan.json; this is not a campaign folder") from None
        except msgspec.MsgspecError as error:
            raise CannotRun(f"{self.path}/plan.json: {error}") from None

    def base_folder(self) -> Path:
        """Where relative paths of the campaign file start; this folder, where nothing is told of another."""
        try:
            return Path(os.fsdecode(self.base.read_bytes()))
        except FileNotFoundError:
            return self.path

    def lane_profile(self, lane: str) -> Path:
        return self.path / "lanes" / f"{lane}.toml"


def all_campaigns(campaigns: Path) -> list[CampaignFolder]:
    """Every campaign of this state folder, oldest first."""
    if not campaigns.is_dir():
        return []
    return [CampaignFolder(path) for path in sorted(campaigns.iterdir()) if (path / "plan.json").exists()]


def find_campaign(campaigns: Path, name: str) -> CampaignFolder:
    """The campaign of this id, of an unambiguous part of it, of this path, or `last`. Raises BadInput."""
    if "/" in name:
        path = Path(name)
        if not (path / "plan.json").exists():
            raise BadInput(name, Fault("campaign", "not a campaign folder", "a folder that holds plan.json"))
        return CampaignFolder(path.absolute())
    found = all_campaigns(campaigns)
    if name == "last" and found:
        return found[-1]
    matching = [one for one in found if one.id == name] or [one for one in found if name in one.id]
    if len(matching) == 1:
        return matching[0]
    if matching:
        several = ", ".join(one.id for one in matching)
        raise BadInput(str(campaigns), Fault("campaign", f"{name!r} could be any of several", several))
    ids = [one.id for one in found]
    raise BadInput(
        str(campaigns),
        Fault("campaign", f"no campaign {name!r}", ", ".join(ids[-5:]) or "none yet", nearest(name, ids)),
    )
