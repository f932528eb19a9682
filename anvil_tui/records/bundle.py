"""A bundle: what its files are, and what verifying it found."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from anvil_tui.records.events import Ending

Role = Literal[
    "profile",
    "campaign",
    "plan",
    "raw-run",
    "failed-run",
    "startup-log",
    "startup-report",
    "log",
    "vram",
    "document",
    "report",
    "decision",
    "journal",
    "runner-log",
    "doc",
]


RunState = Literal["ok", "failed", "interrupted"]


class ManifestFile(Struct, frozen=True, kw_only=True):
    path: str
    role: Role
    bytes: int
    private: bool


class ManifestRun(Struct, frozen=True, kw_only=True):
    run: str
    lane: str
    state: RunState
    path: str | None
    words: str = ""


class Manifest(Struct, frozen=True, kw_only=True):
    """`MANIFEST.json`: meaning, never hashes. Unknown extra fields are ignored."""

    schema: Literal["anvil-bundle/v1"] = "anvil-bundle/v1"
    bundle_id: str
    created_utc: str
    status: Ending
    rehearsal: bool
    kind: str
    tool: dict[str, str]
    host: dict[str, Any]
    identity: dict[str, dict[str, Any]]
    """By lane: the profile's identity and what was observed."""
    runs: tuple[ManifestRun, ...]
    parents: tuple[dict[str, str], ...] = ()
    redactions: dict[str, int] = {}
    files: tuple[ManifestFile, ...]


class Finding(Struct, frozen=True, kw_only=True):
    """One thing that verifying found. `code` is a word of a closed list; texts are sanitised."""

    code: str
    words: str
    path: str | None = None


class Signer(Struct, frozen=True, kw_only=True):
    """Who signed: `principal` is set only where the machine's own trust store names the key."""

    file: str
    key_type: str
    fingerprint: str
    principal: str | None


class Verification(Struct, frozen=True, kw_only=True):
    """The answer of `verify`."""

    schema: Literal["anvil-verification/v1"] = "anvil-verification/v1"
    bundle: str
    bundle_id: str | None
    root: str | None
    """SHA-256 of SHA256SUMS."""
    rehearsal: bool | None
    signers: tuple[Signer, ...]
    errors: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    files: int
    bytes: int
    withheld: tuple[str, ...]
    exit_code: int


class SigningKey(Struct, frozen=True, kw_only=True):
    """A key that can sign on this machine. Holds nothing secret."""

    public: str
    """`ssh-ed25519 AAAA…`, as in a `.pub` file."""
    key_type: str
    fingerprint: str
    comment: str
    own: bool
    """The key that this tool created for bundles."""
    agent: bool
    """The running ssh-agent holds it."""
    path: str | None
    """The private key file, null where only the agent has it."""
    needs_passphrase: bool | None
    """Of the file; null where it cannot be told."""
    principal: str | None
    """Who this machine's trust store says it is; null where it is not trusted."""


class SealReport(Struct, frozen=True, kw_only=True):
    """What was sealed. `root` is the SHA-256 of SHA256SUMS, worth publishing beside the summary."""

    schema: Literal["anvil-seal/v1"] = "anvil-seal/v1"
    bundle: str
    bundle_id: str
    root: str
    status: Ending
    rehearsal: bool
    files: int
    bytes: int
    private: tuple[str, ...]
    """What a published copy withholds."""


class SignReport(Struct, frozen=True, kw_only=True):
    """A signature that was added to a bundle."""

    schema: Literal["anvil-signature/v1"] = "anvil-signature/v1"
    bundle: str
    root: str
    file: str
    """Path of the signature inside the bundle."""
    key_type: str
    fingerprint: str
