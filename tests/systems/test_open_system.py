"""How the names of systems are read."""

from pathlib import Path
from typing import Any

import pytest

from fluvial.dsl.errors import UsageError
from fluvial.runtime.systems import KafkaSystem, LogSystem, MemorySystem, open_system


def test_a_log_is_named_by_its_directory(tmp_path: Path) -> None:
    system = open_system(f"log:{tmp_path / 'data'}")
    assert isinstance(system, LogSystem)
    assert system.url == f"log:{tmp_path / 'data'}"
    assert not (tmp_path / "data").exists()


def test_each_memory_is_a_new_one() -> None:
    first, second = open_system("memory:"), open_system("memory:")
    first.admin().create("clicks", 1)
    assert (first.url, second.admin().streams()) == ("memory:", {})


def test_a_system_is_itself() -> None:
    memory = MemorySystem()
    assert open_system(memory) is memory


def test_a_cluster_is_named_by_its_brokers() -> None:
    system = open_system("kafka://one:9092,two:9093")
    assert isinstance(system, KafkaSystem)
    assert system.url == "kafka://one:9092,two:9093"


@pytest.mark.parametrize("url", ["", "log", "log:", "memory", "memory:x", "redis://host", "/tmp/data"])
def test_other_forms_are_refused_with_those_that_are_known(url: str) -> None:
    with pytest.raises(UsageError, match=r"names no system\n.*\n  expected: log:DIR .*, kafka://HOST:PORT, or memory:"):
        open_system(url)


def test_what_is_no_system_is_refused() -> None:
    folder: Any = Path("data")
    with pytest.raises(UsageError, match="is no system"):
        open_system(folder)
