"""From Vega-Lite dicts to SVG that may stand in the page: drawn by a child, then held against a list of what may."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from xml.etree import ElementTree

from anvil_tui.evidence.report.markup import Html

TIMEOUT_S = 90.0
MISSING = "the plots need the extra `report`: pip install 'anvil-tui[report]'"
_ELEMENTS = frozenset({"svg", "g", "path", "rect", "line", "circle", "text", "tspan", "title", "defs", "clipPath"})
"""What Vega draws these plots with."""


@dataclass(frozen=True)
class Drawings:
    """SVG by name, and in words why the others are missing."""

    svg: dict[str, Html] = field(default_factory=dict)
    missing: str = ""


def draw(specs: Mapping[str, dict[str, Any]], timeout_s: float = TIMEOUT_S) -> Drawings:
    """Draw the charts in a child process; whatever becomes of it, the caller gets what was drawn and words."""
    if not specs:
        return Drawings()
    if find_spec("vl_convert") is None:
        return Drawings(missing=MISSING)
    asked = "".join(json.dumps({"name": name, "spec": spec}) + "\n" for name, spec in specs.items())
    words = ""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "anvil_tui.evidence.report.renderer"],
            input=asked.encode(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        out = done.stdout
        if done.returncode != 0:
            words = f"the drawing process ended with {done.returncode}"
    except subprocess.TimeoutExpired as expired:
        out, words = expired.stdout or b"", f"drawing took longer than {timeout_s:g} s"
    except OSError as error:
        return Drawings(missing=f"the plots could not be drawn: {error.strerror}")
    drawn: dict[str, Html] = {}
    for answer in _answers(out):
        if "svg" in answer:
            try:
                drawn[answer["name"]] = inline(answer["svg"], answer["name"])
            except ValueError as error:
                words = words or f"{answer['name']}: {error}"
        else:
            words = words or f"{answer['name']}: {answer['error']}"
    lacking = [name for name in specs if name not in drawn]
    return Drawings(drawn, f"not drawn: {', '.join(lacking)} ({words or 'no answer'})" if lacking else "")


def inline(svg: str, name: str) -> Html:
    """An SVG document as an element of the page: its ids made the plot's own, hidden parts dropped.

    Raises ValueError for anything but plain shapes and text: a script, a link, an image, a reference to elsewhere.
    """
    try:
        root = ElementTree.fromstring(svg)
    except ElementTree.ParseError as error:
        raise ValueError(f"no SVG: {error}") from None
    ids: dict[str, str] = {}
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        if element.tag not in _ELEMENTS:
            raise ValueError(f"an element <{element.tag}>, which no plot needs")
        if "id" in element.attrib:
            ids[element.attrib["id"]] = f"{name}-{len(ids) + 1}"
    for element in root.iter():
        for child in [one for one in element if one.get("display") == "none"]:
            element.remove(child)
        for key, value in element.attrib.items():
            element.set(key, _attribute(key, value, ids))
    root.attrib.pop("version", None)
    return Html(ElementTree.tostring(root, encoding="unicode"))


def _attribute(key: str, value: str, ids: Mapping[str, str]) -> str:
    if key.startswith("on") or key.endswith("href") or key == "style":
        raise ValueError(f"an attribute {key}, which no plot needs")
    if key == "id":
        return ids[value]
    if key.startswith("aria-") or "url(" not in value:
        return value
    target = re.fullmatch(r"url\(#([^()]+)\)", value)
    if target is None or target[1] not in ids:
        raise ValueError(f"a reference {value[:60]} to elsewhere")
    return f"url(#{ids[target[1]]})"


def _answers(out: bytes) -> Iterator[dict[str, Any]]:
    """Whole lines of the child; one that was cut off is no answer."""
    for line in out.splitlines():
        try:
            yield json.loads(line)
        except ValueError:
            continue
