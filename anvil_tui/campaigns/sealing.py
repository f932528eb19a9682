"""Sealing and signing a campaign: the operator's acts, or the runner's where a key needs no passphrase."""

from __future__ import annotations

import msgspec

from anvil_tui.bundles import keys, seal, sign, trust
from anvil_tui.bundles.ssh.public_key import parse_line
from anvil_tui.campaigns import reporting
from anvil_tui.campaigns.store.folder import CampaignFolder
from anvil_tui.campaigns.store.journal import Journal, read_journal
from anvil_tui.campaigns.store.recovery import open_runs, recover, unnamed_artifacts
from anvil_tui.errors import CannotRun
from anvil_tui.locations import Locations
from anvil_tui.records.bundle import SealReport, SigningKey, SignReport
from anvil_tui.records.events import Sealed


def seal_campaign(folder: CampaignFolder) -> SealReport:
    """Seal a campaign that no one writes. Raises CannotRun and CheckFailed."""
    if folder.sealed:
        raise CannotRun(f"{folder.id} is sealed already; a sealed campaign is never changed")
    if not folder.closed and reporting.stale(folder):
        reporting.write(folder, None)
    with Journal.take(folder.journal) as journal:
        earlier = [event for _, event in read_journal(folder.journal) if event is not None]
        closed = any(isinstance(event, Sealed) for event in earlier)
        if not closed and (journal.torn or open_runs(earlier) or unnamed_artifacts(folder, earlier)):
            recover(folder, journal, earlier)
        return seal_held(folder, journal)


def seal_held(folder: CampaignFolder, journal: Journal) -> SealReport:
    """Seal a campaign whose journal this process holds. Raises CannotRun and CheckFailed."""
    return seal.seal(folder.path, journal.append)


def signing_keys(locations: Locations) -> tuple[SigningKey, ...]:
    """Every key that can sign here, with who the trust store says it is. Raises BadInput for a bad trust store."""
    return keys.usable(locations.keys, trust.read(locations.allowed_signers))


def choose_key(locations: Locations, *, unattended: bool = False) -> SigningKey:
    """The key to sign with. Raises CannotRun that says how to get one."""
    found = sign.choose(signing_keys(locations), unattended=unattended)
    if found is None:
        how = "that needs no passphrase (an agent, or a key without one)" if unattended else "of yours"
        raise CannotRun(f"no trusted key {how}; `anvil-tui keys --create YOU@LAB` creates one")
    return found


def create_key(locations: Locations, principal: str, passphrase: bytes | None) -> SigningKey:
    """Create the operator's own key and trust it here as `principal`. Raises BadInput and KeyRefused."""
    trust.check_principal(principal)
    key = keys.create(locations.keys, principal, passphrase)
    public, _ = parse_line(key.public)
    trust.add(locations.allowed_signers, trust.Trusted(principal=principal, key=public))
    return msgspec.structs.replace(key, principal=principal)


def sign_campaign(folder: CampaignFolder, key: SigningKey, passphrase: bytes | None) -> SignReport:
    """Sign a sealed campaign. Raises KeyRefused, CannotRun and CheckFailed; the bundle is then as it was."""
    if not folder.sealed:
        raise CannotRun(f"{folder.id} is not sealed; `anvil-tui seal {folder.id}` comes first")
    return sign.sign(folder.path, key, passphrase)
