"""A container that is begun again behind the end of its input comes to that end a second time: nothing rings twice."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from engines.several import at_each_turn, run_together
from engines.targets import contents, write
from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, Timer
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem

OFTEN = Settings(guarantee="exactly_once", commit_interval=timedelta(0))


class Echo(KeyedProcessor[str, int, str]):
    """Sets a timer with each message, and another with each that rings first."""

    def on_message(self, message: Message[int], context: Context[str]) -> None:
        context.timers.set("first", message.timestamp + 5)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterator[str]:
        if timer.name == "first":
            context.timers.set("again", timer.time + 4)
        yield timer.name


def echoed(*, behind_a_border: bool = False) -> Pipeline:
    pipeline = Pipeline("echoed")
    numbers = pipeline.stream("in", key=str, value=int)
    keyed = numbers.partition_by(lambda _: "a", id="b", key_type=str, value=int) if behind_a_border else numbers
    keyed.process(Echo(), id="echo").send_to("out", value=str)
    return pipeline


@pytest.mark.parametrize("behind_a_border", [False, True])
@pytest.mark.parametrize("turn", range(5))
def test_a_timer_that_was_set_at_the_end_waits_for_more_input(turn: int, behind_a_border: bool, tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    write(system, {"in": [[(b"a", b"1", 10, ())], [(b"a", b"1", 10, ())]]})
    pipeline = echoed(behind_a_border=behind_a_border)
    with at_each_turn():
        run_together(system, pipeline, 1, OFTEN, [(0, turn)])
    firsts = [b"first"] if behind_a_border else [b"first"] * 2
    assert [record[1] for record in contents(system, "out")] == firsts
    run(pipeline, system=system, until="end", settings=OFTEN)
    assert sorted(record[1] or b"" for record in contents(system, "out")) == [b"again"] * len(firsts) + firsts
