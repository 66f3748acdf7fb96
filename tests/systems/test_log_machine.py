"""The log against a model of it: lists of records, under random writers, restarts, torn tails and compactions."""

from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from fluvial.dsl.message import Record
from fluvial.runtime.systems.contract import StreamPartition
from fluvial.runtime.systems.log import LogProducer, LogReader, LogSystem, frames
from fluvial.runtime.systems.log.transaction import LogTransaction
from generators.how_many import examples

PARTITIONS: list[StreamPartition] = [("clicks", 0), ("clicks", 1), ("visits", 0)]
TASKS = ["one", "two"]


@dataclass
class Writing:
    """A transaction, and what it should make visible."""

    transaction: LogTransaction
    records: dict[StreamPartition, list[Record]] = field(default_factory=dict)
    checkpoints: dict[str, bytes] = field(default_factory=dict)
    token: bytes = b""
    visible: bool = False


class LogMachine(RuleBasedStateMachine):
    """Two streams, a reader that follows from the start, and any number of writers."""

    producers = Bundle[LogProducer]("producers")
    writings = Bundle[Writing]("writings")
    prepared = Bundle[Writing]("prepared")

    def __init__(self) -> None:
        super().__init__()
        self.home = TemporaryDirectory()
        writers = count()
        self.log = LogSystem(
            self.home.name, fsync=False, compact_bytes=600, segment_bytes=300, new_writer=lambda: f"w{next(writers)}"
        )
        self.admin = self.log.admin()
        self.admin.create("clicks", 2)
        self.admin.create("visits", 1)
        self.expected: dict[StreamPartition, list[Record]] = {where: [] for where in PARTITIONS}
        self.checkpoints: dict[str, bytes] = {}
        self.seen: dict[StreamPartition, list[Record]] = {where: [] for where in PARTITIONS}
        self.follower = self.log.consumer(max_records=3)
        self.follower.assign(dict.fromkeys(PARTITIONS, 0))
        self.numbers = count()
        self.torn = b""

    def teardown(self) -> None:
        self.home.cleanup()

    @rule(target=producers)
    def open_producer(self) -> LogProducer:
        return self.log.producer()

    @rule(target=writings, producer=producers)
    def begin(self, producer: LogProducer) -> Writing:
        return Writing(producer.begin())

    @rule(writing=writings, where=st.sampled_from(PARTITIONS), size=st.integers(0, 20))
    def append(self, writing: Writing, where: StreamPartition, size: int) -> None:
        records: list[Record] = [(b"key", b"%d" % number, number, ()) for number in islice(self.numbers, size)]
        writing.transaction.append(*where, records)
        writing.records.setdefault(where, []).extend(records)

    @rule(writing=writings, task=st.sampled_from(TASKS))
    def checkpoint(self, writing: Writing, task: str) -> None:
        writing.checkpoints[task] = b"%d" % next(self.numbers)

    @rule(writing=consumes(writings))
    def commit(self, writing: Writing) -> None:
        writing.transaction.commit("group", writing.checkpoints)
        self.show(writing)

    @rule(target=prepared, writing=consumes(writings))
    def prepare(self, writing: Writing) -> Writing:
        writing.token = writing.transaction.prepare("group", writing.checkpoints)
        return writing

    @rule(producer=producers, writing=prepared)
    def publish(self, producer: LogProducer, writing: Writing) -> None:
        producer.publish(writing.token)
        self.show(writing)

    @rule(producer=producers, several=st.lists(prepared, max_size=3), done=st.booleans())
    def publish_all(self, producer: LogProducer, several: list[Writing], done: bool) -> None:
        tokens = [writing.token for writing in several]
        assert producer.publish_all(tokens, "group", {"one": b"all"}, unless=lambda _: done) is not done
        if not done:
            for writing in several:
                self.show(writing)
            self.checkpoints["one"] = b"all"

    @rule(writing=consumes(writings))
    def forget(self, writing: Writing) -> None:
        """A writer dies with a transaction open: nothing more is heard of it."""

    @rule(cut=st.integers(1, 40), zeros=st.booleans())
    def tear(self, cut: int, zeros: bool) -> None:
        """A writer cuts what is torn, as each does, and dies in the middle of an entry of its own."""
        path, entry = Path(self.home.name, "journal"), frames.make(1, [b"an entry that was never finished"])
        data, tail = path.read_bytes().removesuffix(self.torn), bytes(cut) if zeros else entry[:cut]
        path.write_bytes(data + tail)
        self.torn = tail

    @rule(where=st.sampled_from(PARTITIONS), data=st.data())
    def read_a_range(self, where: StreamPartition, data: st.DataObject) -> None:
        records = self.expected[where]
        start = data.draw(st.integers(0, len(records)))
        end = data.draw(st.integers(start, len(records)))
        batches = list(LogReader(self.home.name).read(*where, start, end, max_records=4))
        assert [record for batch in batches for record in batch.records] == records[start:end]
        assert [offset for batch in batches for offset in batch.offsets] == list(range(start, end))

    @rule()
    def follow(self) -> None:
        while batches := self.follower.poll():
            for batch in batches:
                seen = self.seen[batch.stream, batch.partition]
                assert batch.offsets[0] == len(seen)
                seen += batch.records
        assert self.seen == self.expected

    @invariant()
    def what_is_visible_is_what_was_published(self) -> None:
        for admin in (self.admin, self.log.admin()):
            assert admin.ends("clicks") + admin.ends("visits") == [len(self.expected[where]) for where in PARTITIONS]
            assert admin.checkpoints("group") == self.checkpoints

    def show(self, writing: Writing) -> None:
        if not writing.visible:
            for where, records in writing.records.items():
                self.expected[where] += records
            self.checkpoints |= writing.checkpoints
        writing.visible = True


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=examples(100), stateful_step_count=40)
