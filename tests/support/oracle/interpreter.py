"""A plain, slow interpreter of pipelines over finite inputs: what every engine must write."""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

from fluvial.dsl import Pipeline
from fluvial.dsl import operators as ops
from fluvial.dsl.message import Record
from oracle.dispatcher import Dispatch, Dispatcher, OracleFailure
from oracle.kinds import ORACLE_KINDS
from oracle.kinds.row import Due
from oracle.lines import Lines, Quiet
from oracle.outputs import OutputMessage, Outputs

__all__ = ["Inputs", "OracleFailure", "OutputMessage", "Outputs", "Turns", "run_oracle"]

Inputs = Mapping[str, Sequence[Sequence[Record]]]
"""For each source stream, its records by partition, in partition order."""

Turns = Sequence[tuple[str, int] | int]
"""What happens: a record of a stream's partition comes, or so many ms pass by the clock."""


def run_oracle(
    pipeline: Pipeline,
    inputs: Inputs,
    *,
    partitions: Mapping[str, int] | None = None,
    remember_sessions: bool = True,
    late: Counter[str] | None = None,
    tasks: Callable[[str], int] = lambda _: 1,
    turns: Turns | None = None,
) -> Outputs:
    """What the pipeline writes, by stream; the order within a stream means nothing. A sink's stream is `sink:{id}`.

    Records of a keyed source must lie in partitions by their keys. Partitions are read in turn, one record each, and a
    message is late only by the least watermark over all of them; so what is late is exact for one source partition,
    and for many partitions the inputs should hold nothing late. `partitions` only checks the shape of the inputs.

    What a trigger fires depends on the order of a key's messages and on the steps of the watermark: these are exact
    for one source partition, which is read record by record. What a window fires while its watermark takes one step
    reaches the windows behind it before they take theirs.

    A message that is not late joins a session within the gap of it, also one whose end + lateness was reached, as the
    rulings say; with `remember_sessions=False` such sessions are forgotten, and it begins a new one. In
    `late` the messages are counted that were late at each operator. What is broadcast by an operator reaches as many
    `tasks` as the engine has behind it. Rows written to a remote table are messages of the stream `remote:{name}`, of
    no time.

    With `turns` records come in that order, partitions may be idle meanwhile, and all end together. Then what is late
    is exact for many partitions of one source too, if what they lead to is behind a border.
    """
    for stream, count in (partitions or {}).items():
        given = len(inputs.get(stream, [()] * count))
        assert given == count, f"{stream} has {count} partitions, the inputs hold {given}"
    dispatcher = Dispatcher(pipeline, remember_sessions, Counter() if late is None else late, tasks)
    run = _Run(dispatcher, inputs)
    with closing(dispatcher.calls):
        return run.outcome() if turns is None else run.outcome_of(turns)


class _Run:
    """One pass over the inputs: what is read when, and how far time is."""

    def __init__(self, dispatcher: Dispatcher, inputs: Inputs) -> None:
        self._dispatcher = dispatcher
        self._pipeline = dispatcher.pipeline
        self._inputs = inputs
        self._lines = Lines(self._pipeline)
        # Of every source partition: its largest timestamp so far - out_of_order.
        self._clocks: dict[tuple[str, int], float] = {}
        self._quiet = Quiet({})
        self._reached: dict[str, float] = {}

    def outcome(self) -> Outputs:
        for source, partition, record in self._in_turn():
            time = self._read(source, record)
            self._clocks[source.id, partition] = max(self._clocks[source.id, partition], time)
            self._advance()
        self._clocks = {}  # all inputs end together, as it were: time waits for each until then
        self._advance()
        return self._dispatcher.outputs

    def outcome_of(self, turns: Turns) -> Outputs:
        sources = {op.stream: op for op in self._pipeline.operators if isinstance(op, ops.Source)}
        partitions = {(op.id, number): op for op in sources.values() for number in range(len(self._inputs[op.stream]))}
        self._clocks = dict.fromkeys(partitions, -math.inf)
        self._quiet = Quiet(
            {partition: op.idle_after for partition, op in partitions.items() if op.idle_after is not None}
        )
        queues = {(stream, n): iter(part) for stream, parts in self._inputs.items() for n, part in enumerate(parts)}
        for turn in turns:
            if isinstance(turn, int):
                for _ in range(turn):
                    if self._quiet.tick():
                        self._advance()
                continue
            source = sources[turn[0]]
            partition = source.id, turn[1]
            self._quiet.arrived(partition)
            time = self._read(source, next(queues[turn]))
            self._clocks[partition] = max(self._clocks[partition], time)
            self._advance()
        self._clocks = {}
        self._advance()
        return self._dispatcher.outputs

    def _in_turn(self) -> Iterator[tuple[ops.Source, int, Record]]:
        """One record of each partition after the other; tables come first."""
        rows = {source for op in self._pipeline.operators if isinstance(op, ops.TableOf) for source in op.inputs}
        queues = [
            (operator, number, list(records))
            for operator in self._pipeline.operators
            if isinstance(operator, ops.Source)
            for number, records in enumerate(self._inputs.get(operator.stream, ()))
            if records
        ]
        self._clocks = {(source.id, number): -math.inf for source, number, _ in queues}
        for source, number, records in queues:
            while source.id in rows and records:
                yield source, number, records.pop(0)
        while queues := [queue for queue in queues if queue[2]]:
            for source, number, records in queues:
                yield source, number, records.pop(0)

    def _read(self, source: ops.Source, record: Record) -> float:
        """Take in a source's record; what its timestamp makes of the partition's watermark, if it is known."""
        counts = -math.inf
        written = OutputMessage(*record)

        def work() -> None:
            nonlocal counts
            message = self._dispatcher.decoded(source, written)
            counts = message.timestamp - source.out_of_order
            self._dispatcher.emit(source, message)

        self._dispatcher.dispatch(Dispatch(work, written, source.id))
        return counts

    def _advance(self) -> None:
        """Bring the watermark to all state, inputs first.

        What a window fires meets those behind it before they know of the new watermark, so it is not late there, but
        for what `_tell` says.
        """
        for operator in self._pipeline.operators:
            if operator.id not in self._dispatcher.states:
                continue
            state = self._dispatcher.states[operator.id]
            watermark = self._lines.at(operator, self._clocks, self._quiet.idle(self._clocks))
            # In front of state time does not go back.
            watermark = self._reached[operator.id] = max(watermark, self._reached.get(operator.id, -math.inf))
            while (due := state.next_due(watermark)) is not None:
                self._tell(operator, due)
                self._dispatcher.dispatch(self._dispatcher.firing(operator, due))
            state.advance(watermark)

    def _tell(self, operator: ops.Operator, due: Due) -> None:
        """An early pane of a window without end is told with the watermark before its time to those behind a border:
        its timestamp may be late there."""
        kept = ORACLE_KINDS[operator].state
        time = math.inf if kept is None else kept.fires_early_at(operator, due)
        if time == math.inf:
            return
        for reader in self._pipeline.operators:
            state = self._dispatcher.states.get(reader.id)
            if state is not None and (behind := self._lines.behind(operator, reader)) is not None:
                watermark = time - 1 - behind
                while (earlier := state.next_due(watermark)) is not None:
                    self._dispatcher.dispatch(self._dispatcher.firing(reader, earlier))
                state.advance(max(state.watermark, watermark))
