"""The child that draws: one JSON line `{"name", "spec"}` in, one `{"name", "svg"}` or `{"name", "error"}` out.

A process of its own, since the library carries a JavaScript engine: it may crash, hang or grow without its caller.
"""

from __future__ import annotations

import json
import sys
from typing import Any

VEGA_LITE = "5.21"
"""Pinned: another version draws other bytes."""


def render(spec: dict[str, Any]) -> str:
    """The SVG of a Vega-Lite dict. Raises ValueError where it cannot be drawn, ImportError without the extra."""
    import vl_convert  # The extra `report`; this file is imported where it is missing, too.

    svg: str = vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE, allowed_base_urls=[])
    return svg


def main() -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer = {"name": asked["name"], "svg": render(asked["spec"])}
        except ValueError as error:
            answer = {"name": asked["name"], "error": str(error)[:400]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
