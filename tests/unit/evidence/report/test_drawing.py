"""Drawing: what the child gives is held against a list before it may stand in the page."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from anvil_tui.evidence.report import drawing
from anvil_tui.evidence.report.charts.ladder import ladder_chart
from anvil_tui.evidence.report.drawing import MISSING, draw, inline
from tests.unit.evidence.samples import artifact, request

SVG = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9">{}</svg>'
drawn = pytest.mark.skipif(importlib.util.find_spec("vl_convert") is None, reason="the extra `report` is not installed")


def test_ids_become_those_of_the_plot_and_hidden_parts_go() -> None:
    body = (
        '<g clip-path="url(#clip7)"><path d="M0"/><path display="none" d="M1"/></g>'
        '<defs><clipPath id="clip7"><rect/></clipPath></defs>'
    )
    one = inline(SVG.format(body), "ladder")
    assert one == (
        '<svg width="9"><g clip-path="url(#ladder-1)"><path d="M0" /></g>'
        '<defs><clipPath id="ladder-1"><rect /></clipPath></defs></svg>'
    )


@pytest.mark.parametrize(
    "body",
    [
        "<script>alert(1)</script>",
        '<a href="http://x"><text>x</text></a>',
        '<image href="http://x/y.png"/>',
        "<foreignObject/>",
        '<rect onload="x()"/>',
        '<rect xlink:href="#a"/>',
        '<rect fill="url(http://x/y.svg#z)"/>',
        '<rect fill="url(#nowhere)"/>',
        '<rect style="background: url(http://x)"/>',
        "<rect",
    ],
)
def test_anything_but_shapes_and_text_is_refused(body: str) -> None:
    with pytest.raises(ValueError, match=r"element|attribute|reference|no SVG"):
        inline(SVG.format(body), "plot")


def test_a_text_that_looks_like_a_reference_stays_a_text() -> None:
    one = inline(SVG.format('<text aria-label="url(http://x)">url(http://x) &lt;script&gt;</text>'), "plot")
    assert "&lt;script&gt;" in one


def test_without_the_extra_the_words_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    missing = draw({"ladder": {}})
    assert missing.svg == {} and missing.missing == MISSING and "'anvil-tui[report]'" in MISSING
    assert draw({}).missing == ""


@drawn
def test_a_chart_is_drawn_and_a_broken_one_says_why() -> None:
    runs = [artifact("a-r1", (request(),), lane="<b>&lane", target_tokens=1000)]
    spec = ladder_chart(runs, ["<b>&lane"], rehearsal=True)
    assert spec is not None
    found = draw({"ladder": spec, "broken": {"mark": 7}})
    assert set(found.svg) == {"ladder"}
    assert found.missing.startswith("not drawn: broken (")
    assert "REHEARSAL" in found.svg["ladder"] and "http" not in found.svg["ladder"]
    assert draw({"ladder": spec}).svg == {"ladder": found.svg["ladder"]}


@drawn
def test_a_time_out_leaves_tables() -> None:
    found = draw({"ladder": {"mark": "point"}}, timeout_s=0.001)
    assert found.svg == {} and "longer than 0.001 s" in found.missing


@drawn
def test_the_child_fetches_nothing() -> None:
    spec = {"data": {"url": "http://127.0.0.1:9/x.json"}, "mark": "point"}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "anvil_tui.evidence.report.renderer"],
        input=json.dumps({"name": "x", "spec": spec}).encode() + b"\n",
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert "127.0.0.1" not in json.loads(done.stdout).get("svg", "")
