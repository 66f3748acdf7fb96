"""The tasks that write an intermediate stream: however they are split and merged, a reader's time never passes a
message that is still to come."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.planner.task_assignment import StageTasks
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer
from fluvial.runtime.kernel.time.border_writers import BorderWriters
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.kernel.time.input_progress import InputProgress
from fluvial.runtime.kernel.time.position import Position, WritersOfStream
from fluvial.runtime.kernel.time.stage_input import StageInput
from fluvial.runtime.kernel.time.watermark_node import WatermarkNode
from fluvial.runtime.kernel.time.watermarks import WatermarkGraph
from generators.how_many import examples

NUMBERS = 2


def writers(elasticity: int = 1, stored: WritersOfStream | None = None, heard: tuple[int, ...] = ()) -> BorderWriters:
    return BorderWriters(StageTasks(NUMBERS, elasticity), stored, heard)


def test_a_task_that_is_split_is_known_by_its_parts() -> None:
    known = writers()
    assert known.follow(1, 1, 3, parts=4) == {1: [1], 3: [1], 5: [1], 7: [1]}
    assert sorted(known) == [0, 1, 3, 5, 7]
    assert known.follow(3, 4, generation=3) == {}


def test_a_task_that_others_were_merged_into_takes_their_place() -> None:
    known = writers(4)
    assert known.follow(2, 2, generation=1) == {2: [2, 6]}
    assert known.follow(0, 1, generation=2) == {0: [0, 4, 2]}
    assert sorted(known) == [0, 1, 3, 5, 7]


def test_what_was_replaced_is_not_heard_any_more() -> None:
    known = writers()
    known.follow(0, 1, 5, parts=2)
    assert known.follow(0, 1, 4) == known.follow(0, 1, 5) == {}
    assert known.follow(0, 1, 4, parts=4) == known.follow(0, 1, 5, parts=2) == {}
    assert len(known) == NUMBERS + 1


def test_a_task_may_be_heard_of_before_it_is_split_by_the_same_assignment() -> None:
    """Its reader was opened with the elasticity that the assignment wants."""
    known = writers(2, heard=(0, 1))
    assert known.follow(0, 1, 5) == {0: [0, 2]}
    assert known.follow(0, 1, 5, parts=2) == {0: [0], 2: [0]}


def test_a_split_that_is_taken_back_is_taken_back_here() -> None:
    known = writers()
    known.follow(0, 1, 5, parts=2)
    assert known.follow(0, 1, generation=6) == {0: [0, 2]}


def test_where_plan_and_checkpoint_differ_the_smaller_key_buckets_count() -> None:
    split = writers(2, stored=None, heard=(0, 1))
    assert (sorted(split), split.inherits) == ([0, 1, 2, 3], {0: 0, 1: 1, 2: 0, 3: 1})
    merged = writers(1, stored=WritersOfStream(NUMBERS, 2))
    assert (sorted(merged), merged.inherits) == ([0, 1, 2, 3], {})
    assert merged.follow(1, 1, generation=0) == {1: [1, 3]}


def test_writers_of_another_number_of_partitions_are_not_those_of_now() -> None:
    assert sorted(writers(1, stored=WritersOfStream(3, 2))) == [0, 1]


def test_a_checkpoint_keeps_what_is_not_taken_for_granted() -> None:
    known = writers()
    assert known.stored() is None
    known.follow(0, 1, 5, parts=2)
    assert [*writers(1, known.stored())] == [*known]
    assert known.stored() == WritersOfStream(NUMBERS, mixed={1: (1, -1), 0: (2, 5), 2: (2, 5)})
    known.follow(1, 1, 5, parts=2)
    assert known.stored() == WritersOfStream(NUMBERS, 2, 5)


def reader(position: Position | None = None, elasticity: int = 1) -> InputProgress:
    watermarks = WatermarkGraph([WatermarkNode("stream", (), "mid")], lambda _: None)
    inputs = {"mid": StageInput("mid", "trailer", None, "by", ())}
    tasks = {"mid": StageTasks(NUMBERS, elasticity)}
    return InputProgress(inputs, watermarks, position or Position(), tasks, lambda _: True)


class Writing:
    """The tasks that write a stream, each with its watermark, and what they have written, oldest first."""

    def __init__(self) -> None:
        self.elasticity = [1] * NUMBERS
        self.marks = {(number, 0): 0 for number in range(NUMBERS)}
        self.generation, self.since = 1, [0] * NUMBERS
        self.written: list[tuple[int, bytes]] = []

    def _say(self, number: int, bucket: int, parts: int = 0) -> None:
        elasticity, mark = self.elasticity[number], self.marks[number, bucket]
        control = ControlMessage(
            "run" * 8, self.generation, bucket * NUMBERS + number, NUMBERS * elasticity, mark, ended=False, parts=parts
        )
        self.written.append((mark, control_record(control, 0)[3][-1][1]))

    def emit(self, number: int, bucket: int, ahead: int, *, control: bool) -> None:
        """A task writes a message, or a control message, of a time that is later by `ahead`."""
        bucket %= self.elasticity[number]
        self.marks[number, bucket] += ahead
        if control:
            self._say(number, bucket)
        else:
            mark = self.marks[number, bucket]
            self.written.append((mark, pack_trailer(bucket * NUMBERS + number, mark)))

    def split(self, number: int) -> None:
        """Each task of a number is split into two, once by each assignment."""
        before = self.elasticity[number]
        if not self._may_change(number) or before == 8:
            return
        for bucket in range(before):
            self._say(number, bucket, parts=2)
            self.marks[number, bucket + before] = self.marks[number, bucket]
        self.elasticity[number] *= 2

    def merge(self, number: int) -> None:
        """Two tasks of a number each are merged into one, which have come equally far; once by each assignment."""
        before = self.elasticity[number]
        if before > 1 and self._may_change(number):
            for bucket in range(before // 2):
                pair = [self.marks.pop((number, one)) for one in (bucket, bucket + before // 2)]
                self.marks[number, bucket] = max(pair)
            self.elasticity[number] //= 2

    def _may_change(self, number: int) -> bool:
        before, self.since[number] = self.since[number], self.generation
        return before < self.generation

    def assign(self) -> None:
        """Another assignment is decided, which all tasks follow."""
        self.generation += 1

    def finish(self) -> int:
        """Each task says how far it is, by the assignment that the reader's plan is of. Returns the least of that."""
        self.assign()
        for number, bucket in sorted(self.marks):
            self._say(number, bucket)
        return min(self.marks.values())


NUMBER = st.integers(0, NUMBERS - 1)
ACT: st.SearchStrategy[Callable[[Writing], None]] = st.one_of(
    st.builds(
        lambda number, bucket, ahead, control: lambda one: one.emit(number, bucket, ahead, control=control),
        NUMBER,
        st.integers(0, 7),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.builds(lambda number: lambda one: one.split(number), NUMBER),
    st.just(lambda one: one.assign()),
    st.builds(lambda number: lambda one: one.merge(number), NUMBER),
)


@settings(max_examples=examples(4_000))
@given(st.lists(ACT, max_size=40), st.sets(st.integers(0, 60)))
def test_time_never_passes_what_is_still_to_come_and_reaches_it_in_the_end(
    acts: list[Callable[[Writing], None]], restarts: set[int]
) -> None:
    writing = Writing()
    for act in acts:
        act(writing)
    least = writing.finish()
    found, reached = reader(), START
    for at, (_, said) in enumerate(writing.written):
        if at in restarts:  # with any elasticity that the plan may have meanwhile
            found = reader(found.position(lambda _: None), elasticity=2 ** (at % 3))
        watermark = found.observe("mid", said)
        assert reached <= watermark <= min(mark for mark, _ in writing.written[at:])
        reached = watermark
    assert reached == least
