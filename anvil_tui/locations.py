"""Every path that anvil-tui reads or writes, from one record."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from anvil_tui.errors import CannotRun

_APP = "anvil-tui"


@dataclass(frozen=True)
class Locations:
    """Where things live. `state` and `profiles` follow `--state` and `--profiles`."""

    state: Path
    """Lane and campaign folders."""
    profiles: Path
    """The operator's own `lanes/*.toml` and `campaigns/*.toml`, read before the shipped ones."""
    config: Path
    """Keys, trusted signers and the machine file."""

    @classmethod
    def default(cls, state: Path | None = None, profiles: Path | None = None) -> Locations:
        config = platformdirs.user_config_path(_APP)
        return cls(
            state=(state or platformdirs.user_state_path(_APP)).absolute(),
            profiles=(profiles or config / "profiles").absolute(),
            config=config,
        )

    @property
    def lanes(self) -> Path:
        return self.state / "lanes"

    @property
    def campaigns(self) -> Path:
        return self.state / "campaigns"

    @property
    def rehearsal(self) -> Path:
        """The timelines of the simulated GPUs."""
        return self.state / "rehearsal"

    @property
    def keys(self) -> Path:
        return self.config / "keys"

    @property
    def allowed_signers(self) -> Path:
        return self.config / "allowed_signers"

    @property
    def machine(self) -> Path:
        """Site values that profiles refer to as `{site.NAME}`."""
        return self.config / "machine.toml"

    @property
    def shipped_profiles(self) -> Path:
        """The profiles inside the wheel, or those of the checkout."""
        package = Path(__file__).parent
        wheel = package / "profiles"
        return wheel if wheel.is_dir() else package.parent / "profiles"


def runtime_dir() -> Path:
    """Where locks live: `$XDG_RUNTIME_DIR/anvil-tui`, else a folder of ours under /tmp, 0700.

    Raises CannotRun where that folder belongs to someone else or others may write it.
    """
    base = os.environ.get("XDG_RUNTIME_DIR")
    folder = Path(base) / _APP if base and Path(base).is_dir() else Path("/tmp") / f"{_APP}-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise CannotRun(f"{folder} must be a folder of yours that nobody else may enter (0700); it is not")
    return folder
