"""A cluster, and what tests of it read and write with."""

import threading
from collections.abc import Callable

import pytest

from kafka.topic_fixtures import drain as drain
from kafka.topic_fixtures import kafka as kafka
from kafka.topic_fixtures import name as name


@pytest.fixture
def committing() -> Callable[[], int]:
    """Counts the threads that commit offsets for lag tools, without those that other tests have left."""
    before = threading.enumerate()
    return lambda: sum(thread.name == "fluvial-offsets" for thread in threading.enumerate() if thread not in before)
