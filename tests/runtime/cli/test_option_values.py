"""Options of several parts are taken apart, and wrong ones are told as they were written."""

from datetime import timedelta
from pathlib import Path

import pytest

from fluvial.dsl import UsageError
from fluvial.runtime.cli.option_values import (
    elasticity_of,
    group_by_of,
    named_system,
    pairs,
    parsed_count,
    parsed_duration,
    read_properties,
    size,
    values_by_stream,
)
from fluvial.runtime.systems import KafkaSystem


def test_pairs_are_split_at_the_first_sign() -> None:
    assert pairs("--input", ["a=b=c", "d=-"], "STREAM=FILE", str) == {"a": "b=c", "d": "-"}


def test_a_split_is_that_of_all_stages_or_of_each_by_name() -> None:
    assert (elasticity_of([]), elasticity_of(["4"])) == (None, 4)
    assert elasticity_of(["clicks=2", "visits=8"]) == {"clicks": 2, "visits": 8}
    with pytest.raises(UsageError, match=r"--elasticity 0\n"):
        elasticity_of(["0"])


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        (["stream"], "--group-by stream"),
        (["clicks=stream"], "--group-by clicks=stream\n"),
        (["stream-partition", "clicks=partition"], "--group-by stream-partition"),
    ],
)
def test_a_wrong_grouping_is_reported(given: list[str], wrong: str) -> None:
    assert group_by_of([]) is None
    with pytest.raises(UsageError, match=wrong):
        group_by_of(given)


@pytest.mark.parametrize(
    ("given", "text", "remedy"),
    [
        (["clicks"], "clicks\n  at the command line\n  expected: STREAM=N", "before and after the ="),
        (["=4"], "=4\n  at the command line\n  expected: STREAM=N", "before and after the ="),
        (["a="], "a=\n  at the command line\n  expected: STREAM=N", "before and after the ="),
        (["a=x"], "a=x\n  at the command line\n  expected: STREAM=N: a whole number", "write --partitions STREAM=N"),
        (["a=0"], "a=0\n  at the command line\n  expected: STREAM=N: a whole number", "write --partitions STREAM=N"),
        (["a=1", "a=2"], "a=2\n  at the command line\n  expected: each name once", "leave out one of them"),
    ],
)
def test_pairs_that_are_wrong(given: list[str], text: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        pairs("--partitions", given, "STREAM=N", parsed_count)
    assert str(caught.value).startswith(f"--partitions {text}")
    assert remedy in str(caught.value).rpartition("\n  to do: ")[2]


@pytest.mark.parametrize(
    ("text", "ms"), [("500ms", 500), ("2s", 2000), ("1.5min", 90_000), ("1 h", 3_600_000), ("1d", 86_400_000)]
)
def test_durations(text: str, ms: int) -> None:
    assert parsed_duration("--commit-interval", text) == timedelta(milliseconds=ms)


@pytest.mark.parametrize("text", ["500", "5m", "-1s", "", "1s2s"])
def test_durations_need_a_unit(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parsed_duration("--commit-interval", text)
    assert str(caught.value) == (
        f"--commit-interval {text}\n  at the command line\n  expected: a number with a unit: ms, s, min, h or d\n"
        "  to do: write --commit-interval 500ms"
    )


def test_a_file_of_properties_is_read_line_by_line(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# how to reach the cluster\n\nsecurity.protocol = sasl_ssl\nsasl.password=a=b#c\n"
        "topics.replication.factor=3\ntopic.metadata.refresh.interval.ms=1000\n"
    )
    assert read_properties(file) == {
        "conf": {
            "security.protocol": "sasl_ssl",
            "sasl.password": "a=b#c",
            "topic.metadata.refresh.interval.ms": "1000",
        },
        "topics": {"replication.factor": "3"},
    }


def test_a_line_that_is_no_property_is_named_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=5\nopen sesame\n")
    with pytest.raises(UsageError, match=r"client.properties, line 2\n.*\n  expected: NAME=VALUE") as caught:
        read_properties(file)
    assert "sesame" not in str(caught.value)


def test_a_file_of_properties_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"(?s)--kafka-conf .*nothing.*expected: a text file"):
        read_properties(tmp_path / "nothing")


def test_a_cluster_has_the_settings_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=5\ntopics.replication.factor=3\n")
    made = named_system("kafka://one:9092", file)
    assert isinstance(made, KafkaSystem)
    assert (made.url, made.settings.conf) == ("kafka://one:9092", {"linger.ms": "5"})
    assert made.settings.topics == {"replication.factor": "3"}


@pytest.mark.parametrize("url", [None, "log:.fluvial"])
def test_settings_of_kafka_are_for_kafka(tmp_path: Path, url: str | None) -> None:
    with pytest.raises(UsageError, match="--kafka-conf with"):
        named_system(url, tmp_path)


def test_without_settings_a_system_is_opened_by_its_url() -> None:
    assert named_system(None, None) is None
    assert named_system("memory:", None).url == "memory:"


@pytest.mark.parametrize(
    ("text", "bytes"), [("1B", 1), ("500kB", 500_000), ("64 MB", 64_000_000), ("1.5GiB", 3 << 29), ("2KiB", 2048)]
)
def test_sizes(text: str, bytes: int) -> None:
    assert size("--max-line", text) == bytes


@pytest.mark.parametrize("text", ["9" * 20 + "s", "9" * 400 + "d"])
def test_a_duration_that_is_too_long_is_reported(text: str) -> None:
    with pytest.raises(UsageError, match="expected: a duration of less than 1,000,000,000 d"):
        parsed_duration("--commit-interval", text)


@pytest.mark.parametrize("text", ["64", "64mb", "-1MB", "MB", "1TB", "", "9" * 400 + "GB"])
def test_a_size_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--max-line"):
        size("--max-line", text)


def test_values_by_stream() -> None:
    assert values_by_stream("--key-field", []) == {}
    assert values_by_stream("--key-field", ["id", "orders=customer", "names=a.b"]) == {
        "": "id",
        "orders": "customer",
        "names": "a.b",
    }


@pytest.mark.parametrize("given", [["id", "of"], [""], ["orders=a", "orders=b"], ["=a"], ["orders="]])
def test_values_by_stream_that_are_none(given: list[str]) -> None:
    with pytest.raises(UsageError, match="--key-field"):
        values_by_stream("--key-field", given)
