"""The verb `compare`: files of two arms in, a document out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from anvil_tui.clock import utc_now
from anvil_tui.errors import BadInput, Fault
from anvil_tui.evidence.arms.inputs import read_arms
from anvil_tui.evidence.documents.change import change_document
from anvil_tui.evidence.documents.decision import TEMPLATE
from anvil_tui.evidence.documents.paired import FIELDS, paired_document
from anvil_tui.records.comparison import VerdictRule

Kind = Literal["paired", "change"]


def compare(
    baseline_name: str,
    baseline_paths: Sequence[Path],
    candidate_name: str,
    candidate_paths: Sequence[Path],
    kind: Kind = "paired",
    *,
    at: int | None = None,
    rule: VerdictRule | None = None,
    template: str = TEMPLATE,
    generated_at: str | None = None,
) -> dict[str, Any]:
    """Compare two arms from any of their artifacts, campaign folders, bundles or imported files.

    `paired` gives `paired-capacity-comparison/v1`, `change` gives `controlled-change/v1`; `at` is a context length in
    tokens that the change's next test asks about. Raises BadInput that names the file or argument.
    """
    for argument, name in (("--baseline-name", baseline_name), ("--candidate-name", candidate_name)):
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name) or name in FIELDS:
            raise BadInput(argument, Fault("name", repr(name), "a word of letters, digits, . _ - that is no field"))
    if baseline_name == candidate_name:
        raise BadInput("--candidate-name", Fault("name", repr(candidate_name), "another name than the baseline's"))
    for argument, files in (("--baseline", baseline_paths), ("--candidate", candidate_paths)):
        if not files:
            raise BadInput(argument, Fault("files", "none", "at least one artifact, folder or bundle"))
    if at is not None and at < 1:
        raise BadInput("--at", Fault("tokens", str(at), "a whole number above 0"))
    baseline, candidate = read_arms([(baseline_name, baseline_paths), (candidate_name, candidate_paths)])
    when = generated_at or utc_now()
    if kind == "change":
        return change_document(baseline, candidate, generated_at=when, at=at)
    return paired_document(baseline, candidate, generated_at=when, rule=rule or VerdictRule(), template=template)
