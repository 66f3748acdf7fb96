"""Settings of a command: options, then the file fluvial.toml."""

from datetime import timedelta
from pathlib import Path

import pytest

from explained import error_of
from fluvial.dsl import UsageError
from fluvial.planner import Settings
from fluvial.runtime.cli.run_verb import RunArguments, run_options
from fluvial.runtime.cli.settings_file import FILE, settings_with


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str) -> None:
    (folder / FILE).write_text(text)


def test_without_a_file_there_are_the_defaults() -> None:
    assert settings_with(state_dir=None) == Settings()


def test_an_option_beats_the_file_and_the_file_the_default(folder: Path) -> None:
    write(folder, '[settings]\nstate_dir = "here"\nspark_buckets = 64\nspark_trigger_interval = "2s"\n')
    expected = Settings(state_dir="there", spark_buckets=64, spark_trigger_interval=timedelta(seconds=2))
    assert settings_with(state_dir="there", spark_buckets=None) == expected


def test_a_setting_is_given_by_its_option_or_by_its_name() -> None:
    error = str(error_of(lambda: settings_with(["state_dir=here"], state_dir="there"), UsageError))
    assert "--set state_dir together with --state-dir" in error
    assert settings_with(["state_dir=here"], state_dir=None) == Settings(state_dir="here")


def test_durations_and_sizes_are_texts_with_a_unit(folder: Path) -> None:
    write(folder, '[settings]\ncommit_interval = "500ms"\ncached_bytes = "64MB"\nmax_staged_bytes = 1000\n')
    expected = Settings(commit_interval=timedelta(milliseconds=500), cached_bytes=64_000_000, max_staged_bytes=1000)
    assert settings_with() == expected


@pytest.mark.parametrize(
    ("text", "wrong", "remedy"),
    [
        ("[settings\n", "cannot be read", "correct it"),
        ("[setting]\n", "[setting]", "write settings under [settings]"),
        ("[settings]\nspark_bucket = 3\n", "spark_bucket", "did you mean spark_buckets?"),
        ("[settings]\nspark_buckets = 5000\n", "spark_buckets=5000", "4096"),
        ('[settings]\nspark_patience = "soon"\n', "spark_patience soon", "500ms"),
        ("[settings]\nspark_patience = 3\n", "spark_patience=3", "a timedelta"),
    ],
)
def test_a_wrong_file_is_refused_by_its_name(folder: Path, text: str, wrong: str, remedy: str) -> None:
    write(folder, text)
    error = str(error_of(settings_with, UsageError))
    assert FILE in error
    assert wrong in error
    assert remedy in error


def test_every_setting_of_spark_is_an_option_of_a_run() -> None:
    options = run_options(
        RunArguments(
            target="p.py",
            engine="spark",
            system="log:x",
            state_dir="s",
            spark_buckets=64,
            spark_shuffle_partitions=8,
            spark_batch_records=10,
            spark_batch_duration="3s",
            spark_trigger_interval="2s",
            spark_patience="1min",
            spark_message_ids=True,
        )
    )
    assert options.settings == Settings(
        state_dir="s",
        spark_buckets=64,
        spark_shuffle_partitions=8,
        spark_batch_records=10,
        spark_batch_duration=timedelta(seconds=3),
        spark_trigger_interval=timedelta(seconds=2),
        spark_patience=timedelta(minutes=1),
        spark_message_ids=True,
    )
    assert {name for name in Settings.__struct_fields__ if name.startswith("spark_")} <= set(
        RunArguments.__annotations__
    )


def test_a_run_on_a_temporary_log_does_not_use_the_folder_of_the_file(folder: Path) -> None:
    write(folder, '[settings]\nstate_dir = "here"\n')
    assert run_options(RunArguments(target="p.py", inputs=["in=file"])).settings.state_dir is None
    assert run_options(RunArguments(target="p.py", system="log:x")).settings.state_dir == "here"
