"""vLLM's prefixes, in every version's order: level, time and file; process and rank; Ray; torch; JSON logs."""

from __future__ import annotations

import re

from anvil_tui.engines.dialects.prefixes import Spoken, is_bar, json_record
from anvil_tui.engines.dialects.shapes import NOBODY, UNKNOWN, Record, Speaker

HEADER = re.compile(
    r"\b(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL) (?P<at>\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d{1,6})?"
    r" (?:\[[^\]\s]{1,200}:\d{1,6}\]|[\w./-]{1,200}:\d{1,6}\]) ?"
)
_PROCESS = re.compile(
    r"\((?:(?P<name>[A-Za-z][\w.-]{0,60}) )?(?:(?P<extra>rank=\d{1,5}|[A-Z]+\d{1,5}(?:[ _][A-Z]+\d{1,5})*) )?"
    r"pid=(?P<pid>\d{1,10})(?:, ip=[^)\s]{1,60})?\) *"
)
_RAY_REPEATED = re.compile(r" ?\[repeated \d+x across cluster\][^\n]*$")
_TORCH_RANK = re.compile(r"\[rank(\d{1,5})\]: ?")
_UVICORN = re.compile(r"(?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL): +")


def read(said: Spoken) -> list[Record]:
    """The records of one line: usually one; two where a progress bar without a newline stands in front."""
    text, stamped = said
    if (found := json_record(text)) is not None and "message" in found:
        return _from_json(found)
    header = HEADER.search(text)
    if header is None:
        speaker, text = _speaker_at_start(text)
        level = match["level"] if (match := _UVICORN.match(text)) else ""
        return [Record(_RAY_REPEATED.sub("", text), level, stamped, speaker)]
    speaker, before = _speaker_before(text[: header.start()])
    message = _RAY_REPEATED.sub("", text[header.end() :])
    record = Record(message, header["level"], stamped or header["at"], speaker)
    return [Record(before, "", stamped), record] if is_bar(before) else [record]


def _from_json(found: dict[str, object]) -> list[Record]:
    """The records of a JSON log line: one for each line of its message."""
    name, pid = str(found.get("vllm_process_name") or found.get("processName") or ""), str(found.get("process") or "")
    level, at = str(found.get("levelname") or "INFO"), str(found.get("asctime") or "") or None
    speaker = _speaker(name, "", pid)
    return [Record(line, level, at, speaker) for line in str(found["message"]).splitlines() or [""]]


def _speaker_at_start(text: str) -> tuple[Speaker, str]:
    """Who wrote a line without a header, and the line behind the process prefixes."""
    found, at = [], 0
    while match := _PROCESS.match(text, at):
        found.append(match)
        at = match.end()
    speaker = _of(found)
    if match := _TORCH_RANK.match(text, at):
        speaker = Speaker(f"rank{match[1]}", "worker") if speaker is NOBODY else speaker
        at = match.end()
    return speaker, text[at:]


def _speaker_before(area: str) -> tuple[Speaker, str]:
    """Who wrote a line with a header, from what stands before it, and whatever else stands there."""
    found: list[re.Match[str]] = []
    for match in _PROCESS.finditer(area):
        if found and area[found[-1].end() : match.start()].strip():
            found = []
        found.append(match)
    if not found or is_bar(area[found[-1].end() :]):
        return NOBODY, area
    return _of(found), area[: found[0].start()]


def _of(found: list[re.Match[str]]) -> Speaker:
    """The process of a run of prefixes. Several are several processes that wrote at once, so nobody knows whose the
    text is; but Ray puts its worker's prefix behind that of the driver which forwards the line."""
    speakers = {(match["name"] or "", match["extra"] or "", match["pid"]): match for match in found}
    if not speakers:
        return NOBODY
    name, extra, pid = list(speakers)[-1]
    if len(speakers) > 1 and not (name.startswith("Ray") or not name):
        return UNKNOWN
    return _speaker(name, extra, pid)


def _speaker(name: str, extra: str, pid: str) -> Speaker:
    if name.startswith(("EngineCore", "DPEngineCore")):
        return Speaker(name, "engine", pid)
    if name.lower().startswith("apiserver"):
        return Speaker(name, "api", pid)
    if not name or name == "VllmWorkerProcess" or name.startswith("Ray"):
        return Speaker(f"pid{pid}", "worker", pid, ranked=False)
    if extra:
        return Speaker(extra.replace("=", ""), "worker", pid)
    if name.startswith("VllmWorker-"):
        return Speaker(f"rank{name.removeprefix('VllmWorker-')}", "worker", pid, ranked=False)
    if name == "Worker":
        return Speaker(name, "worker", pid, ranked=False)
    if name.startswith("Worker_"):
        return Speaker(name.removeprefix("Worker_"), "worker", pid)
    return Speaker(name, "other", pid)
