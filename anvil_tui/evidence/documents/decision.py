"""The decision text, from a template that the operator edits: `$name` stands for a figure of the document."""

from __future__ import annotations

import string
from collections.abc import Mapping

from anvil_tui.errors import BadInput, Fault, nearest

TEMPLATE = (
    "$candidate against $baseline over $blocks: decode $decode, throughput $throughput, first output $first_output, "
    "E2E $e2e. Successful requests: $candidate $candidate_success, $baseline $baseline_success. VRAM reserve: "
    "$candidate $candidate_reserve, $baseline $baseline_reserve. Functional gate: $candidate $candidate_gate, "
    "$baseline $baseline_gate. $caveats. This text promotes nothing."
)


def decision_text(template: str, values: Mapping[str, str]) -> str:
    """Fill the template. Raises BadInput that names a placeholder that does not exist."""
    try:
        return string.Template(template).substitute(values).strip()
    except KeyError as error:
        name = str(error.args[0])
        close = nearest(name, values)
        raise BadInput(
            "decision template", Fault(f"${name}", "unknown placeholder", ", ".join(values), close)
        ) from None
    except ValueError as error:
        raise BadInput("decision template", Fault("placeholder", str(error), "$name, or $$ for a dollar")) from None
