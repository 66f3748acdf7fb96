"""Which store a task goes on with, where state has changelogs."""

from collections import Counter
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace as with_fields
from itertools import count
from threading import Event

import pytest
from msgspec.structs import replace

from engines.sending import MemorySender, ProducingAdmin, ProducingSystem
from engines.targets import write
from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.local.background_work import run_steps
from fluvial.runtime.local.checkpoints import checkpoint as checkpoints
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.commit.changelog_commit import ChangelogCommit, await_checkpoints
from fluvial.runtime.local.commit.contract import TaskCommit
from fluvial.runtime.local.commit.restore import AHEAD_MS, STALE_MS, StoreRestorer
from fluvial.runtime.local.stores.store_keys import CHECKPOINT, META
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.systems.contract import StreamPartition

PATIENCE = 10.0
NOW = 1_800_000_000
LOG = "p-count-changelog"
OFFSETS = {"in": 5}
RECORDS: list[Record] = [(b"k1", b"1", 0, ()), (b"k2", b"2", 0, ()), (b"k1", None, 0, ()), (b"k3", b"3", 0, ())]


@pytest.fixture
def system() -> ProducingSystem:
    """A pipeline whose only task has changed its state four times, the last without a checkpoint."""
    made = ProducingSystem()
    made.admin().create("p-checkpoints", 1, "checkpoints")
    made.admin().create(LOG, 1, "changelog")
    writing = made.producer().begin()
    writing.append(LOG, 0, RECORDS)
    writing.commit()
    return made


def commits_of(system: ProducingSystem, *, exactly_once: bool = False, seconds: float = NOW) -> ChangelogCommit:
    outputs = None if exactly_once else system.record_producer()
    machine = with_fields(THIS_MACHINE, wall=lambda: round(1000 * seconds))
    return ChangelogCommit("p", system, system.record_producer("p"), outputs=outputs, machine=machine)


def resumed(
    system: ProducingSystem,
    store: MemoryStore,
    kept: Checkpoint | None,
    *,
    seconds: float = NOW,
    exactly_once: bool = False,
) -> Checkpoint:
    commits = commits_of(system, exactly_once=exactly_once, seconds=seconds)
    setup = TaskSetup("in/0", "in", 0, store, {"count": LOG})
    return commits.resume([setup], {} if kept is None else {"in/0": kept})["in/0"]


def at(changelog: int, offset: int = 5) -> Checkpoint:
    return Checkpoint(offsets={"in": offset}, changelogs={"count": changelog})


def atomic(changelog: int) -> Checkpoint:
    return replace(at(changelog), atomic=True)


def state(store: MemoryStore) -> dict[bytes, bytes]:
    return dict(store.scan(b"count\0"))


def left(store: MemoryStore, *changes: Change) -> None:
    """What another process wrote without a checkpoint."""
    store.write(changes)


def test_a_lost_store_is_restored_up_to_the_checkpoint_and_what_lies_behind_is_undone(system: ProducingSystem) -> None:
    store = MemoryStore()
    found = resumed(system, store, at(3))
    assert state(store) == {b"k2": b"2"}
    assert found == replace(at(5), atomic=True)
    assert checkpoints.decode(system.admin().checkpoints("p")["in/0"], "in/0") == found
    consumer = system.consumer()
    consumer.assign({(LOG, 0): 4})
    assert [record[:2] for record in consumer.poll()[0].records] == [(b"k3", None)]


def test_an_intact_store_reads_only_what_it_lacks(system: ProducingSystem) -> None:
    store = MemoryStore()
    resumed(system, store, at(2))
    left(store, (b"count\0", b"k9", b"9"))  # which a store that is built anew has not
    resumed(system, store, at(3))
    assert state(store) == {b"k2": b"2", b"k9": b"9"}


def test_a_store_that_was_not_used_for_long_is_built_anew(system: ProducingSystem) -> None:
    store = MemoryStore()
    resumed(system, store, at(2))
    left(store, (b"count\0", b"k9", b"9"))
    resumed(system, store, at(3), seconds=NOW + STALE_MS / 1000)
    assert state(store) == {b"k2": b"2"}


@pytest.mark.parametrize(("back", "kept"), [(AHEAD_MS - 1, True), (AHEAD_MS, False)])
def test_a_store_of_a_time_far_ahead_is_built_anew(system: ProducingSystem, back: int, kept: bool) -> None:
    """The clock was wrong: the changelog may have forgotten deletions that the store lacks."""
    store = MemoryStore()
    resumed(system, store, at(2))
    left(store, (b"count\0", b"k9", b"9"))
    resumed(system, store, at(3), seconds=NOW - back / 1000)
    assert state(store) == {b"k2": b"2"} | ({b"k9": b"9"} if kept else {})


def test_the_wait_for_other_transactions_does_not_heed_the_time_of_day(system: ProducingSystem) -> None:
    """A clock that is set ahead meanwhile would end it: the changelog would seem to lack what the checkpoint needs."""
    seconds, days, pauses = count(), count(step=24 * 3600_000), list[float]()
    admin = system.admin()

    def pause(length: float) -> None:
        pauses.append(length)
        if len(pauses) == 3:
            writing = system.producer().begin()
            writing.append(LOG, 0, [(b"k4", b"4", 0, ())])
            writing.commit()

    machine = with_fields(THIS_MACHINE, clock=lambda: next(seconds), wall=lambda: next(days), sleep=pause)
    end = admin.ends(LOG)[0]
    setup = TaskSetup("in/0", "in", 0, MemoryStore(), changelogs={"count": LOG})
    StoreRestorer(system, machine=machine, live=True).restore([setup], {"in/0": at(end + 1)})
    assert len(pauses) == 3


def test_the_store_of_a_changelog_that_was_made_anew_is_of_no_use(system: ProducingSystem) -> None:
    store = MemoryStore()
    resumed(system, store, at(2))
    left(store, (b"count\0", b"k9", b"9"))
    system.removed[LOG] += 1  # its identity counts how often it was removed
    resumed(system, store, at(3))
    assert state(store) == {b"k2": b"2"}


def test_a_store_without_a_checkpoint_is_emptied(system: ProducingSystem) -> None:
    store = MemoryStore()
    left(store, (b"count\0", b"k9", b"9"))
    assert resumed(system, store, None).offsets == {}
    assert state(store) == {}


@pytest.mark.parametrize("exactly_once", [False, True])
def test_what_a_store_has_beyond_its_checkpoint_never_was(system: ProducingSystem, exactly_once: bool) -> None:
    store = MemoryStore()
    resumed(system, store, at(3, offset=7), exactly_once=exactly_once)
    found = resumed(system, store, atomic(1), exactly_once=exactly_once)
    assert (found, state(store)) == (atomic(1), {b"k1": b"1"})


def test_beyond_a_checkpoint_that_was_written_in_one_transaction_nothing_is_undone(system: ProducingSystem) -> None:
    ends = system.admin().ends(LOG)
    assert resumed(system, MemoryStore(), atomic(3)) == atomic(3)
    assert system.admin().ends(LOG) == ends


def test_a_changelog_that_ends_too_soon_is_reported(system: ProducingSystem) -> None:
    with pytest.raises(SystemProblem, match=r"the changelog 'p-count-changelog' ends at offset 4 of partition 0.*to 9"):
        resumed(system, MemoryStore(), at(9))


def commit_of(store: MemoryStore, commits: ChangelogCommit) -> TaskCommit:
    """Two changes of state behind offset 7 of the input."""
    setup = TaskSetup("in/0", "in", 0, store, {"count": LOG}, {"in": ("in", 0)})
    changes: list[Change] = [(b"count\0", b"k2", None), (b"count\0", b"k4", b"4")]
    return TaskCommit(setup, Checkpoint(offsets={"in": 7}, number=1), changes, commits.staged_outputs())


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_commit_returns_the_checkpoint_with_the_ends_of_the_changelogs(
    system: ProducingSystem, exactly_once: bool
) -> None:
    write(system, {"in": [[(None, b"", 0, ())] * 7]})
    store, commits = MemoryStore(), commits_of(system, exactly_once=exactly_once)
    wanted = commit_of(store, commits)
    (result,) = run_steps(commits.commit([wanted]))
    assert result.checkpoint == Checkpoint(offsets={"in": 7}, number=1, changelogs={"count": 6}, atomic=True)
    assert result.staged_outputs is wanted.staged_outputs
    assert checkpoints.decode(system.admin().checkpoints("p")["in/0"], "in/0") == result.checkpoint
    assert state(store) == {b"k4": b"4"}
    assert store.get(META, CHECKPOINT) == checkpoints.encode(result.checkpoint)


def test_of_a_task_without_changelogs_the_checkpoint_alone_is_kept(system: ProducingSystem) -> None:
    store, commits = MemoryStore(), commits_of(system)
    ends = system.admin().ends(LOG)
    setup, checkpoint = TaskSetup("in/0", "in", 0, store, {}), Checkpoint(offsets={"in": 7})
    (result,) = run_steps(commits.commit([TaskCommit(setup, checkpoint, [], commits.staged_outputs())]))
    assert result.checkpoint == replace(checkpoint, atomic=True)
    assert (system.admin().ends(LOG), store.get(META, CHECKPOINT)) == (ends, None)


class WaitingProducer(MemorySender):
    """A producer that flushes only once somebody has sent something meanwhile."""

    def __init__(self, system: ProducingSystem) -> None:
        super().__init__(system, None, Counter())
        self.flushing, self.sent = Event(), Event()

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        super().send(stream, partition, records)
        self.sent.set()

    def flush(self) -> None:
        self.flushing.set()
        assert self.sent.wait(PATIENCE)
        super().flush()


def test_outputs_are_produced_while_a_thread_waits_for_the_flush_of_others(system: ProducingSystem) -> None:
    system.admin().create("out", 1)
    outputs = WaitingProducer(system)
    commits = ChangelogCommit("p", system, system.record_producer("p"), outputs=outputs)
    setup = TaskSetup("in/0", "in", 0, MemoryStore(), {})
    work = commits.commit([TaskCommit(setup, at(0), [], commits.staged_outputs())])
    with ThreadPoolExecutor(1) as threads:
        committing = threads.submit(run_steps, work)
        assert outputs.flushing.wait(PATIENCE)
        commits.staged_outputs().append("out", 0, [(None, b"later", 0, ())])
        assert [one.checkpoint.offsets for one in committing.result(PATIENCE)] == [{"in": 5}]


def test_checkpoints_are_read_once_no_open_transaction_hides_one(system: ProducingSystem) -> None:
    pauses = list[float]()

    class Writer(MemorySender):
        def ends(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
            return dict.fromkeys(partitions, 2)

    class Reader(ProducingAdmin):
        def ends(self, stream: str) -> list[int]:
            assert stream == "p-checkpoints"
            return [[0, 0, 1, 2][len(pauses)]]

    class Hiding(ProducingSystem):
        def admin(self) -> Reader:
            return Reader(self)

    await_checkpoints(Hiding(), "p", Writer(system, "p", Counter()), pauses.append)
    assert len(pauses) == 3
