"""Settings that variables of the environment give."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from fluvial.dsl import UsageError
from fluvial.planner import Settings
from fluvial.runtime.cli.named_settings import assigned_settings, environment_settings, variable_of
from fluvial.runtime.cli.run_verb import RunArguments, run_options
from fluvial.runtime.cli.settings_file import FILE, settings_with

GIVEN: Mapping[str, tuple[str, Any]] = {
    "guarantee": ("exactly_once", "exactly_once"),
    "commit_interval": ("500ms", timedelta(milliseconds=500)),
    "standbys": ("0", 0),
    "elasticity": ("clicks=2,visits=8", {"clicks": 2, "visits": 8}),
    "group_by": ("stream-partition", "stream-partition"),
    "cached_bytes": ("64MB", 64_000_000),
    "rocksdb_buffer_bytes": ("65536", 65536),
    "event_loop": ("uvloop", "uvloop"),
    "forget_at_end": ("True", True),
    "group_offsets": ("0", False),
    "state_dir": ("/data/a,b=c", "/data/a,b=c"),
    "spark_buckets": ("64", 64),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_variable_gives_the_setting_of_its_name(name: str) -> None:
    text, value = GIVEN[name]
    assert environment_settings({variable_of(name): text}) == {name: value}
    assert getattr(Settings(**{name: value}), name) == value


def test_each_setting_has_a_variable() -> None:
    for name in get_type_hints(Settings):
        with pytest.raises(UsageError, match=variable_of(name)):
            environment_settings({f"{variable_of(name)}S": "1"})


def test_variables_of_other_programs_and_empty_ones_give_nothing() -> None:
    others = {"HOME": "/root", "FLUVIAL_UMASK": "027", "FLUVIAL_WHEEL": "x", "COMMIT_INTERVAL": "2s"}
    # Kubernetes gives the pods beside a service `fluvial-state` such variables.
    others |= {"FLUVIAL_STATE": "x", "FLUVIAL_STATE_PORT": "tcp://1:2", "FLUVIAL_STANDBYS_PORT": "tcp://1:2"}
    assert environment_settings({**others, "FLUVIAL_STATE_DIR": ""}) == {}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("guarantee", "once", "'at_least_once' or 'exactly_once'"),
        ("commit_interval", "2", "a number with a unit: ms, s, min, h or d"),
        ("cached_bytes", "64mb", "a number with a unit: B, kB"),
        ("standbys", "-1", "a whole number, 0 or more"),
        ("standbys", "two", "a whole number, 0 or more"),
        ("elasticity", "3", "1, 2, 4, 8, 16, 32 or 64"),
        ("elasticity", "clicks=2,visits=x", "a whole number, 1 or more"),
        ("group_by", "stream", "partition or stream-partition"),
        ("forget_at_end", "yes", "True or False"),
        ("spark_buckets", "5000", "a whole number from 1 to 4096"),
    ],
)
def test_a_wrong_value_is_named_by_its_variable(name: str, text: str, expected: str) -> None:
    with pytest.raises(UsageError) as caught:
        environment_settings({variable_of(name): text})
    first, where, wanted, remedy = str(caught.value).splitlines()
    assert (first, where) == (f"{variable_of(name)}={text}", "  at the environment")
    assert expected in wanted
    assert variable_of(name) in remedy


def test_an_option_beats_the_environment_and_that_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text('[settings]\nstate_dir = "file"\nspark_buckets = 8\nstandbys = 1\n')
    monkeypatch.setenv("FLUVIAL_STATE_DIR", "environment")
    monkeypatch.setenv("FLUVIAL_SPARK_BUCKETS", "16")
    assert settings_with(state_dir="option") == Settings(state_dir="option", spark_buckets=16, standbys=1)


def test_set_gives_settings_by_name() -> None:
    assert assigned_settings(["cached_bytes=64MB", "forget_at_end=true"]) == {
        "cached_bytes": 64_000_000,
        "forget_at_end": True,
    }
    with pytest.raises(UsageError, match=r"(?s)--set cached_byte=1\n.*did you mean cached_bytes\?"):
        assigned_settings(["cached_byte=1"])
    with pytest.raises(UsageError, match=r"--set standbys=-1\n  at the command line\n  expected: a whole number, 0"):
        assigned_settings(["standbys=-1"])


def test_a_run_that_sizes_itself_takes_no_elasticity_by_set() -> None:
    arguments = RunArguments(target="p.py", autosize="on", containers="1..2", assigned=["elasticity=4"])
    with pytest.raises(UsageError, match=r"(?s)--autosize with --set elasticity.*write --elasticity 1..16"):
        run_options(arguments)


def test_a_run_that_sizes_itself_passes_over_no_elasticity_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUVIAL_ELASTICITY", "4")
    arguments = RunArguments(target="p.py", autosize="on", containers="1..2", system="kafka://localhost:9092")
    with pytest.raises(UsageError, match=r"(?s)--autosize with elasticity=4 of the env.*write --elasticity 1..16"):
        run_options(arguments)
    chosen = run_options(replace(arguments, elasticity=["1..8"])).autosize
    assert chosen is not None
    assert chosen.elasticity == (1, 8)


def test_set_beats_the_environment_and_so_does_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLUVIAL_STATE_DIR", "environment")
    monkeypatch.setenv("FLUVIAL_STANDBYS", "1")
    assert settings_with(["state_dir=set"], standbys=3) == Settings(state_dir="set", standbys=3)
