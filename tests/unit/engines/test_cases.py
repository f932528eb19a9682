"""Every case: the figures that its log holds, null where it says nothing."""

import pytest

from anvil_tui.engines.startup_figures import flat, sources
from anvil_tui.engines.startup_log import StartupLog
from tests.unit.engines.logs import CASES, case, report

OF_THE_FORMULA = {"explain"}
"""Not read but computed from what is read; `kv_capacity` has its own tests."""


@pytest.mark.parametrize("name", CASES)
def test_every_expected_value(name: str) -> None:
    log, wanted = case(name)
    found = flat(report(log))
    for key, value in wanted["expected"].items():
        if key == "extra":
            for part, one in value.items():
                if part not in OF_THE_FORMULA:
                    assert found["extra"].get(part) == one, part
        else:
            assert found[key] == value, key


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_unread_and_one_attempt_is_one(name: str) -> None:
    log, _ = case(name)
    reader = StartupLog()
    reader.feed(log)
    reader.finish()
    assert reader.report().unread == () and reader.report().unread_count == 0
    assert len(reader.attempts()) == 1


@pytest.mark.parametrize("name", CASES)
def test_every_figure_has_its_line(name: str) -> None:
    log, _ = case(name)
    lines = log.split(b"\n")
    found = report(log)
    for source in (source for group in sources(found).values() for source in group):
        assert log[source.offset :].startswith(source.text.encode()[:20]) or b"\x1b" in log
        assert source.offset >= len(b"\n".join(lines[: source.line - 1]))


def test_rendered_logs_say_that_their_invented_figures_do_not_add_up() -> None:
    broken = report(case("08-vllm-fork-r33-batch8192")[0]).checks
    assert [(check.rank, check.left, check.right, check.holds) for check in broken] == [
        ("TP0", 15.48, 15.27, False),
        ("TP1", 15.71, 15.5, False),
    ]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("11-vllm026-ds4-tp4-dspark-k5-progress-cr", "desired − consumed − peak = available"),
        ("12-vllm0231-gptoss-docker-timestamps", "desired − weights − peak − non-torch − graphs = available"),
        ("15-vllm08-v0-tp16-vllmworkerprocess", "desired − weights − peak − non-torch = available"),
        ("35-sglang-no-kv-left", "free before load − weights = free after load"),
        ("37-llamacpp-2024-kv-self-size", "KV − K − V = 0"),
    ],
)
def test_real_logs_add_up(name: str, rule: str) -> None:
    checks = report(case(name)[0]).checks
    assert checks and all(check.holds and check.rule == rule for check in checks)
