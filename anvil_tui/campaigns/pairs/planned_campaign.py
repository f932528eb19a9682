"""A campaign that could begin: its file, its lanes, and what they differ in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from anvil_tui.campaigns.pairs.order import loads_in_order
from anvil_tui.evidence.arms.differences import Difference
from anvil_tui.lanes import recipe
from anvil_tui.lanes.difference import LaneDifference, covers
from anvil_tui.lanes.profile import Lane
from anvil_tui.records.acceptance import ArmRole
from anvil_tui.records.campaign_file import CampaignArm, CampaignFile
from anvil_tui.records.plan import PlannedLoad


@dataclass(frozen=True)
class PlannedCampaign:
    """A campaign file as it was loaded, valid here, with its lanes and what they differ in."""

    name: str
    path: Path
    raw: bytes
    file: CampaignFile
    lanes: Mapping[ArmRole, Lane]
    """By role; the baseline first."""
    site: Mapping[str, str]
    difference: LaneDifference | None
    """Null where there is one arm."""
    shadows: Path | None = None
    """A shipped file of the same name that this one hides."""

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.raw).hexdigest()

    @property
    def rehearsal(self) -> bool:
        return any(lane.rehearsal for lane in self.lanes.values())

    @property
    def loads(self) -> tuple[PlannedLoad, ...]:
        """Every load in its order: the same for the same file."""
        names = {role: lane.name for role, lane in self.lanes.items()}
        return loads_in_order(self.file.order, self.file.blocks, names, self.file.seed)

    @property
    def undeclared(self) -> tuple[Difference, ...]:
        """Functional differences that are neither controlled nor named with a why."""
        named = (*self.file.controlled_fields, *(one.field for one in self.file.undeclared_ok))
        return _not_covered(self.difference, named)

    def arm_name(self, arm: ArmRole) -> str:
        """What documents call an arm."""
        stated = self.file.arms.candidate if arm == "candidate" else self.file.arms.baseline
        return (stated.name if stated is not None else None) or arm

    def place(self, text: str) -> Path:
        """A path of the file: `{site.…}` rendered, relative to the folder that the file lies in."""
        return self.path.parent / self.render(text)

    def render(self, text: str) -> str:
        """A text of the file with `{site.…}` rendered."""
        return recipe.render(text, site_names(self.site))


def arms_of(file: CampaignFile) -> Iterator[tuple[ArmRole, CampaignArm]]:
    """The arms of a file by role, the baseline first."""
    if file.arms.baseline is not None:
        yield "baseline", file.arms.baseline
    yield "candidate", file.arms.candidate


def site_names(site: Mapping[str, str]) -> dict[str, str]:
    """What texts of a campaign file may refer to."""
    return {f"site.{name}": value for name, value in site.items()}


def _not_covered(difference: LaneDifference | None, named: tuple[str, ...]) -> tuple[Difference, ...]:
    functional = difference.functional if difference is not None else ()
    return tuple(one for one in functional if not any(covers(field, one.field) for field in named))
