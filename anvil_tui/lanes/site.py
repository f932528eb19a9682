"""The machine file: values of this site that profiles refer to, so that a profile can be shared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

from anvil_tui.records.validation import decode_toml, read_bytes


class MachineFile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`machine.toml`: `[site]` holds texts by name."""

    schema: Literal["anvil-machine/v1"] = "anvil-machine/v1"
    site: dict[str, str] = {}


def read_site(path: Path) -> Mapping[str, str]:
    """The site values of this machine; none where the file does not exist. Raises BadInput."""
    if not path.exists():
        return {}
    return decode_toml(MachineFile, read_bytes(path), str(path)).site
