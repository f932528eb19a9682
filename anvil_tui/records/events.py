"""What can happen in a campaign, in the order in which it happens. A newcomer reads this file first.

Each line of `journal.jsonl` is an Envelope whose body is one of these records. A reader decodes the envelope first and
the body then; a kind that it does not know is kept and shown as unknown.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec
from msgspec import Raw, Struct

from anvil_tui.records.lane import LaunchKind
from anvil_tui.records.plan import CampaignKind
from anvil_tui.records.vram import Gpu, Verdict

Ending = Literal["complete", "stopped", "failed", "interrupted"]
Ask = Literal["stop_after_request", "stop_now", "skip_rung", "acknowledge_alarm", "note"]


class Envelope(Struct, frozen=True, kw_only=True):
    """One line of the journal. `prev` is the SHA-256 of the bytes of the line before, without its LF."""

    seq: int
    prev: str
    t: str
    mono_us: int
    kind: str
    body: Raw


class Event(Struct, frozen=True, kw_only=True):
    """Base of all bodies. The kind of an event is its class name in snake case."""


class RunnerStarted(Event, frozen=True, kw_only=True):
    """A runner took the journal. `mono_us` of all that follows compares within this boot id only."""

    tool_version: str
    python: str
    pid: int
    start_ticks: int | None = None
    boot_id: str
    resumed: bool


class Recovered(Event, frozen=True, kw_only=True):
    """An earlier writer died: what was found of it."""

    torn_bytes: int
    torn_sha256: str | None
    kept_as: str | None
    interrupted_runs: tuple[str, ...]
    found_after_crash: tuple[str, ...]
    """Whole artifacts that no event names."""


class CampaignPlanned(Event, frozen=True, kw_only=True):
    """The plan, hashed before the first load."""

    campaign_id: str
    campaign_kind: CampaignKind
    lanes: tuple[str, ...]
    plan_sha256: str
    rehearsal: bool


class SamplerStarted(Event, frozen=True, kw_only=True):
    """The runner's own sampler child gives samples."""

    source: Literal["nvml", "rehearsal"]
    hz: float
    gpus: tuple[Gpu, ...]
    driver: str | None
    rehearsal: bool


class SamplerFailed(Event, frozen=True, kw_only=True):
    """No samples, or no more: verdicts over this time are INCOMPLETE or UNKNOWN."""

    reason: str
    hint: str = ""


class WatchHashed(Event, frozen=True, kw_only=True):
    """A watched file or URL before the first load or after the last; null could not be read, and `words` says why."""

    phase: Literal["before", "after"]
    means: str
    target: str
    sha256: str | None
    words: str = ""


class BlockLoadBegun(Event, frozen=True, kw_only=True):
    """The next load of a paired campaign: which block, which arm. A block is one load of each arm."""

    number: int
    block: int
    arm: Literal["baseline", "candidate"]
    lane: str
    replay: bool


class LoadStarted(Event, frozen=True, kw_only=True):
    """A lane was launched by this campaign."""

    lane: str
    load_id: str
    launch: LaunchKind
    pid: int | None


class LoadAdopted(Event, frozen=True, kw_only=True):
    """A lane that was already up is measured."""

    lane: str
    load_id: str
    launch: LaunchKind


class PhaseReached(Event, frozen=True, kw_only=True):
    """The lane's log spoke of a new start-up phase."""

    lane: str
    phase: str
    line: int


class LoadReady(Event, frozen=True, kw_only=True):
    """The endpoint itself answered with the served name."""

    lane: str
    load_id: str
    startup_seconds: float | None
    served_name: str
    max_model_len: int | None
    engine_version: str | None


class LoadFailed(Event, frozen=True, kw_only=True):
    """The lane did not come up, or it died. `words` is the sentence for the operator."""

    lane: str
    load_id: str
    words: str
    exit_code: int | None = None
    signal: int | None = None
    cause: str | None = None


class StartupReported(Event, frozen=True, kw_only=True):
    """The start-up report of a load, copied into the campaign."""

    lane: str
    load_id: str
    path: str
    sha256: str


class PlanRefused(Event, frozen=True, kw_only=True):
    """Nothing was sent: the plan cannot work on this lane, with the arithmetic."""

    words: str


class RunStarted(Event, frozen=True, kw_only=True):
    """A measured run or rung began. `run` is `<lane>-r<N>`, never used twice."""

    lane: str
    run: str
    what: Literal["rung", "gate", "capacity"]
    target_tokens: int | None = None


class RunFinished(Event, frozen=True, kw_only=True):
    """A run ended and its artifact is on disk."""

    run: str
    path: str
    sha256: str
    bytes: int
    passed: bool
    outcome: str
    reserve: Verdict | None
    words: str


class RunInterrupted(Event, frozen=True, kw_only=True):
    """A run was cut short: by the operator, by a dead lane, by a crash of ours. It is kept and not counted."""

    run: str
    words: str
    path: str | None = None
    sha256: str | None = None
    bytes: int | None = None


class RunSkipped(Event, frozen=True, kw_only=True):
    """A planned run was not begun, and why."""

    what: Literal["rung", "gate", "capacity"]
    target_tokens: int | None
    words: str


class AlarmRaised(Event, frozen=True, kw_only=True):
    """Something that the operator should see now, once per crossing."""

    alarm: Literal["reserve", "lane", "sampler", "disk"]
    words: str


class Asked(Event, frozen=True, kw_only=True):
    """A request of the operator was taken from the inbox."""

    request: str
    ask: str
    text: str | None = None


class Answered(Event, frozen=True, kw_only=True):
    """What became of a request."""

    request: str
    words: str


class LoadStopped(Event, frozen=True, kw_only=True):
    """A lane was stopped by its campaign, to make room for the next one."""

    lane: str
    load_id: str
    gone: bool


class MemoryReturned(Event, frozen=True, kw_only=True):
    """Whether the GPUs got back to what they had free before the first load."""

    returned: bool
    words: str


class BlockLoadEnded(Event, frozen=True, kw_only=True):
    """A load of a paired campaign is over. `whole` says that everything planned for it was done."""

    number: int
    block: int
    arm: Literal["baseline", "candidate"]
    load_id: str | None
    whole: bool
    health: str
    """How the endpoint answered at the end."""
    shared_memory_reclaimable_bytes: int | None
    words: str


class BlockInterrupted(Event, frozen=True, kw_only=True):
    """A block whose load was cut short: it is kept, not counted, and redone whole."""

    block: int
    words: str


class Validated(Event, frozen=True, kw_only=True):
    """A command that the campaign file names was run at closeout; its output is kept."""

    name: str
    exit_code: int | None
    path: str
    sha256: str


class DocumentWritten(Event, frozen=True, kw_only=True):
    """A result document was written from the artifacts."""

    path: str
    sha256: str
    schema: str


class LogCopied(Event, frozen=True, kw_only=True):
    """The lane's log of this campaign's window, secrets redacted and counted."""

    lane: str
    path: str
    sha256: str
    bytes: int
    redactions: dict[str, int]


class RunnerEnded(Event, frozen=True, kw_only=True):
    """The runner is done; the folder is complete and unsealed."""

    ending: Ending
    words: str
    exit_code: int


class Decided(Event, frozen=True, kw_only=True):
    """The operator's decision text was put into the campaign."""

    path: str
    sha256: str


class Sealed(Event, frozen=True, kw_only=True):
    """The last line: after it only signatures are added."""

    ending: Ending
    files: int


KINDS: dict[str, type[Event]] = {}
"""Event records by kind, in the order above."""


def kind_of(event: type[Event]) -> str:
    """`RunStarted` is written as `run_started`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in event.__name__).lstrip("_")


KINDS.update({kind_of(event): event for event in Event.__subclasses__()})

E = TypeVar("E", bound=Event)


def body(envelope: Envelope) -> Event | None:
    """The typed body of an envelope; None where this version does not know its kind or shape."""
    record = KINDS.get(envelope.kind)
    if record is None:
        return None
    try:
        return msgspec.json.decode(envelope.body, type=record)
    except msgspec.MsgspecError:
        return None
