"""What a journal must be for its campaign to be believed: one unbroken chain that accounts for every started run.

Used before sealing, so that nothing is sealed that would not verify, and again by every verifier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import msgspec

from anvil_tui import clock
from anvil_tui.bundles.refused import Refused, finding
from anvil_tui.bundles.sums import digest
from anvil_tui.records import events
from anvil_tui.records.bundle import Finding, ManifestRun, RunState
from anvil_tui.records.events import Ending, Envelope, Event

NAME = "journal.jsonl"
_FIRST_PREV = "0" * 64


@dataclass(frozen=True)
class Journal:
    """The lines of a journal whose chain holds; a body is None where its kind is unknown to this version."""

    envelopes: tuple[Envelope, ...]
    bodies: tuple[Event | None, ...]

    @property
    def sealed(self) -> events.Sealed | None:
        """The `sealed` event where it is the last line."""
        last = self.bodies[-1]
        return last if isinstance(last, events.Sealed) else None

    @property
    def planned(self) -> events.CampaignPlanned | None:
        return next((body for body in self.bodies if isinstance(body, events.CampaignPlanned)), None)

    @property
    def ending(self) -> Ending:
        """How the campaign ended: as its last runner said, or interrupted where that runner never said."""
        for body in reversed(self.bodies):
            if isinstance(body, events.RunnerEnded):
                return body.ending
            if isinstance(body, events.RunnerStarted | events.Recovered):
                break
        return "interrupted"

    @property
    def rehearsal(self) -> bool:
        """Whether anything in the journal says that this is no evidence."""
        return any(
            getattr(body, "rehearsal", False) or getattr(body, "launch", "") == "rehearsal" for body in self.bodies
        )


def read(raw: bytes) -> Journal:
    """Decode a journal and follow its chain. Raises Refused JOURNAL_BROKEN at the first line that does not fit."""
    if not raw.endswith(b"\n"):
        raise Refused("JOURNAL_BROKEN", "the last line does not end" if raw else "it is empty", NAME)
    envelopes: list[Envelope] = []
    bodies: list[Event | None] = []
    prev = _FIRST_PREV
    for number, line in enumerate(raw[:-1].split(b"\n"), 1):
        try:
            envelope = msgspec.json.decode(line, type=Envelope)
            body = events.body(envelope)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise Refused("JOURNAL_BROKEN", f"line {number} is not an event: {error}", NAME) from None
        if envelope.prev != prev:
            raise Refused("JOURNAL_BROKEN", f"line {number} does not follow the line before it", NAME)
        if envelope.seq != number - 1:
            raise Refused("JOURNAL_BROKEN", f"line {number} has the number {envelope.seq}, not {number - 1}", NAME)
        if body is None and envelope.kind in events.KINDS:
            raise Refused("JOURNAL_BROKEN", f"line {number} is a {envelope.kind} that cannot be read", NAME)
        envelopes.append(envelope)
        bodies.append(body)
        prev = digest(line)
    return Journal(tuple(envelopes), tuple(bodies))


def with_event(journal: Journal, raw: bytes, event: Event) -> bytes:
    """The bytes `raw` of `journal` as they would be with one more event, to look at before it is written."""
    envelope = Envelope(
        seq=len(journal.envelopes),
        prev=digest(raw[:-1].rsplit(b"\n", 1)[-1]),
        t=clock.utc_now(),
        mono_us=clock.mono_us(),
        kind=events.kind_of(type(event)),
        body=msgspec.Raw(msgspec.json.encode(event)),
    )
    return raw + msgspec.json.encode(envelope) + b"\n"


def runs(journal: Journal) -> tuple[ManifestRun, ...]:
    """Every run that was started, and how it ended, in the order of the start.

    Raises Refused RUN_UNACCOUNTED where one has no end, JOURNAL_BROKEN where a run is started or ended twice.
    """
    lanes: dict[str, str] = {}
    ended: dict[str, ManifestRun] = {}

    def end(run: str, state: RunState, path: str | None, words: str) -> None:
        if run not in lanes:
            raise Refused("JOURNAL_BROKEN", f"the run {run} ends and was never started", NAME)
        before = ended.get(run)
        # An interruption may be told twice: by the recovery, then in a line of its own.
        if before is not None and not (before.state == state == "interrupted" and before.path is None):
            raise Refused("JOURNAL_BROKEN", f"the run {run} ends twice", NAME)
        ended[run] = ManifestRun(run=run, lane=lanes[run], state=state, path=path, words=words)

    for body in journal.bodies:
        match body:
            case events.RunStarted():
                if body.run in lanes:
                    raise Refused("JOURNAL_BROKEN", f"the run {body.run} is started twice", NAME)
                lanes[body.run] = body.lane
            case events.RunFinished():
                end(body.run, "ok" if body.passed else "failed", body.path, body.words)
            case events.RunInterrupted():
                end(body.run, "interrupted", body.path, body.words)
            case events.Recovered():
                for run in body.interrupted_runs:
                    if run not in ended:
                        end(run, "interrupted", None, "its writer died")
    if missing := [run for run in lanes if run not in ended]:
        raise Refused("RUN_UNACCOUNTED", f"started and never ended: {', '.join(missing)}", NAME)
    return tuple(ended[run] for run in lanes)


def check(journal: Journal, hashes: Mapping[str, str], sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Compare what a sealed journal tells with the files beside it.

    `hashes` are those of the signed list, `sizes` in bytes by path, as far as they are known. Yields
    JOURNAL_BROKEN, RUN_UNACCOUNTED, ARTIFACT_NOT_AS_RECORDED and the note UNKNOWN_EVENTS.
    """
    if journal.sealed is None:
        yield finding(
            "JOURNAL_BROKEN", "its last line is not `sealed`: the tail was cut, or it was written after", NAME
        )
    elif journal.sealed.files != len(hashes):
        words = f"`sealed` says {journal.sealed.files} files, the list has {len(hashes)}"
        yield finding("ARTIFACT_NOT_AS_RECORDED", words, NAME)
    if sum(isinstance(body, events.Sealed) for body in journal.bodies) > 1:
        yield finding("JOURNAL_BROKEN", "it was sealed more than once", NAME)
    try:
        runs(journal)
    except Refused as refused:
        yield refused.finding
    yield from _check_artifacts(journal, hashes, sizes)
    unknown = Counter(
        envelope.kind for envelope, body in zip(journal.envelopes, journal.bodies, strict=True) if body is None
    )
    if unknown:
        kinds = ", ".join(f"{kind} ({count})" for kind, count in sorted(unknown.items()))
        yield finding("UNKNOWN_EVENTS", f"events that this version does not know: {kinds}", NAME)


def _check_artifacts(journal: Journal, hashes: Mapping[str, str], sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Every file that an event recorded is there as recorded, and no run's file is there that no event names."""
    recorded = {path: (sha256, size) for path, sha256, size in _recorded(journal.bodies)}
    for path, (sha256, size) in recorded.items():
        if path not in hashes:
            yield finding("ARTIFACT_NOT_AS_RECORDED", "the journal names it, the list does not", path)
        elif hashes[path] != sha256 or (size is not None and sizes.get(path, size) != size):
            yield finding("ARTIFACT_NOT_AS_RECORDED", "it is not the file that the journal recorded", path)
    found = {path for body in journal.bodies if isinstance(body, events.Recovered) for path in body.found_after_crash}
    for path in sorted(hashes):
        if fnmatchcase(path, "runs/*.json") and path not in recorded and path not in found:
            yield finding("ARTIFACT_NOT_AS_RECORDED", "no event of the journal names it", path)


def _recorded(bodies: Iterable[Event | None]) -> Iterator[tuple[str, str, int | None]]:
    """Path, SHA-256 and size of every file that an event recorded; the last event on a path counts."""
    for body in bodies:
        match body:
            case events.CampaignPlanned():
                yield "plan.json", body.plan_sha256, None
            case events.StartupReported() | events.Decided():
                yield body.path, body.sha256, None
            case events.RunFinished() | events.LogCopied():
                yield body.path, body.sha256, body.bytes
            case events.RunInterrupted(path=str(path), sha256=str(sha256)):
                yield path, sha256, body.bytes
            case events.Recovered(kept_as=str(path), torn_sha256=str(sha256)):
                yield path, sha256, body.torn_bytes
