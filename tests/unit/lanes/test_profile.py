"""Profiles: found, shadowed, rendered, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from anvil_tui.errors import BadInput
from anvil_tui.lanes import recipe
from anvil_tui.lanes.profile import all_lanes, decode_lane, find_lane
from anvil_tui.locations import Locations

PROFILE = """
[identity]
model = "org/model"
engine = "vllm"
[recipe]
max_model_len = 16384
max_num_batched_tokens = 4096
[recipe.engine]
block_size = 16
[launch]
kind = "process"
argv = ["{site.python}", "-m", "serve", "--max-model-len", "{recipe.max_model_len}", "--port", "{endpoint.port}"]
[launch.env]
MODEL = "{identity.model}"
[endpoint]
base_url = "http://127.0.0.1:8123"
served_name = "m"
[gpus]
source = "none"
"""
SITE = {"python": "/usr/bin/python3"}


def _faults(toml: str, name: str = "lane.toml") -> dict[str, str]:
    with pytest.raises(BadInput) as refused:
        decode_lane(Path(name), toml.encode(), SITE)
    return {fault.place: str(fault) for fault in refused.value.faults}


def test_references_are_rendered_from_the_profile_and_the_site() -> None:
    lane = decode_lane(Path("lane.toml"), PROFILE.encode(), SITE)
    names = lane.names()
    launch = lane.profile.launch
    argv = [recipe.render(text, names) for text in getattr(launch, "argv")]  # noqa: B009
    assert argv == ["/usr/bin/python3", "-m", "serve", "--max-model-len", "16384", "--port", "8123"]
    assert recipe.render("{identity.model}:{recipe.engine.block_size}", names) == "org/model:16"
    assert recipe.render('{"method": {"a": {recipe.max_model_len}}}', names) == '{"method": {"a": 16384}}'


@pytest.mark.parametrize(
    ("old", "new", "place", "words"),
    [
        (
            "{recipe.max_model_len}",
            "{recipe.max_model_length}",
            "launch.argv[4]",
            "did you mean 'recipe.max_model_len'",
        ),
        ("{recipe.max_model_len}", "{recipe.max_num_seqs}", "launch.argv[4]", "is not set in this profile"),
        ("{site.python}", "{site.pyton}", "launch.argv[0]", "did you mean 'site.python'"),
        ("{recipe.max_model_len}", "8192", "launch.argv[3]", "contradicts recipe.max_model_len = 16384"),
        ("8123", "8123/v1", "endpoint.base_url", "without /v1"),
        ('source = "none"', 'source = "none"\npolicy = "waived"', "gpus.reason", "why the reserve is waived"),
        ('source = "none"', 'source = "rehearsal"', "gpus.source", "only with launch.kind"),
        ('MODEL = "{identity.model}"', 'HF_TOKEN = "abc"', "launch.env.HF_TOKEN", "launch.env_from"),
        ('"--port"', '"--api-key", "abc", "--port"', "launch.argv[5]", "literal secret"),
    ],
)
def test_what_is_refused(old: str, new: str, place: str, words: str) -> None:
    assert words in _faults(PROFILE.replace(old, new, 1))[place]


def test_a_literal_that_says_the_same_is_fine() -> None:
    decode_lane(Path("lane.toml"), PROFILE.replace("{recipe.max_model_len}", "16384").encode(), SITE)


def test_a_name_that_no_path_should_bear() -> None:
    assert "file name" in _faults(PROFILE, "My Lane!.toml")


def test_fields_that_reach_no_engine_are_declared_only() -> None:
    lane = decode_lane(Path("lane.toml"), PROFILE.encode(), SITE)
    origins = recipe.origins(lane.profile, frozenset())
    assert origins == {
        "max_model_len": "rendered",
        "max_num_batched_tokens": "declared only",
        "engine.block_size": "declared only",
    }


@pytest.fixture
def locations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Locations:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Locations.default(state=tmp_path / "state", profiles=tmp_path / "own")


def test_own_profiles_shadow_shipped_ones(locations: Locations) -> None:
    shipped = find_lane("rehearsal-batch8192", locations)
    assert shipped.rehearsal and shipped.shadows is None
    own = locations.profiles / "lanes" / "rehearsal-batch8192.toml"
    own.parent.mkdir(parents=True)
    own.write_bytes(shipped.raw)
    lane = find_lane("rehearsal-batch8192", locations)
    assert lane.path == own and lane.shadows == shipped.path


def test_an_unknown_lane_names_the_nearest(locations: Locations) -> None:
    with pytest.raises(BadInput, match="did you mean 'rehearsal-batch8192'"):
        find_lane("rehearsal-batch8193", locations)


def test_one_bad_profile_does_not_hide_the_others(locations: Locations) -> None:
    folder = locations.profiles / "lanes"
    folder.mkdir(parents=True)
    (folder / "bad.toml").write_text("nonsense")
    found = all_lanes(locations)
    assert isinstance(found["bad"], BadInput) and not isinstance(found["rehearsal-control"], BadInput)
