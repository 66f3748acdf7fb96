"""A run that is told to drain: what it writes before it ends, and which runs are not meant."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from fluvial.dsl import Pane, Pipeline, SystemProblem, count, tumbling
from fluvial.planner import Settings
from fluvial.runtime import Report, RunHandle, drain, run, start
from fluvial.runtime.local.coordination.assignments import DrainRequest
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.systems import MemorySystem
from waiting import wait_until

HOUR = 3_600_000
BEGUN = 472_222 * HOUR


def text_of(pane: Pane[str, int]) -> str:
    return f"{pane.key} {(pane.window.start - BEGUN) // HOUR} {pane.value}"


def counted() -> Pipeline:
    """Three stages, of which the last has windows that time alone would not close."""
    pipeline = Pipeline("counted")
    (
        pipeline.stream("words", value=str)
        .partition_by(len, id="by-length", key_type=int)
        .partition_by(lambda word: word, id="by-word", key_type=str)
        .window(tumbling(timedelta(hours=1)), count(), id="hourly")
        .map(text_of)
        .send_to("counts")
    )
    return pipeline


def send(system: MemorySystem, numbers: range) -> None:
    """A word each minute."""
    partitions: list[list[tuple[bytes | None, bytes, int, tuple[()]]]] = [[], []]
    for number in numbers:
        partitions[number % 2].append((None, b"w%d" % (number % 7), BEGUN + number * 60_000, ()))
    for partition, records in enumerate(partitions):
        producer = system.producer()
        transaction = producer.begin()
        transaction.append("words", partition, records)
        transaction.commit()
        producer.close()


def counts(system: MemorySystem) -> Counter[str]:
    """The last count of each word and hour: a window that is changed after an end fires again at the next."""
    found: dict[str, str] = {}
    for batch in read(system, "counts"):
        word, hour, number = batch.decode().rsplit(" ", 2)
        found[f"{word} {hour}"] = number
    return Counter({name: int(number) for name, number in found.items()})


def read(system: MemorySystem, stream: str) -> list[bytes]:
    consumer, ends = system.consumer(), system.admin().ends(stream)
    consumer.assign(dict.fromkeys(((stream, number) for number in range(len(ends))), 0))
    values: list[bytes] = []
    while len(values) < sum(ends):
        values += [record[1] for batch in consumer.poll(0.1) for record in batch.records if record[1] is not None]
    consumer.close()
    return values


@pytest.fixture
def system() -> MemorySystem:
    made = MemorySystem()
    made.admin().create("words", 2, "messages")
    return made


@contextmanager
def running(system: MemorySystem) -> Iterator[RunHandle]:
    settings = Settings(commit_interval=timedelta(milliseconds=50), guarantee="exactly_once")
    with start(counted(), system=system, settings=settings) as handle:
        wait_until(lambda: handle.progress is not None, "it runs")
        yield handle


def ended(handle: RunHandle) -> Report:
    report = handle.wait(timedelta(seconds=30))
    assert report is not None
    return report


def of(numbers: range) -> Counter[str]:
    return Counter(f"w{number % 7} {number // 60}" for number in numbers)


def draining(system: MemorySystem, say: Callable[[str], None] = lambda _: None) -> dict[str, list[int]]:
    return drain(counted(), system=system, say=say, timeout=timedelta(seconds=30))


def test_r12_a_drain_commits_what_was_read_and_the_next_run_goes_on(system: MemorySystem) -> None:
    send(system, range(200))
    told: list[str] = []
    with running(system) as handle:
        assert draining(system, told.append) == {"words": [100, 100]}
        assert ended(handle).drained
    assert told == ["1 container to end: 0"]
    assert counts(system) == of(range(200))
    send(system, range(200, 260))
    report = run(counted(), system=system, until="end")
    assert report.read["words"] == 60
    assert counts(system) == of(range(260))


def test_r13_a_drain_waits_for_what_is_inside_while_messages_keep_coming(system: MemorySystem) -> None:
    send(system, range(100))
    over = threading.Event()
    sent = 100

    def keep_sending() -> None:
        nonlocal sent
        while not over.wait(0.01):
            send(system, range(sent, sent + 2))
            sent += 2

    with running(system) as handle:
        sending = threading.Thread(target=keep_sending)
        sending.start()
        ends = draining(system)
        report = ended(handle)
        over.set()
        sending.join()
    assert sum(ends["words"]) <= report.read["words"] <= sent
    # All that was read has left: no count is missing, whatever came behind it.
    assert sum(counts(system).values()) == report.read["words"]
    send(system, range(sent, sent + 10))
    run(counted(), system=system, until="end")
    assert counts(system) == of(range(sent + 10))


def test_r14_what_another_run_was_told_is_dropped(system: MemorySystem) -> None:
    send(system, range(10))
    with running(system) as handle:
        coordinator = Coordinator(system, "counted")
        assert coordinator.ask("a test", 10) is not None
        coordinator.write(DrainRequest(run="another", ends={"words": [5, 5]}))
        assert coordinator.ask("a test", 10) is not None, "the run goes on behind the request, which it has read"
        send(system, range(10, 20))
        wait_until(lambda: (now := handle.progress) is not None and now.read >= 20, "it reads on")
        handle.stop(timedelta(seconds=30))
        assert not ended(handle).drained


def test_a_drain_that_takes_too_long_is_reported_and_goes_on(system: MemorySystem) -> None:
    send(system, range(10))
    with running(system) as handle:
        with pytest.raises(SystemProblem, match=r"has not ended within 0\.001 s") as raised:
            drain(counted(), system=system, timeout=timedelta(milliseconds=1))
        assert "the run goes on, and ends at the offsets" in str(raised.value)
        assert ended(handle).drained


def test_a_pipeline_that_does_not_run_is_not_drained(system: MemorySystem) -> None:
    with pytest.raises(SystemProblem, match="no container of it runs"):
        draining(system)
    assert system.admin().partitions("counted-coordinator") is None


def test_what_would_be_drained_is_shown(system: MemorySystem) -> None:
    send(system, range(10))
    with running(system) as handle:
        assert drain(counted(), system=system, dry_run=True) == {"words": [5, 5]}
        handle.stop(timedelta(seconds=30))
        assert not ended(handle).drained
