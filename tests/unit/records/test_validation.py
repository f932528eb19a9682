"""Every fault of an input is told at once, with its place, what was found and what would be right."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.errors import BadInput
from anvil_tui.records.lane import LaneProfile
from anvil_tui.records.validation import convert, decode_toml, read_toml

GOOD = """
[identity]
model = "m"
engine = "vllm"
[launch]
kind = "process"
argv = ["serve"]
[endpoint]
base_url = "http://127.0.0.1:8000"
served_name = "m"
"""


def _faults(toml: str) -> dict[str, tuple[str, str, str]]:
    with pytest.raises(BadInput) as refused:
        decode_toml(LaneProfile, toml.encode(), "lane.toml")
    assert refused.value.exit_code == 2
    assert all(line.startswith("lane.toml: ") for line in str(refused.value).splitlines())
    return {fault.place: (fault.found, fault.allowed, fault.nearest) for fault in refused.value.faults}


def test_a_good_profile_is_read() -> None:
    profile = decode_toml(LaneProfile, GOOD.encode(), "lane.toml")
    assert profile.gpus.reserve_mib == 3072
    assert profile.endpoint.margin == 1024


def test_an_unknown_key_names_the_nearest() -> None:
    found, allowed, nearest = _faults(GOOD + "[recipe]\nmax_model_length = 4096\n")["recipe.max_model_length"]
    assert found == "unknown key"
    assert nearest == "max_model_len"
    assert "max_num_seqs" in allowed


def test_a_reserve_with_a_unit_is_refused() -> None:
    found, allowed, _ = _faults(GOOD + '[gpus]\nreserve_mib = "3GB"\n')["gpus.reserve_mib"]
    assert found == "'3GB'"
    assert allowed == "a whole number from 0"


@pytest.mark.parametrize(
    ("added", "place", "found", "allowed"),
    [
        ("[recipe]\nmax_model_len = 0\n", "recipe.max_model_len", "0", "a whole number above 0"),
        ("[recipe]\nmax_model_len = 4096.5\n", "recipe.max_model_len", "4096.5", "a whole number above 0"),
        ("[recipe]\nmax_model_len = true\n", "recipe.max_model_len", "True", "a whole number above 0"),
        (
            "[recipe]\ngpu_memory_utilization = 1.5\n",
            "recipe.gpu_memory_utilization",
            "1.5",
            "a number above 0 up to 1",
        ),
        ('[gpus]\npolicy = "maybe"\n', "gpus.policy", "'maybe'", "enforce, off, waived"),
        (
            '[gpus]\ndevices = "0"\n',
            "gpus.devices",
            "'0'",
            "all or a whole number above 0 or a list of text that is not empty",
        ),
        ('[recipe.speculation]\nmethod = "x"\n', "recipe.speculation.tokens", "missing", "a whole number above 0"),
        ("[recipe.speculation]\nmethod = 1\ntokens = 5\n", "recipe.speculation.method", "1", "text that is not empty"),
    ],
)
def test_wrong_values(added: str, place: str, found: str, allowed: str) -> None:
    assert _faults(GOOD + added)[place][:2] == (found, allowed)


def test_all_faults_are_told_at_once() -> None:
    toml = GOOD.replace('engine = "vllm"', 'engine = "vlm"').replace("[endpoint]", "[endpont]")
    faults = _faults(toml + "[gpus]\nreserve_mib = -1\n")
    assert faults["identity.engine"][2] == "vllm"
    assert faults["endpont"][2] == "endpoint"
    assert faults["endpoint"][0] == "missing"
    assert faults["gpus.reserve_mib"][0] == "-1"


@pytest.mark.parametrize(
    ("launch", "place", "nearest"),
    [
        ('kind = "proces"\nargv = ["x"]', "launch.kind", "process"),
        ('argv = ["x"]', "launch.kind", ""),
        ('kind = "attach"\nlogs = "x"', "launch.logs", "log"),
        ('kind = "process"\nargv = []', "launch.argv", ""),
        ('kind = "process"\nargv = "serve"', "launch.argv", ""),
        ('kind = "process"\nargv = ["ok", 5]', "launch.argv[1]", ""),
        ('kind = "process"\nargv = ["x"]\n[launch.env]\nA = 1', "launch.env.A", ""),
    ],
)
def test_the_kind_of_launch_decides(launch: str, place: str, nearest: str) -> None:
    toml = GOOD.replace('kind = "process"\nargv = ["serve"]', launch)
    assert _faults(toml)[place][2] == nearest


def test_broken_syntax_names_the_line() -> None:
    found, allowed, _ = _faults("[identity\n")["syntax"]
    assert "line 1" in found and allowed == "TOML 1.0"


def test_bytes_that_are_no_text_name_the_byte() -> None:
    with pytest.raises(BadInput, match="byte 6: not UTF-8 text"):
        decode_toml(LaneProfile, b"about=\xff", "lane.toml")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        read_toml(LaneProfile, tmp_path / "none.toml")
    with pytest.raises(BadInput, match="Is a directory"):
        read_toml(LaneProfile, tmp_path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "identity", "launch", "x"]), inner)
    ),
    max_leaves=8,
)


@given(_JSON)
@settings(max_examples=200, deadline=None)
def test_any_data_is_read_or_refused(data: object) -> None:
    try:
        convert(LaneProfile, data, "data")
    except BadInput as refused:
        assert refused.faults
