"""Systems by their URLs, and what is loaded for one."""

import subprocess
import sys

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import UsageError
from fluvial.runtime.systems import KafkaSystem, LogSystem, MemorySystem, open_system


def test_a_url_names_a_system() -> None:
    assert isinstance(open_system("log:x"), LogSystem)
    assert isinstance(open_system("memory:"), MemorySystem)
    assert isinstance(open_system("kafka://localhost:1"), KafkaSystem)
    system = MemorySystem()
    assert open_system(system) is system


@pytest.mark.parametrize("url", ["log:", "redis://x", "", "memory"])
def test_another_is_refused(url: str) -> None:
    assert_explains(error_of(lambda: open_system(url), UsageError), f"{url!r} names no system", None, "log:DIR")


def test_a_worker_that_needs_neither_kafka_nor_rocksdb_loads_none() -> None:
    looks = "import sys; import fluvial.runtime.systems.log.reader, fluvial.runtime.state.memory; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", looks], capture_output=True, text=True, check=True).stdout.split()
    assert "fluvial.runtime.systems.log.reader" in loaded
    assert not {"confluent_kafka", "rocksdict"} & {*loaded}
