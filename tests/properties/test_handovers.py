"""Containers that come, go, die and change while a pipeline runs, and runs that begin anew, write what one container
does."""

from collections.abc import Sequence
from typing import get_args

import pytest
from hypothesis import given, settings

from engines.live_containers import in_one_thread
from engines.restless_run import Story, Surroundings, check_written, stories, written
from engines.sending import ProducingSystem
from engines.targets import PATIENT
from fluvial.planner.settings import Guarantee
from generators.draft import Extra
from generators.how_many import examples


@pytest.mark.slow
@pytest.mark.parametrize("extras", [(), get_args(Extra)], ids=["windows and borders", "all operators"])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_readers_see_what_the_oracle_writes_whatever_containers_there_are(
    guarantee: Guarantee, extras: Sequence[Extra]
) -> None:
    @settings(max_examples=examples(160), deadline=None, suppress_health_check=PATIENT)
    @given(stories(guarantee, extras))
    def check(story: Story) -> None:
        with in_one_thread(system := ProducingSystem()):
            check_written(written(system, story, Surroundings()), story)

    check()
