"""Containers on a broker come, go, die and change, runs begin anew, and readers see what the oracle writes: in 1,000
random stories, of which each seed gives the same ones again."""

import logging
import time
from contextlib import nullcontext
from datetime import timedelta
from tempfile import TemporaryDirectory
from typing import get_args
from unittest.mock import patch
from uuid import uuid4

import pytest
from hypothesis import Phase, given, seed, settings

from engines.live_containers import in_haste
from engines.namespaces import Namespace
from engines.restless_run import Story, Surroundings, check_written, stories, written
from engines.targets import PATIENT
from fluvial.planner.settings import Guarantee
from fluvial.runtime.local import engine
from fluvial.runtime.systems import KafkaSystem
from generators.draft import Extra
from kafka.broker import Broker

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]

SEEDS, STORIES = 25, 20
"""Of each guarantee so many seeds, and of each seed so many stories."""

CONF = {"transaction.timeout.ms": 600_000}
"""Random calls may take longer than brokers let a transaction be open, and never do."""


def tell(broker: Broker, story: Story) -> float:
    """Let a story happen in topics of its own, which are removed behind it; the seconds that it took."""
    began, kafka = time.monotonic(), KafkaSystem(broker.address, conf=CONF)
    system = Namespace(kafka, f"{uuid4().hex[:8]}.")
    with TemporaryDirectory() as folder, patch.object(engine, "reduced_gc", nullcontext):
        try:
            on = Surroundings(in_haste, patience=0.02, longest=timedelta(seconds=20), state_dir=folder)
            check_written(written(system, story, on), story)
            return time.monotonic() - began
        finally:
            broker.remove_topics(*(system.prefix + stream for stream in system.admin().streams()))


@pytest.mark.parametrize("number", range(SEEDS))
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_readers_see_what_the_oracle_writes_whatever_happens_to_containers(
    broker: Broker, guarantee: Guarantee, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)  # warnings of times of long ago, and of changes that are meant
    took: list[float] = []

    @seed(number)
    @settings(
        max_examples=STORIES,
        phases=[Phase.generate],  # what brokers do is not the same again, so that nothing could be made smaller
        database=None,
        deadline=None,
        derandomize=False,
        suppress_health_check=PATIENT,
    )
    @given(stories(guarantee, get_args(Extra), acts=(3, 8), max_records=12, negative=False))
    def check(story: Story) -> None:
        took.append(tell(broker, story))
        print(f"{guarantee}, seed {number}, story {len(took)}: {took[-1]:.1f} s, {len(story.acts)} acts")

    check()
    print(f"{guarantee}, seed {number}: {sum(took) / len(took):.1f} s a story, {max(took):.1f} s at most")
