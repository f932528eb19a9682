"""`read-log`."""

from __future__ import annotations

import json
from argparse import Namespace

from anvil_tui import exit_codes
from anvil_tui.cli.output import Output
from anvil_tui.engines.startup_figures import flat, sources
from anvil_tui.engines.startup_log import StartupLog
from anvil_tui.errors import BadInput, Fault
from anvil_tui.locations import Locations
from anvil_tui.records.startup_report import StartupReport

_CHUNK = 1 << 20


def read_log(arguments: Namespace, _: Locations, output: Output) -> int:
    """Read a start-up log; exit 1 where a line with figures was not understood."""
    path = arguments.file
    log = StartupLog(arguments.engine)
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                log.feed(chunk)
    except OSError as error:
        raise BadInput(str(path), Fault("file", error.strerror or str(error), "a readable log file")) from None
    log.finish()
    report = log.report()
    if report.engine == "unknown" or _says_nothing(report):
        raise BadInput(
            str(path), Fault("log", "no engine's start-up log", "a log of vLLM, SGLang, llama.cpp or TensorRT-LLM")
        )
    earlier = log.attempts()[:-1]
    for one in earlier:
        output.line(f"attempt {one.attempt:<20} {one.state}{f': {one.failure.message}' if one.failure else ''}")
    for line in _lines(report, with_sources=arguments.lines):
        output.line(line)
    document = {"file": str(path), "engine": report.engine, **flat(report), "unread_count": report.unread_count}
    document["engine_version"] = report.engine_version.value if report.engine_version else None
    document["attempt"] = report.attempt
    document["earlier_attempts"] = [{"attempt": one.attempt, **flat(one)} for one in earlier]
    document["phases"] = [{"name": one.name, "seconds": one.seconds, "line": one.source.line} for one in report.phases]
    document["facts"] = {name: word.value for name, word in report.facts.items()}
    document["checks"] = report.checks
    document["unread"] = [{"line": one.source.line, "text": one.source.text} for one in report.unread]
    if arguments.lines:
        found = sources(report)
        document["lines"] = {
            name: [{"line": one.line, "text": one.text} for one in lines] for name, lines in found.items()
        }
    output.document("anvil-cli-read-log/v1", document)
    return exit_codes.CHECK_FAILED if report.unread_count else exit_codes.GOOD


def _says_nothing(report: StartupReport) -> bool:
    """Whether not one line of the file was understood: it is no log of this engine."""
    figures = {name: value for name, value in flat(report).items() if name not in ("state", "ranks")}
    return not (report.phases or report.facts or report.engine_version or report.unread_count or any(figures.values()))


def _lines(report: StartupReport, *, with_sources: bool) -> list[str]:
    version = f" {report.engine_version.value}" if report.engine_version else ""
    lines = [f"engine                       {report.engine}{version}"]
    found = sources(report)
    for name, value in flat(report).items():
        if value is None or name == "extra":
            continue
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"{name:<28} {shown}")
        if with_sources:
            lines += [
                f"    line {source.line}: {source.text}"
                for key, behind in found.items()
                if key == name or key.startswith(f"{name}.")
                for source in behind
            ]
    for phase in report.phases:
        took = "" if phase.seconds is None else f" ({phase.seconds:g} s)"
        lines.append(f"phase  line {phase.source.line:>6}  {phase.name}{took}")
    for check in report.checks:
        word = "holds" if check.holds else f"DOES NOT HOLD, {check.left - check.right:+.2f} are left over"
        lines.append(f"check  {check.rank}: {check.rule}: {check.left:.2f} and {check.right:.2f}: {word}")
    if report.unread_count:
        lines.append(f"{report.unread_count} lines with figures were not understood:")
        lines += [f"    line {one.source.line}: {one.source.text}" for one in report.unread]
    return lines
