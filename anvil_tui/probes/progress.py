"""What an ask tells of itself while it runs: at most ten lines a second, and each record as it is made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anvil_tui.clock import mono_us
from anvil_tui.probes.capacity import Step
from anvil_tui.probes.client.stream import Stream
from anvil_tui.records.live import RequestPhase
from anvil_tui.records.probe import ProbeLine, ProbeMeasured, ProbeProgress, ProbeRunning, ProbeSized
from anvil_tui.records.request import RequestRecord, Sizing

Write = Callable[[ProbeLine], None]


class Progress(Protocol):
    def tell(self) -> None:
        """Say where the ask stands, if that is news; called ten times a second."""


class RequestProgress:
    """Where one request stands."""

    def __init__(self, ask_id: str, write: Write) -> None:
        self._id = ask_id
        self._write = write
        self._phase: RequestPhase | None = None
        self._stream: Stream | None = None
        self._sent_us: int | None = None
        self._told: tuple[RequestPhase, int | None] | None = None

    def phase(self, phase: RequestPhase) -> None:
        self._phase = phase

    def sized(self, sizing: Sizing) -> None:
        self._write(ProbeSized(id=self._id, sizing=sizing))

    def started(self, stream: Stream, sent_ns: int) -> None:
        self._stream, self._sent_us = stream, sent_ns // 1000

    def tell(self) -> None:
        phase = self._stream.phase if self._stream is not None else self._phase
        if phase is None:
            return
        now = (phase, self._stream.tokens if self._stream is not None else None)
        if now != self._told:
            self._told = now
            self._write(
                ProbeProgress(id=self._id, phase=phase, mono_us=mono_us(), sent_us=self._sent_us, tokens=now[1])
            )


class RunProgress:
    """Where a capacity run stands, and the records of its requests as they end."""

    def __init__(self, ask_id: str, write: Write) -> None:
        self._id = ask_id
        self._write = write
        self._step: Step = "sizing"
        self._open: dict[int, Stream] = {}
        self._finished = self._failed = self._tokens = 0
        self._told: tuple[object, ...] | None = None

    def step(self, step: Step) -> None:
        self._step = step
        self._finished = self._failed = self._tokens = 0

    def started(self, stream: Stream, _sent_ns: int) -> None:
        self._open[id(stream)] = stream

    def measured(self, record: RequestRecord, stream: Stream | None, *, warmup: bool) -> None:
        if stream is not None:
            self._open.pop(id(stream), None)
            self._tokens += stream.tokens or 0
        self._finished += 1
        self._failed += record.outcome not in ("ok", "truncated")
        self._write(ProbeMeasured(id=self._id, warmup=warmup, record=record))

    def tell(self) -> None:
        tokens = self._tokens + sum(stream.tokens or 0 for stream in self._open.values())
        now = (self._step, self._finished, self._failed, len(self._open), tokens)
        if now != self._told:
            self._told = now
            self._write(
                ProbeRunning(
                    id=self._id,
                    mono_us=mono_us(),
                    step=self._step,
                    finished=self._finished,
                    failed=self._failed,
                    open=len(self._open),
                    tokens=tokens,
                )
            )
