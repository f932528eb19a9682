"""What the journal tells, in the order in which it happened: loads, runs, what went wrong, and the end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from anvil_tui.records import events
from anvil_tui.records.events import Envelope, Event


@dataclass
class LoadStory:
    """One load. Times are µs of the boot `boot_id`."""

    lane: str
    load_id: str
    boot_id: str | None
    started_us: int | None
    """Null where the lane was up already."""
    phases: list[tuple[str, int]] = field(default_factory=list)
    """When the log first spoke of each phase, as the runner saw it."""
    ended_us: int | None = None
    """Ready or failed."""
    ready: events.LoadReady | None = None
    failed: events.LoadFailed | None = None


@dataclass
class RunStory:
    """One run; a skipped one has no name."""

    run: str | None
    what: str
    target_tokens: int | None
    state: str = "no end in the journal"
    words: str = ""
    path: str | None = None


@dataclass
class BlockLoad:
    """One planned load of a paired campaign, as it went."""

    begun: events.BlockLoadBegun
    load_id: str | None = None
    ended: events.BlockLoadEnded | None = None
    put_aside: bool = False
    """Its block was cut short and is redone whole: what was measured on it is kept and not counted."""


@dataclass(frozen=True)
class Trouble:
    """Something that a reader must know: when, what kind, in which words."""

    at: str
    kind: str
    words: str


@dataclass
class Story:
    """A whole campaign as its journal tells it."""

    began_at: str | None = None
    ended_at: str | None = None
    seconds: float | None = None
    """First to last runner event, where both are of one boot."""
    tool_version: str | None = None
    boots: list[tuple[str, str]] = field(default_factory=list)
    """When each runner started, and its boot id."""
    ending: events.RunnerEnded | None = None
    plan_sha256: str | None = None
    samplers: list[events.SamplerStarted] = field(default_factory=list)
    loads: list[LoadStory] = field(default_factory=list)
    runs: list[RunStory] = field(default_factory=list)
    blocks: list[BlockLoad] = field(default_factory=list)
    reports: list[events.StartupReported] = field(default_factory=list)
    redactions: dict[str, int] = field(default_factory=dict)
    troubles: list[Trouble] = field(default_factory=list)
    unknown: dict[str, int] = field(default_factory=dict)
    """Events of kinds that this version does not know."""

    @property
    def put_aside(self) -> frozenset[str]:
        """Loads whose runs are kept and not counted."""
        return frozenset(one.load_id for one in self.blocks if one.put_aside and one.load_id is not None)

    def load(self, load_id: str) -> LoadStory | None:
        return next((one for one in reversed(self.loads) if one.load_id == load_id), None)


def tell(journal: Iterable[tuple[Envelope, Event | None]]) -> Story:
    """Fold the journal into one story."""
    story = Story()
    first: tuple[str, int] | None = None
    boot: str | None = None
    for envelope, event in journal:
        match event:
            case events.RunnerStarted():
                boot = event.boot_id
                story.boots.append((envelope.t, boot))
                story.began_at = story.began_at or envelope.t
                story.tool_version = event.tool_version
                story.ending = story.ended_at = story.seconds = None
                first = first or (boot, envelope.mono_us)
                if event.resumed:
                    _note(story, envelope, "resumed", "a new runner took over where an earlier one had ended")
            case events.RunnerEnded():
                story.ending, story.ended_at = event, envelope.t
                if first is not None and first[0] == boot:
                    story.seconds = (envelope.mono_us - first[1]) / 1e6
                if event.ending != "complete":
                    _note(story, envelope, f"campaign {event.ending}", event.words)
            case None:
                story.unknown[envelope.kind] = story.unknown.get(envelope.kind, 0) + 1
            case _:
                _tell_load(story, envelope, event, boot)
                _tell_run(story, envelope, event)
                _tell_block(story, envelope, event)
                _tell_rest(story, envelope, event)
    return story


def _tell_load(story: Story, envelope: Envelope, event: Event, boot: str | None) -> None:
    match event:
        case events.LoadStarted():
            _begin_load(story, LoadStory(event.lane, event.load_id, boot, envelope.mono_us))
        case events.LoadAdopted():
            _begin_load(story, LoadStory(event.lane, event.load_id, boot, None))
        case events.PhaseReached():
            if (load := next((one for one in reversed(story.loads) if one.lane == event.lane), None)) is not None:
                load.phases.append((event.phase, envelope.mono_us))
        case events.LoadReady() | events.LoadFailed():
            load = story.load(event.load_id)
            if load is None:
                load = LoadStory(event.lane, event.load_id, boot, None)
                story.loads.append(load)
            if isinstance(event, events.LoadReady):
                load.ready = event
            else:
                load.failed = event
                _note(story, envelope, "load failed", f"{event.words}; {event.cause}" if event.cause else event.words)
            if load.ended_us is None and load.boot_id == boot:
                load.ended_us = envelope.mono_us
        case events.StartupReported():
            story.reports.append(event)


def _begin_load(story: Story, load: LoadStory) -> None:
    story.loads.append(load)
    if story.blocks and story.blocks[-1].load_id is None:
        story.blocks[-1].load_id = load.load_id


def _tell_run(story: Story, envelope: Envelope, event: Event) -> None:
    match event:
        case events.RunStarted():
            story.runs.append(RunStory(event.run, event.what, event.target_tokens))
        case events.RunFinished():
            run = _run(story, event.run)
            run.state, run.words, run.path = ("passed" if event.passed else "failed"), event.words, event.path
            if not event.passed:
                _note(story, envelope, "run failed", f"{event.run}: {event.words}")
        case events.RunInterrupted():
            run = _run(story, event.run)
            run.state, run.words, run.path = "interrupted", event.words, event.path
            _note(story, envelope, "run interrupted", f"{event.run}: {event.words}")
        case events.RunSkipped():
            story.runs.append(RunStory(None, event.what, event.target_tokens, "skipped", event.words))
            target = f" of {event.target_tokens:,} tokens" if event.target_tokens is not None else ""
            _note(story, envelope, "not begun", f"{event.what}{target}: {event.words}")


def _tell_block(story: Story, envelope: Envelope, event: Event) -> None:
    match event:
        case events.BlockLoadBegun():
            story.blocks.append(BlockLoad(event))
        case events.BlockLoadEnded():
            if open_ := next((one for one in reversed(story.blocks) if one.begun.number == event.number), None):
                open_.ended = event
            if not event.whole:
                _note(story, envelope, "load cut short", f"load {event.number} of block {event.block}: {event.words}")
        case events.BlockInterrupted():
            for one in story.blocks:
                one.put_aside = one.put_aside or one.begun.block == event.block
            _note(story, envelope, "block interrupted", f"block {event.block}: {event.words}")
        case events.MemoryReturned(returned=False):
            _note(story, envelope, "memory did not come back", event.words)
        case events.LoadStopped(gone=False):
            _note(story, envelope, "load did not stop", f"{event.lane}, load {event.load_id}")
        case events.WatchHashed(sha256=None):
            _note(story, envelope, "watched, not readable", f"{event.means} {event.target}: {event.words}")
        case events.Validated():
            if event.exit_code != 0:
                _note(story, envelope, "validation failed", f"{event.name}: exit code {event.exit_code}; {event.path}")


def _tell_rest(story: Story, envelope: Envelope, event: Event) -> None:
    match event:
        case events.CampaignPlanned():
            story.plan_sha256 = event.plan_sha256
        case events.SamplerStarted():
            story.samplers.append(event)
        case events.SamplerFailed():
            _note(story, envelope, "no GPU samples", f"{event.reason}. {event.hint}" if event.hint else event.reason)
        case events.PlanRefused():
            _note(story, envelope, "plan refused", event.words)
        case events.AlarmRaised():
            _note(story, envelope, f"{event.alarm} alarm", event.words)
        case events.Asked():
            words = f"{event.ask.replace('_', ' ')}: {event.text}" if event.text else event.ask.replace("_", " ")
            _note(story, envelope, "the operator asked", words)
        case events.Recovered():
            lost = f"{event.torn_bytes} torn bytes"
            words = ", ".join((lost, *(f"{run} interrupted" for run in event.interrupted_runs)))
            _note(story, envelope, "recovered after a crash", words)
        case events.LogCopied():
            for rule, count in event.redactions.items():
                story.redactions[rule] = story.redactions.get(rule, 0) + count


def _run(story: Story, name: str) -> RunStory:
    """The story of run `name`; begun here where the journal lacks its begin."""
    found = next((one for one in reversed(story.runs) if one.run == name), None)
    if found is None:
        found = RunStory(name, "unknown", None)
        story.runs.append(found)
    return found


def _note(story: Story, envelope: Envelope, kind: str, words: str) -> None:
    story.troubles.append(Trouble(envelope.t, kind, words))
