"""`compare`, `explain-kv`."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

from anvil_tui import exit_codes
from anvil_tui.cli.output import Output
from anvil_tui.evidence import comparison
from anvil_tui.evidence.kv import reports
from anvil_tui.evidence.summary import summary_lines
from anvil_tui.locations import Locations


def compare(arguments: Namespace, _: Locations, output: Output) -> int:
    """Compare two arms from any of their files."""
    document = comparison.compare(
        arguments.baseline_name,
        arguments.baseline,
        arguments.candidate_name,
        arguments.candidate,
        arguments.kind,
        at=arguments.at,
    )
    return _print(document, output)


def explain_kv(arguments: Namespace, _: Locations, output: Output) -> int:
    """Say what the reported KV tokens of each start mean, and what changed between them."""
    return _print(reports.explain_kv(arguments.files, arguments.at), output)


def _print(document: dict[str, Any], output: Output) -> int:
    for line in summary_lines(document):
        output.line(line)
    output.document(document["schema"], document)
    return exit_codes.GOOD
