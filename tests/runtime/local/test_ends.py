"""A run to the end goes to the end that its inputs had when it began."""

from datetime import timedelta

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.runtime import run
from fluvial.runtime.local.task import SLICE
from fluvial.runtime.systems import MemorySystem
from targets import contents, write

SECOND = timedelta(seconds=1)


def test_messages_that_come_meanwhile_are_a_later_runs() -> None:
    system = MemorySystem()
    late = [(b"k", b"2", 0, ())] * 3

    def more(value: str) -> str:
        """The first message of all is followed by others while it is processed."""
        if value == "1":
            write(system, {"in": [late, []]})
        return value

    pipeline = Pipeline("meanwhile")
    keyed = pipeline.stream("in", value=str, key=str).map(more)
    keyed.window(tumbling(SECOND), count(), id="w").map(lambda pane: pane.value).send_to("out")
    # The other partition keeps the run going for some turns.
    write(system, {"in": [[(b"k", b"1", 0, ()), (b"k", b"0", 0, ())], [(b"j", b"0", 0, ())] * 3 * SLICE]})
    assert run(pipeline, system=system, until="end").read == {"in": 2 + 3 * SLICE}
    assert run(pipeline, system=system, until="end").read == {"in": 3}
    assert {record[1] for record in contents(system, "out")} == {b"15000", b"2", b"3"}


def test_what_tells_the_time_across_a_border_is_not_counted() -> None:
    system = MemorySystem()
    write(system, {"in": [[(None, b"1", 0, ())], []]})
    pipeline = Pipeline("counted")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    report = run(pipeline, system=system, until="end")
    assert report.read == {"in": 1, "counted-by": 1}
    assert report.written == {"counted-by": 1, "out": 1}
