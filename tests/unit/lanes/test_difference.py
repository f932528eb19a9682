"""Two lanes compare as they would be launched: each functional difference once, operational ones apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anvil_tui.lanes.difference import covers, lane_difference
from anvil_tui.lanes.profile import Lane
from anvil_tui.records.lane import LaneProfile

BASE: dict[str, Any] = {
    "identity": {"model": "org/model", "engine": "vllm"},
    "recipe": {"max_model_len": 8192, "max_num_batched_tokens": 8192},
    "launch": {
        "kind": "process",
        "argv": [
            "vllm", "serve", "{identity.model}",
            "--max-num-batched-tokens", "{recipe.max_num_batched_tokens}",
            "--port", "{endpoint.port}", "--served-model-name={endpoint.served_name}",
        ],
        "env": {"MAX_MODEL_LEN": "{recipe.max_model_len}"},
    },
    "endpoint": {"base_url": "http://127.0.0.1:8001", "served_name": "one"},
    "gpus": {"source": "none"},
}  # fmt: skip
SITE = {"cache": "/data/cache"}


def lane(name: str = "lane", **tables: Any) -> Lane:
    """The base profile with whole tables or keys of them replaced; None removes a key."""
    data = msgspec.json.decode(msgspec.json.encode(BASE))
    for table, values in tables.items():
        for key, value in values.items():
            data[table][key] = value
            if value is None:
                del data[table][key]
    profile = msgspec.convert(data, LaneProfile)
    return Lane(name, Path(f"{name}.toml"), b"", profile, SITE)


def functional(baseline: Lane, candidate: Lane) -> dict[str, tuple[Any, Any]]:
    return {one.field: (one.baseline, one.candidate) for one in lane_difference(baseline, candidate).functional}


def argv(*more: str, without: int = 0) -> dict[str, Any]:
    return {"argv": [*BASE["launch"]["argv"][: len(BASE["launch"]["argv"]) - without], *more]}


RECIPE_4096 = {"max_model_len": 8192, "max_num_batched_tokens": 4096}
SPECULATION = {**BASE["recipe"], "speculation": {"method": "eagle", "tokens": 5}}


def test_a_lane_does_not_differ_from_itself() -> None:
    assert lane_difference(lane(), lane("other")) == lane_difference(lane(), lane())
    assert functional(lane(), lane()) == {}


def test_a_recipe_field_that_argv_says_counts_once() -> None:
    assert functional(lane(), lane(recipe=RECIPE_4096)) == {"recipe.max_num_batched_tokens": (8192, 4096)}


def test_operational_differences_stand_apart_with_the_words_of_documents() -> None:
    other = lane(endpoint={"base_url": "http://127.0.0.1:8002", "served_name": "two"})
    found = lane_difference(lane(), other)
    assert found.functional == ()
    assert [(one.field, one.baseline, one.candidate) for one in found.operational] == [
        ("port", "http://127.0.0.1:8001", "http://127.0.0.1:8002"),
        ("served model name", "one", "two"),
    ]


@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        # The same value, written out in one lane and rendered in the other.
        (argv("--max-model-len", "8192"), argv("--max-model-len", "{recipe.max_model_len}"), {}),
        (argv("--max-model-len", "8192"), argv("--max-model-len=8192"), {}),
        (argv("--max_model_len", "8192"), argv("--max-model-len", "8192"), {}),
        # The order of flags says nothing.
        (argv("--a", "1", "--b"), argv("--b", "--a", "1"), {}),
        (argv(), argv("--enforce-eager"), {"launch.argv.--enforce-eager": (None, True)}),
        (argv("--swap-space", "4"), argv("--swap-space", "8"), {"launch.argv.--swap-space": ("4", "8")}),
        (argv("--x", "{site.cache}/a"), argv("--x", "/data/cache/a"), {}),
        (argv("--x", "{site.cache}/a"), argv("--x", "/b"), {"launch.argv.--x": ("/data/cache/a", "/b")}),
        # A recipe field that only one lane passes on: the other one leaves it to the engine.
        (argv(), argv("--max-model-len", "8192"), {"launch.argv.--max-model-len": (None, "8192")}),
        ({"env": {"A": "1"}}, {"env": {"A": "2"}}, {"launch.env.A": ("1", "2")}),
        ({"env": {"A": "1"}}, {"env": {}}, {"launch.env.A": ("1", None)}),
        ({"cwd": "/a"}, {"cwd": "/b"}, {"launch.cwd": ("/a", "/b")}),
        ({"env_from": ["HF_TOKEN"]}, {}, {"launch.env_from": (("HF_TOKEN",), ())}),
        # The first word is by place.
        ({"argv": ["a", "--x"]}, {"argv": ["b", "--x"]}, {"launch.argv[0]": ("a", "b")}),
    ],
)  # fmt: skip
def test_texts_of_the_launch(
    baseline: dict[str, Any], candidate: dict[str, Any], expected: dict[str, tuple[Any, Any]]
) -> None:
    assert functional(lane(launch=baseline), lane(launch=candidate)) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8192", "4096"),
        ("{recipe.max_num_batched_tokens}", "4096"),
        ("8192", "{recipe.max_num_batched_tokens}"),
        ("8k", "4096"),
    ],
)
def test_literals_that_say_the_recipe_count_as_the_recipe(old: str, new: str) -> None:
    flag = "--max-num-batched-tokens"
    old_recipe = {"recipe": {"max_num_batched_tokens": 8000}} if old == "8k" else {}
    baseline = lane(launch={"argv": ["serve", flag, old]}, **old_recipe)
    candidate = lane(launch={"argv": ["serve", flag, new]}, recipe=RECIPE_4096)
    assert set(functional(baseline, candidate)) == {"recipe.max_num_batched_tokens"}


@pytest.mark.parametrize(
    ("more", "left"),
    [
        (("--spec-method", "eagle", "--spec-tokens", "5"), set()),
        (("--spec-method", "{recipe.speculation.method}", "--spec-tokens={recipe.speculation.tokens}"), set()),
        (("--speculative-config", '{"method": "eagle", "num_speculative_tokens": 5}'), set()),
        (
            ("--speculative-config", '{"method": "{recipe.speculation.method}", "num_speculative_tokens": 5}'),
            set(),
        ),
        # The draft's weights are no recipe field.
        (
            ("--speculative-config", '{"method": "eagle", "num_speculative_tokens": 5, "model": "draft"}'),
            {"launch.argv.--speculative-config"},
        ),
    ],
)
def test_speculation_that_one_lane_lacks_counts_as_the_recipe(more: tuple[str, ...], left: set[str]) -> None:
    found = functional(lane(), lane(launch=argv(*more), recipe=SPECULATION))
    assert set(found) == {"recipe.speculation.method", "recipe.speculation.tokens", *left}
    assert found["recipe.speculation.tokens"] == (None, 5)


def test_a_json_object_compares_by_its_keys() -> None:
    config = '{"num_speculative_tokens": %d, "method": "eagle"}'
    other = {**BASE["recipe"], "speculation": {"method": "eagle", "tokens": 3}}
    baseline = lane(launch=argv("--speculative-config", config % 5), recipe=SPECULATION)
    candidate = lane(launch=argv("--speculative-config", config % 3), recipe=other)
    assert functional(baseline, candidate) == {"recipe.speculation.tokens": (5, 3)}


def test_a_reference_that_only_one_lane_knows() -> None:
    """Rendered with the other lane's names it says nothing; rendered with its own it may be the same."""
    known = {**BASE["recipe"], "engine": {"block_size": 16}}
    candidate = lane(launch=argv("--block-size", "{recipe.engine.block_size}"), recipe=known)
    same = lane(launch=argv("--block-size", "16"))
    assert functional(same, candidate) == {"recipe.engine.block_size": (None, 16)}
    other = lane(launch=argv("--block-size", "32"))
    assert functional(other, candidate)["launch.argv.--block-size"] == ("32", "16")


def test_ports_and_names_written_out_are_operational() -> None:
    names = ("--port", "8001", "--served-model-name", "one"), ("--port", "8002", "--served-model-name", "two")
    baseline = lane(launch={"argv": ["serve", *names[0]]})
    candidate = lane(
        launch={"argv": ["serve", *names[1]]}, endpoint={"base_url": "http://127.0.0.1:8002", "served_name": "two"}
    )
    assert functional(baseline, candidate) == {}


def test_identity_and_gpus_are_functional() -> None:
    found = functional(lane(), lane(identity={"image": "x@sha256:1"}, gpus={"reserve_mib": 0}))
    assert found == {"identity.image": (None, "x@sha256:1"), "gpus.reserve_mib": (3072, 0)}


@pytest.mark.parametrize(
    ("declared", "field", "expected"),
    [
        ("recipe.speculation", "recipe.speculation.tokens", True),
        ("launch.argv", "launch.argv.--x", True),
        ("launch.argv", "launch.argv[0]", True),
        ("recipe.max", "recipe.max_model_len", False),
        ("recipe.speculation.tokens", "recipe.speculation", False),
    ],
)
def test_a_declared_path_covers_what_is_below_it(declared: str, field: str, expected: bool) -> None:
    assert covers(declared, field) is expected


WORDS = st.lists(
    st.sampled_from(["--a", "--b=1", "x", "1", "{recipe.max_model_len}", "--max-model-len", "{}"]), max_size=6
)


@settings(max_examples=80)
@given(WORDS, WORDS)
def test_differences_are_the_same_seen_from_either_side(old: list[str], new: list[str]) -> None:
    one, other = lane(launch={"argv": ["serve", *old]}), lane(launch={"argv": ["serve", *new]})
    there, back = functional(one, other), functional(other, one)
    assert there == {field: (new_value, old_value) for field, (old_value, new_value) in back.items()}
    assert (there == {}) or old != new
