"""A state that is lost and restored, small here; `make large-state` takes ten million keys."""

from typing import TYPE_CHECKING

import pytest

from benchmarks.large_state import large
from benchmarks.topics import Topics

if TYPE_CHECKING:
    from kafka.broker import Broker


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "each"), [("window", 1), pytest.param("join", 2, marks=pytest.mark.long)])
def test_all_comes_out_once_though_the_state_was_lost(kind: str, each: int, broker: "Broker") -> None:
    topics = Topics(broker.address)
    try:
        found = large(topics, kind, 3_000, megabytes=512)
    finally:
        topics.close()
    assert found.output_correct
    assert (found.build.read, found.finish.read) == (3_000, 300)
    assert found.finish.restored >= 3_000 * each, "a row has a timer too"
    assert found.finish.restored_per_second > 0
    assert found.build.peak_rss_mb > 10
