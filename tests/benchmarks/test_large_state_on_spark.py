"""What a state on Spark writes and holds, small here; `make large-state-on-spark` takes ten million keys."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from benchmarks.large_state_on_spark import TOUCHES, large, written
from benchmarks.topics import Topics

if TYPE_CHECKING:
    from kafka.broker import Broker


def test_bytes_are_counted_by_version_over_all_partitions(tmp_path: Path) -> None:
    for name, size in {
        "state/0/0/1.changelog": 10,
        "state/0/1/1_a1b2-c3.changelog": 5,
        "state/0/0/2.zip": 7,
        "state/0/0/.2.zip.crc": 100,
        "state/0/_metadata/schema": 100,
        "offsets/1": 100,
    }.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x" * size)
    assert written(tmp_path) == {1: 15, 2: 7}


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(1200)
def test_all_comes_out_once_and_few_touched_keys_write_little(broker: "Broker") -> None:
    topics = Topics(broker.address)
    try:
        # With fewer keys the pages of a bucket have less than the 16 KiB from which on changes are written alone.
        found = large(topics, 200_000)
    finally:
        topics.close()
    assert found.output_correct
    assert (found.fill.messages_per_batch, found.touch.messages_per_batch) == (200_000, 2_000)
    assert found.touch.batches >= TOUCHES
    assert 0 < found.touch.megabytes_per_batch < found.fill.megabytes_per_batch / 2
    assert found.touch.peak_rss_mb > 100
