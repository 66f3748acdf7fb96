"""Containers that no supervisor of ours started, and that whoever did starts again when they die: they end, and all
that was there is processed once."""

from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any, Literal, NamedTuple, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.several import Death, at_each_turn, dying_in
from engines.targets import PATIENT, contents, write
from fluvial.dsl import NoProgressError, Pipeline, SystemProblem
from fluvial.planner import Settings
from fluvial.runtime import Progress
from fluvial.runtime.launch import run_container
from fluvial.runtime.local.coordination.assignments import Presence
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.membership import ContainerId, MembershipGuard
from fluvial.runtime.systems import LogSystem
from generators.how_many import examples

Point = Literal["before its start", "after its start", "at a turn", "before it says done", "after it says done"]
CONTAINERS = 2
MOST_STARTS = 60
IN_VAIN_SECONDS = 1.0
LONG_SECONDS = 50.0


class Kill(NamedTuple):
    """Of a container, once, at a point; `grows` says that there is more to read before it is started again."""

    container: int
    point: Point
    grows: bool


DEATHS = st.builds(Kill, st.integers(0, CONTAINERS - 1), st.sampled_from(get_args(Point)), st.booleans())
KILLS = st.lists(DEATHS, max_size=5)


class Orchestrator:
    """Starts each container, and again whenever it ends with an error."""

    def __init__(self, system: LogSystem, stall_seconds: float) -> None:
        self._system = system
        self._settings = Settings(
            guarantee="exactly_once",
            commit_interval=timedelta(0),
            stall_timeout=timedelta(seconds=stall_seconds),
            intermediate_partitions=2,
        )
        self._kills: list[Kill] = []
        self._lock = Lock()
        self.fed = 0

    def feed(self) -> None:
        """Write one message to each partition of the input."""
        with self._lock:
            self.fed += 1
            write(self._system, {"in": [[(None, b"%d-%d" % (self.fed, number), 0, ())] for number in range(2)]})

    def round(self, kills: Sequence[Kill]) -> None:
        """Start all containers, and let them die at these points; returns once each has ended well."""
        self._kills = list(kills)
        starts = 0
        with ThreadPoolExecutor(CONTAINERS) as pool:
            running: dict[Future[str], int] = {pool.submit(self._once, number): number for number in range(CONTAINERS)}
            while running:
                ended, _ = wait(running, timeout=LONG_SECONDS - 5, return_when=FIRST_COMPLETED)
                assert ended, "containers wait for each other in vain"
                for future in ended:
                    number, outcome = running.pop(future), future.result()
                    # One that has waited in vain for others says so; then these are started, too.
                    again = {"done": [], "died": [number], "waited": list(range(CONTAINERS))}[outcome]
                    for other in sorted({*again} - {*running.values()}):
                        running[pool.submit(self._once, other)] = other
                        starts += 1
                assert starts < MOST_STARTS

    def _once(self, number: int) -> str:
        pipeline = Pipeline("p")
        pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out", value=str)

        def at_turn(_: Progress) -> None:
            if self._dies(number, "at a turn"):
                raise Death

        try:
            run_container(
                pipeline, "local", self._system, self._settings, "end", at_turn, None, ContainerId(number, CONTAINERS)
            )
        except (Death, SystemProblem):  # the latter where the process before it is just about to be gone
            return "died"
        except NoProgressError:
            return "waited"
        return "done"

    def _dies(self, number: int, point: Point) -> bool:
        with self._lock:
            kill = next((one for one in self._kills if one.container == number and one.point == point), None)
            if kill is not None:
                self._kills.remove(kill)
        if kill is not None and kill.grows:
            self.feed()
        return kill is not None

    def points(self) -> ExitStack:
        """MembershipMonitor the points at which containers die."""

        def says_done(point: Point) -> Any:
            return lambda place, state: state == "done" and self._dies(place.membership.container, point)

        def starts(point: Point) -> Any:
            def dies(_: Coordinator, presence: Presence) -> bool:
                return presence.state == "starting" and self._dies(presence.container, point)

            return dies

        stack = ExitStack()
        stack.enter_context(dying_in(MembershipGuard, "announce", says_done("before it says done")))
        stack.enter_context(dying_in(MembershipGuard, "announce", says_done("after it says done"), after=True))
        stack.enter_context(dying_in(Coordinator, "write", starts("before its start")))
        stack.enter_context(dying_in(Coordinator, "write", starts("after its start"), after=True))
        stack.enter_context(at_each_turn())
        return stack


def check(rounds: Sequence[Sequence[Kill]]) -> None:
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        # Where there is more to read, a container may come alone, and wait in vain; else none does.
        grows = any(kill.grows for kills in rounds for kill in kills)
        orchestrator = Orchestrator(system, IN_VAIN_SECONDS if grows else LONG_SECONDS)
        orchestrator.feed()
        with orchestrator.points():
            for kills in rounds:
                orchestrator.round(kills)
                orchestrator.feed()
            # The first of these may have a run to finish that others have done their part of.
            orchestrator.round([])
            orchestrator.round([])
        fed = sorted(record[1] or b"" for record in contents(system, "in"))
        assert sorted(record[1] or b"" for record in contents(system, "out")) == fed


@pytest.mark.slow
def test_containers_that_are_started_again_end_and_lose_and_repeat_nothing() -> None:
    settings(max_examples=examples(40), deadline=None, suppress_health_check=PATIENT)(
        given(st.lists(KILLS, min_size=1, max_size=3))(check)
    )()


@pytest.mark.parametrize("grows", [False, True])
@pytest.mark.parametrize("point", get_args(Point))
def test_a_container_that_dies_at_a_point_is_no_reason_to_wait_for_ever(point: Point, grows: bool) -> None:
    check([[Kill(0, point, grows)], [Kill(1, point, grows), Kill(1, "after it says done", grows)]])
