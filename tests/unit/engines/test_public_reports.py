"""The public reports that a watcher must survive: where each one is tested, or why no log can tell of it."""

from __future__ import annotations

import importlib

import pytest

FAILURES = "tests.unit.engines.test_failures"
LOGS = "tests.unit.engines.test_startup_log"
CASES = "tests.unit.engines.test_cases"
PREFIXES = "tests.unit.engines.test_prefixes"

ROWS: dict[int, tuple[str, str] | str] = {
    1: (FAILURES, "test_an_exit_that_nobody_asked_for_is_a_failure_whatever_its_code"),
    2: "a deadlocked server goes on logging as before: only a request with a deadline can tell",
    3: "admission is not logged: the capacity probe and the engine's counters can tell",
    4: (FAILURES, "test_a_taken_port_after_startup_complete_was_never_ready"),
    5: (FAILURES, "test_a_log_without_an_end_says_where_it_ended"),
    6: (LOGS, "test_each_attempt_is_a_report_of_its_own"),
    7: (FAILURES, "test_repeated_waits_are_counted_and_the_phase_stands"),
    8: (PREFIXES, "test_time_of_a_phase_is_the_logs_own"),
    9: (FAILURES, "test_cuda_error_999_while_peers_map_memory_is_nccls"),
    10: (FAILURES, "test_a_refused_host_pin_is_not_out_of_memory"),
    11: (CASES, "test_every_expected_value"),
    12: (FAILURES, "test_cause"),
    13: (FAILURES, "test_a_log_without_an_end_says_where_it_ended"),
    14: (FAILURES, "test_cause"),
    15: ("tests.unit.engines.test_dialects", "test_sglang_failures"),
    16: (FAILURES, "test_death_after_ready"),
    17: (FAILURES, "test_cause"),
    18: "memory that is held before a start is seen by the GPUs' own counters, not by this log",
    19: (PREFIXES, "test_each_part_between_carriage_returns_is_a_line_of_its_own"),
    20: (PREFIXES, "test_invalid_utf8_is_read_around"),
    21: "a container's health check writes no line of the engine",
    22: (FAILURES, "test_a_log_without_an_end_says_where_it_ended"),
}


@pytest.mark.parametrize("number", range(1, 23))
def test_every_public_report_has_its_test_or_its_reason(number: int) -> None:
    row = ROWS[number]
    if isinstance(row, str):
        assert len(row.split()) > 8
    else:
        module, name = row
        assert callable(getattr(importlib.import_module(module), name))
