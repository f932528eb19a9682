"""Every stream of scenarios.py, played over a real socket by a server in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from anvil_tui.probes.client.exchange import chat_request, exchange
from anvil_tui.probes.client.pauses import HostWatch
from anvil_tui.records.probe import Deadlines, Target
from anvil_tui.records.request import RequestRecord
from tests.scripted_server import ScriptedServer
from tests.unit.probes.scenarios import SCENARIOS
from tests.unit.probes.test_stream import play

TIME_ERROR_MS = 100.0
RATE_ERROR = 0.3
"""Wide: other things run beside the tests. test_stream.py holds the figures exactly, the benchmark the real error."""

Played = tuple[RequestRecord, dict[str, Any]]


async def _play(server: ScriptedServer, names: list[str]) -> dict[str, RequestRecord]:
    async with HostWatch() as watch:

        async def one(name: str) -> RequestRecord:
            scenario = SCENARIOS[name]
            target = Target(base_url=server.base_url, model=name)
            base = RequestRecord(
                request_index=0,
                outcome="not_sent",
                model=name,
                max_tokens=scenario.max_tokens,
                output_length="fixed" if scenario.fixed else "natural",
            )
            messages = [{"role": "user", "content": "hello"}]
            request = chat_request(target, messages, base, Deadlines(), cache_salt="salt")
            return (await exchange(request, watch)).record

        records: dict[str, RequestRecord] = {}
        for start in range(0, len(names), 16):
            some = names[start : start + 16]
            records |= dict(zip(some, await asyncio.gather(*map(one, some)), strict=True))
        return records


@pytest.fixture(scope="module")
def played() -> Iterator[dict[str, Played]]:
    with ScriptedServer({name: scenario.script for name, scenario in SCENARIOS.items()}) as server:
        records = asyncio.run(_play(server, list(SCENARIOS)))
        entries = {entry["model"]: entry for entry in server.log()}
    yield {name: (record, entries[name]) for name, record in records.items()}


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenario(played: dict[str, Played], name: str) -> None:
    scenario, (record, entry) = SCENARIOS[name], played[name]
    assert record.outcome == scenario.outcome, record
    assert set(record.warnings) == set(scenario.warnings)
    for field, value in scenario.is_so.items():
        assert getattr(record, field) == value, field
    steps = (scenario.script.headers_at_us, *(step.at_us for step in scenario.script.steps if step.do == "body"))
    sent_ms = dict(zip(steps, ((at - (record.sent_us or 0) * 1000) / 1e6 for at in entry["sent_ns"]), strict=False))
    for measured, truth_us in (
        (record.time_to_first_output_ms, scenario.first_output_us),
        (record.ttft_ms, scenario.visible_us),
    ):
        assert measured == (None if truth_us is None else pytest.approx(sent_ms[truth_us], abs=TIME_ERROR_MS))
    if scenario.decode is None or scenario.first_output_us is None:
        assert record.decode_tok_s is None
    else:
        last_us = round((play(scenario).last_token_ms or 0) * 1000)
        stretched = (sent_ms[last_us] - sent_ms[scenario.first_output_us]) * 1000 / (last_us - scenario.first_output_us)
        assert record.decode_tok_s == pytest.approx(scenario.decode / stretched, rel=RATE_ERROR)


def test_errors_are_kept_whole(played: dict[str, Played]) -> None:
    error = played["midstream_error"][0].error
    assert error is not None
    assert (error.message, error.type, error.code) == ("EngineCore encountered an issue.", "InternalServerError", "500")
    refused = played["http400"][0].error
    assert refused is not None
    assert (refused.status, refused.param, refused.code) == (400, "input_tokens", "400")
    assert refused.body is not None and "4097 input tokens" in refused.body
    assert played["http500"][0].error is not None
    assert played["http500"][0].error.body == "Internal Server Error"


@pytest.mark.parametrize(
    ("name", "kind", "beginning"),
    [
        ("html", "text/html", "<html><body>Welcome to nginx!"),
        ("no_completion", "application/json", '{"status": "warming up"}'),
        ("lines_of_json", "application/x-ndjson", '{"message": {"content": "hi"}}'),
    ],
)
def test_a_body_that_is_no_answer_is_shown(played: dict[str, Played], name: str, kind: str, beginning: str) -> None:
    error = played[name][0].error
    assert error is not None
    assert error.message.startswith(f"the body ({kind}) is neither an event stream nor a completion")
    assert beginning in error.message


def test_an_empty_answer_has_no_words(played: dict[str, Played]) -> None:
    assert played["empty_done"][0].error is None


def test_a_dead_stream_keeps_what_came(played: dict[str, Played]) -> None:
    for name in ("midstream_error", "truncated", "reset", "short_length"):
        record = played[name][0]
        assert record.content_chunks == 5
        assert len(record.arrivals_us) == 5
        assert record.content is not None


def test_bodies_ask_for_what_a_measurement_needs(played: dict[str, Played]) -> None:
    body = played["fixed"][1]["body"]
    assert body["stream"] is True
    assert body["temperature"] == 0
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert (body["max_tokens"], body["min_tokens"], body["ignore_eos"]) == (20, 20, True)
    assert body["cache_salt"] == "salt"
    assert "min_tokens" not in played["plain"][1]["body"]
    retried = played["refuses_both"][1]["body"]
    assert "cache_salt" not in retried
    assert retried["stream_options"] == {"include_usage": True}


def test_arrivals_add_up(played: dict[str, Played]) -> None:
    record = played["plain"][0]
    assert len(record.arrivals_us) == 20
    assert sum(record.arrivals_us) / 1000 == pytest.approx(record.last_token_ms, abs=0.05)
    assert record.max_gap_ms == pytest.approx(10, abs=TIME_ERROR_MS)
