"""A system as data opens as the same system in another process."""

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import json

from explained import assert_explains, error_of
from fluvial.dsl import UsageError
from fluvial.runtime.systems import KafkaSystem, LogSystem, MemorySystem, System
from fluvial.runtime.systems.open import Opening, opened, opening


def again(system: System) -> System:
    return opened(json.decode(json.encode(opening(system)), type=Opening))


@pytest.mark.parametrize("fsync", [True, False])
def test_a_log(tmp_path: Path, fsync: bool) -> None:
    found = again(LogSystem(tmp_path, fsync=fsync))
    assert isinstance(found, LogSystem)
    assert (found.directory, found.fsync) == (tmp_path, fsync)


def test_a_cluster_with_all_its_settings() -> None:
    conf: dict[str, Any] = {"sasl.password": "secret", "socket.keepalive.enable": True, "fetch.min.bytes": 2}
    times = {"reach_within": timedelta(seconds=1.5), "give_up_after": timedelta(seconds=2)}
    system = KafkaSystem("one:9092,two:9092", conf=conf, topics={"replication.factor": 3}, **times)
    found = again(system)
    assert isinstance(found, KafkaSystem)
    assert found.settings == system.settings


def test_what_lies_in_this_process_is_refused() -> None:
    functions = KafkaSystem("one:9092")
    functions.settings = replace(functions.settings, conf={"oauth_cb": lambda _: ("", 0.0)})
    for system in (MemorySystem(), functions):
        wrong = f"{system.url} cannot be opened by another process"
        assert_explains(error_of(partial(opening, system), UsageError), wrong, None, "log:DIR, or kafka://")
