"""From the events of one answer to its record: a pure state machine, no clock and no socket of its own."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct

from anvil_tui.probes.client.answer import Answer, kept
from anvil_tui.probes.client.errors import decoded, error_of, short, too_long
from anvil_tui.probes.client.rates import Arrival, Decode, decode, seed_figures, stalls
from anvil_tui.probes.client.sse import SseEvent
from anvil_tui.records.live import RequestPhase
from anvil_tui.records.request import Outcome, OutputLength, RequestError, RequestRecord, TimeoutKind

_REFUSED = ("error_in_stream", "rejected_too_long")

EndKind = Literal["eof", "done", "grace", "disconnected", "timeout", "cancelled", "http_error"]


class End(Struct, frozen=True, kw_only=True):
    """How the exchange ended, and when."""

    how: EndKind
    at_ns: int
    timeout: TimeoutKind | None = None
    error: RequestError | None = None


class Asked(Struct, frozen=True, kw_only=True):
    """What was asked, as far as it decides what the answer means."""

    max_tokens: int
    output_length: OutputLength = "natural"
    streamed: bool = True


class _Chunk(Struct, frozen=True, gc=False):
    """One chunk with a choice: its moment, the running count if any, and what kind it is."""

    at_ns: int
    count: int | None
    output: bool
    role: bool
    finish: bool


class Stream:
    """Takes the events of one streamed answer in order; `record` then says what they were."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer = Answer()
        self.done = False
        self.streamed = True
        self.events = 0
        self.finish_reason: str | None = None
        self.error: RequestError | None = None
        self.last_event_ns: int | None = None
        self._chunks: list[_Chunk] = []
        self._count = 0
        self._usage: dict[str, Any] = {}
        self._request_id: str | None = None
        self._accepted: int | None = None
        self._first_chunk_ns: int | None = None
        self._first_visible_ns: int | None = None
        self._reasoning_chunks = self._content_chunks = self._tool_chunks = 0
        self._malformed = 0

    # While it runs

    @property
    def tokens(self) -> int | None:
        """Completion tokens so far where the engine counts as it streams."""
        return self._count or None

    @property
    def began(self) -> bool:
        """Whether a chunk with a choice came."""
        return self._first_chunk_ns is not None

    @property
    def phase(self) -> RequestPhase:
        if self.done or self.finish_reason is not None:
            return "finishing"
        if self._first_visible_ns is not None:
            return "answer"
        return "reasoning" if self.last_token_ns is not None else "prefill"

    last_token_ns: int | None = None
    """When the latest chunk with output came, or one whose count rose."""

    def take(self, event: SseEvent) -> None:
        """Take one event."""
        self.last_event_ns = event.at_ns
        self.events += 1
        data = event.data.strip()
        if data == b"[DONE]":
            self.done = True
            return
        if not data:
            return
        message = decoded(data)
        if event.name == b"error" and not isinstance(message, dict):
            message = {"error": message if isinstance(message, str) else data.decode("utf-8", "replace")}
        if not isinstance(message, dict):
            self._malformed += 1
            return
        self._take_message(message, event.at_ns, named_error=event.name == b"error")

    def take_whole(self, body: bytes, at_ns: int) -> None:
        """Take the body of a server that answered in one piece although a stream was asked for."""
        self.streamed = False
        self.take(SseEvent(body, at_ns))
        self.events = 0

    def _take_message(self, message: dict[str, Any], at_ns: int, *, named_error: bool) -> None:
        get = message.get
        choices = get("choices")
        if named_error or choices is None or "error" in message or get("object") == "error":
            error = error_of(message, named_error=named_error)
            if error is not None:
                self.error = self.error or error
                return
        if self._request_id is None:
            self._request_id = short(get("id"))
        count = self._take_usage(usage) if (usage := get("usage")) else None
        if metrics := get("metrics"):
            self._take_metrics(metrics)
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, dict) and not choice.get("index"):
                self._take_choice(choice, count, at_ns)

    def _take_usage(self, usage: object) -> int | None:
        if not isinstance(usage, dict):
            return None
        self._usage.update((key, value) for key, value in usage.items() if value is not None)
        return _int(usage.get("completion_tokens"))

    def _take_metrics(self, metrics: object) -> None:
        speculative = metrics.get("speculative_decoding") if isinstance(metrics, dict) else None
        if isinstance(speculative, dict):
            self._accepted = _int(speculative.get("num_accepted_draft_tokens"))

    def _take_choice(self, choice: dict[str, Any], count: int | None, at_ns: int) -> None:
        if self._first_chunk_ns is None:
            self._first_chunk_ns = at_ns
        delta = choice["delta"] if "delta" in choice else choice.get("message")
        channels = self.answer.add(delta)
        finish = short(said) if (said := choice.get("finish_reason")) else None
        self.finish_reason = finish or self.finish_reason
        if channels:
            self._reasoning_chunks += "reasoning" in channels
            self._content_chunks += "content" in channels or "refusal" in channels
            self._tool_chunks += "tool" in channels
            if self._first_visible_ns is None and channels != {"reasoning"}:
                self._first_visible_ns = at_ns
        role = isinstance(delta, dict) and bool(delta.get("role"))
        self._chunks.append(_Chunk(at_ns, count, bool(channels), role, finish is not None))
        rose = count is not None and count > self._count
        self._count = max(self._count, count or 0)
        if channels or (rose and finish is None):
            self.last_token_ns = at_ns

    # When it ended

    def record(self, base: RequestRecord, end: End, sent_ns: int | None) -> RequestRecord:
        """`base`, which says what was asked, completed by what came. Times count from `sent_ns`."""
        warnings = list(base.warnings)
        output_tokens = _int(self._usage.get("completion_tokens"))
        arrivals = self._token_arrivals(output_tokens, warnings)
        rate = decode(arrivals, output_tokens)
        outcome, error = self._outcome(end, output_tokens)
        warnings += self._oddities(rate, outcome, end, output_tokens, arrivals)
        first_output_ms = _ms(sent_ns, arrivals[0].at_ns) if arrivals and self.streamed else None
        ttft_ms = _ms(sent_ns, self._first_visible_ns) if self.streamed else None
        e2e_ms = _ms(sent_ns, end.at_ns)
        prompt_tokens = _int(self._usage.get("prompt_tokens"))
        seed = seed_figures(
            first_output_ms=first_output_ms,
            ttft_ms=ttft_ms,
            e2e_ms=e2e_ms,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )
        stamps = [one.at_ns for one in arrivals]
        completion = _dict(self._usage.get("completion_tokens_details"))
        accepted = _int(completion.get("accepted_prediction_tokens")) if self._accepted is None else self._accepted
        return msgspec.structs.replace(
            base,
            outcome=outcome,
            timeout=end.timeout,
            error=error,
            warnings=tuple(dict.fromkeys(warnings)),
            request_id=self._request_id,
            sent_us=None if sent_ns is None else sent_ns // 1000,
            ended_us=end.at_ns // 1000,
            first_chunk_ms=_ms(sent_ns, self._first_chunk_ns),
            time_to_first_output_ms=first_output_ms,
            ttft_ms=ttft_ms,
            last_token_ms=_ms(sent_ns, stamps[-1] if stamps else None),
            e2e_ms=e2e_ms,
            max_gap_ms=max(gaps) / 1e6 if (gaps := _differences(stamps)) else None,
            arrivals_us=_differences([one // 1000 for one in (sent_ns, *stamps)]) if sent_ns is not None else (),
            smooth=rate.smooth if self.streamed else None,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
            cached_tokens=_int(_dict(self._usage.get("prompt_tokens_details")).get("cached_tokens")),
            reasoning_tokens=_int(completion.get("reasoning_tokens", self._usage.get("reasoning_tokens"))),
            accepted_draft_tokens=accepted,
            first_count=rate.first_count,
            reasoning_chunks=self._reasoning_chunks,
            content_chunks=self._content_chunks,
            tool_chunks=self._tool_chunks,
            finish_reason=self.finish_reason,
            saw_done=self.done,
            content=kept(self.answer.content),
            reasoning=kept(self.answer.reasoning),
            generation_ms=seed.generation_ms,
            visible_generation_ms=seed.visible_generation_ms,
            effective_prefill_tok_s=seed.effective_prefill_tok_s,
            decode_tok_s=rate.tok_s,
            decode_tok_s_seed=seed.decode_tok_s,
            mean_inter_token_latency_ms=seed.mean_inter_token_latency_ms,
        )

    def _token_arrivals(self, output_tokens: int | None, warnings: list[str]) -> list[Arrival]:
        """The chunks that carried tokens. Text proves a token; so does a risen count, with or without text.

        Where nothing counts along, chunks with an empty text count as tokens only if the total then fits exactly: one
        token a chunk, some held back by the detokeniser, the last perhaps the end token in the finish chunk.
        """
        texts = [one for one in self._chunks if one.output]
        counted = [one for one in self._chunks if one.count is not None and not one.finish]
        if counted and all(one.count is not None for one in texts):
            arrivals, highest = [], 0
            for one in self._chunks:
                count = max(highest, one.count or 0)
                if one.output or count > highest:
                    arrivals.append(Arrival(one.at_ns, count))
                highest = count
            return arrivals
        silent = [one for one in self._chunks if not (one.output or one.role or one.finish)]
        ending = [one for one in self._chunks if one.finish and not one.output][:1]
        for extra in (silent, [*silent, *ending], ending):
            if texts and extra and len(texts) + len(extra) == output_tokens:
                if any(one.at_ns <= texts[0].at_ns for one in extra):
                    warnings.append("first_output_without_text")
                carried = {id(one) for one in (*texts, *extra)}
                texts = [one for one in self._chunks if id(one) in carried]
                break
        return [Arrival(one.at_ns) for one in texts]

    def _outcome(self, end: End, output_tokens: int | None) -> tuple[Outcome, RequestError | None]:
        error = end.error or self.error
        if end.how == "http_error":
            return ("rejected_too_long" if error and too_long(error) else "http_error"), error
        if self.error is not None:
            refused = not self._has_output and too_long(self.error)
            return ("rejected_too_long" if refused else "error_in_stream"), self.error
        if self.finish_reason in ("error", "abort"):
            words = f"the stream ended with finish_reason {self.finish_reason!r}"
            return "error_in_stream", RequestError(message=words)
        if end.how == "cancelled" or end.how == "timeout" or end.how == "disconnected":
            return end.how, error
        if not self._has_output and not output_tokens:
            return "empty_stream", error
        if self.finish_reason is None and not self.done:
            return "no_finish_reason", None
        return self._verdict(output_tokens), None

    @property
    def _has_output(self) -> bool:
        return any(one.output for one in self._chunks)

    def _verdict(self, output_tokens: int | None) -> Outcome:
        """A stream that ended in order: did it hold a whole answer?"""
        if self._first_visible_ns is None:
            return "no_visible_content"
        full = output_tokens is not None and output_tokens >= self.asked.max_tokens
        if self.asked.output_length == "natural" and self.finish_reason == "length":
            return "truncated"
        if self._tool_chunks and (full or any(one.parsed() is None for one in self.answer.tool_calls)):
            return "truncated"
        return "ok"

    def _oddities(
        self, rate: Decode, outcome: Outcome, end: End, output_tokens: int | None, arrivals: list[Arrival]
    ) -> list[str]:
        """Words for what was odd without being a failure, or beside one."""
        asked = self.asked
        ended = end.how in ("eof", "done", "grace") and outcome not in _REFUSED
        seen = {
            "not_streamed": asked.streamed and not self.streamed,
            "no_done": ended and self.streamed and not self.done and self.finish_reason is not None,
            "left_open": end.how == "grace",
            "no_finish_reason": ended and self.done and self.finish_reason is None,
            "no_usage": ended and output_tokens is None,
            "malformed_events": self._malformed > 0,
            "not_smooth": self.streamed and rate.smooth is False,
            "short_window": ended and rate.short,
            "first_count_estimated": rate.estimated and rate.tok_s is not None,
            "tool_call_cut": outcome == "truncated" and self.finish_reason != "length",
            "repeated_output": self.answer.repeated,
        }
        if output_tokens is not None:
            last_count = arrivals[-1].count if arrivals else None
            above = last_count is not None and output_tokens > last_count + 1
            fewer = output_tokens < asked.max_tokens
            seen |= {
                "usage_mismatch": ended and (output_tokens < len(arrivals) or above),
                "max_tokens_clamped": fewer and self.finish_reason == "length",
                "max_tokens_exceeded": output_tokens > asked.max_tokens,
                "short_output": fewer and ended and asked.output_length == "fixed",
            }
        return [word for word, is_so in seen.items() if is_so]

    def stalls(self) -> list[tuple[int, int]]:
        """Silences in mid-stream that stand out, (start, end) in nanoseconds of the monotonic clock."""
        return stalls([one.at_ns for one in self._chunks if one.output])


def _differences(stamps: list[int]) -> tuple[int, ...]:
    return tuple(after - before for before, after in pairwise(stamps))


def _ms(start_ns: int | None, end_ns: int | None) -> float | None:
    return None if start_ns is None or end_ns is None else (end_ns - start_ns) / 1e6


def _int(value: object) -> int | None:
    """A count as engines send it; None where it is none, a bool or negative."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
