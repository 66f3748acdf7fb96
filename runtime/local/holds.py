"""The growths of sources that a task does not process yet: what the partitions of before hold for the same keys comes
first, so that the messages of each key keep their order."""

from collections.abc import Mapping, Sequence

from msgspec import structs

from ...planner.growths import before_growth
from ...planner.plan import Plan
from ...planner.stream_names import growth_name, growth_of
from ..systems.contract import StreamPartition
from .checkpoints.checkpoint import Checkpoint, Hold
from .input_queue import InputQueue, InputQueues


class TaskHolds:
    """The holds of a task. A growth is released once everything has landed that was in the partitions of before when
    their last producer has heard of it: see `Hold`. `known` are those that are not released, as a commit keeps them."""

    def __init__(self, plan: Plan, known: Mapping[str, Hold], queues: InputQueues) -> None:
        names = {queue.name for queue in queues}
        self.known = {name: hold for name, hold in known.items() if name in names}
        self._queues = queues
        self._before = {name: _before(plan, queues.of(name)) for name in self.known}
        for name in self.known:
            queues.of(name).held = True

    def asks(self, now: int) -> set[str]:
        """The streams whose end offsets are wanted now, in ms since epoch."""
        return {growth_of(name)[0] for name, hold in self.known.items() if hold.until <= now and not hold.ends}

    def learn(self, ends: Mapping[str, Sequence[int]], asked: int) -> None:
        """Take the end offsets of streams, by partition, that were asked for at a time, in ms since epoch."""
        for name, hold in self.known.items():
            stream, _ = growth_of(name)
            if hold.until <= asked and not hold.ends and stream in ends:
                before = {queue.name: ends[stream][queue.partition] for queue in self._queues_before(name)}
                self.known[name] = structs.replace(hold, ends=before)

    def release(self, ends: Mapping[StreamPartition, int] | None) -> None:
        """Release what need not be held any more. A run that ends at these offsets processes what is held once it has
        processed the partitions of before up to them: what comes there later is for a later run."""
        for name, hold in [*self.known.items()]:
            before = self._queues_before(name)
            if hold.ends and all(queue.has_passed(hold.ends[queue.name]) for queue in before):
                del self.known[name]
                self._queues.of(name).held = False
            elif ends is not None:
                last = [(queue, ends.get((queue.stream, queue.partition), 0)) for queue in before]
                self._queues.of(name).held = not all(queue.has_passed(end) for queue, end in last)

    def _queues_before(self, name: str) -> list[InputQueue]:
        return [self._queues.of(one) for one in self._before[name]]


def _before(plan: Plan, queue: InputQueue) -> list[str]:
    """The inputs that are processed before a growth, which the same tasks read."""
    spread = plan.stream(queue.stream).spread
    return [growth_name(queue.stream, one // spread) for one in before_growth(spread, queue.partition)]


def with_growths(checkpoint: Checkpoint, inputs: Sequence[str], until: int) -> Checkpoint:
    """A checkpoint with the growths among the `inputs` of a task that it does not know: they are held `until` a time,
    in ms since epoch. Each has the watermark that the stream has there; it is idle until it has its first message."""
    new = [name for name in inputs if growth_of(name)[1] and name not in checkpoint.offsets]
    if not new:
        return checkpoint
    position = checkpoint.position
    highs, idle, lags = dict(position.highs), dict(position.idle), dict(position.out_of_order)
    for name in new:
        stream, _ = growth_of(name)
        lag, high = lags.get(stream, 0), highs.get(stream)
        if idle.get(stream) and position.rested.get(stream):
            high = position.rested[stream][0] + lag
        if high is not None:
            highs[name], lags[name] = high, lag
        idle[name] = [0]
    position = structs.replace(position, highs=highs, idle=idle, out_of_order=lags)
    holds = {**checkpoint.holds, **{name: Hold(until) for name in new}}
    return structs.replace(checkpoint, position=position, holds=holds)
