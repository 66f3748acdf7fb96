"""Dead letters are counted, shown, replayed once and dropped, on each kind of system."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engines.sending import FOREVER, Killed, ProducingSystem, stores_of
from engines.targets import contents, write
from fluvial.dsl import Pipeline, SystemProblem, UsageError, dead_letter
from fluvial.runtime import (
    drop_dead_letters,
    list_dead_letters,
    replay_dead_letters,
    run,
    show_dead_letter,
)
from fluvial.runtime.dead_letters import handled_in, letter_of, letters_in
from fluvial.runtime.systems import LogSystem, System
from fluvial.runtime.systems.contract import StreamPartition
from fluvial.runtime.systems.log.consumer import LogConsumer

FIXED = {"fixed": False}
LETTERS = "p-dead-letters"


def share(number: int) -> int:
    return 12 // (number or FIXED["fixed"])


def sharing() -> Pipeline:
    pipeline = Pipeline("p", on_error=dead_letter())
    pipeline.stream("in", key=str, value=int).map(share).send_to("out")
    return pipeline


@pytest.fixture(autouse=True)
def _broken() -> Iterator[None]:
    FIXED["fixed"] = False
    yield
    FIXED["fixed"] = False


@pytest.fixture(params=["log", "sent"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return LogSystem(tmp_path, fsync=False) if request.param == "log" else ProducingSystem()


def add(system: System, *values: bytes, partition: int = 0, partitions: int = 1) -> None:
    records = [(b"k", value, 1000 + index, (("trace", b"1"),)) for index, value in enumerate(values)]
    write(system, {"in": [records if number == partition else [] for number in range(partitions)]})


def go(system: System, pipeline: Pipeline | None = None) -> None:
    with stores_of(system):
        run(pipeline or sharing(), system=system, until="end")


def out(system: System) -> list[bytes | None]:
    return [record[1] for record in contents(system, "out")]


def listed(system: System, **given: Any) -> list[tuple[str, str, str, int, int, int]]:
    groups = list_dead_letters(sharing(), system=system, **given)
    return [(one.operator, one.error, one.stream, one.letters, one.first, one.last) for one in groups]


def test_letters_are_counted_by_operator_error_and_stream(system: System) -> None:
    write(system, {"in": [[]]})
    assert listed(system) == []
    add(system, b"0", b"4", b"many", b"0")
    go(system)
    write(system, {LETTERS: [[(None, b"another program's", 0, ())]]})
    assert listed(system) == [
        ("map-2", "ZeroDivisionError", "in", 2, 1000, 1003),
        ("stream-1", "DecodeError", "in", 1, 1002, 1002),
    ]


def test_a_letter_is_shown_with_its_message_and_its_reason(system: System) -> None:
    add(system, b"4", b"0")
    go(system)
    letter, handling = show_dead_letter(sharing(), "0:0", system=system)
    assert letter.message == (b"k", b"0", 1001, (("trace", b"1"),))
    assert (letter.origin, letter.operator, letter.cut, handling) == (("in", 0, 1), "map-2", False, None)
    assert letter.error.startswith("ZeroDivisionError: ")
    assert "test_pipeline_letters.py:" in letter.written_at
    with pytest.raises(UsageError, match="there is no dead letter at 0:7 of 'p-dead-letters'"):
        show_dead_letter(sharing(), "0:7", system=system)


def test_messages_go_back_to_their_partition_once(system: System) -> None:
    add(system, b"0", b"4", partition=1, partitions=2)
    go(system)
    assert replay_dead_letters(sharing(), system=system, dry_run=True).handled == {"in": 1}
    assert len(contents(system, "in")) == 2
    for count in (1, 0):
        done = replay_dead_letters(sharing(), system=system)
        assert (done.letters, done.left) == (count, {})
    assert system.admin().ends("in") == [0, 3]
    assert contents(system, "in")[-1] == (b"k", b"0", 1000, (("trace", b"1"),))
    assert (listed(system), len(listed(system, handled=True))) == ([], 1)
    assert show_dead_letter(sharing(), "0:0", system=system)[1] == "replayed"
    FIXED["fixed"] = True
    go(system)
    assert out(system) == [b"3", b"12"]


def test_a_message_that_fails_again_is_a_new_letter(system: System) -> None:
    add(system, b"0")
    go(system)
    replay_dead_letters(sharing(), system=system)
    go(system)
    assert [group[3] for group in listed(system)] == [1]
    assert show_dead_letter(sharing(), "0:1", system=system)[0].message == (b"k", b"0", 1000, (("trace", b"1"),))


def test_letters_are_chosen_by_place_and_by_operator(system: System) -> None:
    add(system, b"0", b"many", b"0")
    go(system)
    assert drop_dead_letters(sharing(), letters=["0:0"], system=system).handled == {"in": 1}
    assert drop_dead_letters(sharing(), letters=["0:0"], system=system).left == {"dropped before": 1}
    assert replay_dead_letters(sharing(), letters=["0:0"], system=system).left == {"dropped before": 1}
    assert replay_dead_letters(sharing(), operator="map-2", system=system).handled == {"in": 1}
    assert [group[:2] for group in listed(system)] == [("stream-1", "DecodeError")]
    assert drop_dead_letters(sharing(), system=system).handled == {"in": 1}
    assert (listed(system), len(contents(system, "in"))) == ([], 4)
    with pytest.raises(UsageError, match="there is no dead letter at 0:9"):
        replay_dead_letters(sharing(), letters=["0:9"], system=system)


def test_where_one_of_several_letters_is_missing_none_goes_back(system: System) -> None:
    add(system, b"0", b"0", b"0")
    go(system)
    for missing in ("0:3", "1:0"):
        with pytest.raises(UsageError, match=f"there is no dead letter at {missing}"):
            replay_dead_letters(sharing(), letters=["0:0", missing, "0:2"], system=system)
    assert len(contents(system, "in")) == 3
    assert replay_dead_letters(sharing(), letters=["0:2", "0:0"], system=system).letters == 2
    assert [letter.place for letter in letters_in(system, sharing(), {(0, 1), (0, 7), (3, 0)})] == ["0:1"]
    assert sorted(handled_in(system, sharing())) == [(0, 0), (0, 2)]


class NotingLog(LogSystem):
    """A log that notes from where its streams are read."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, fsync=False)
        self.read: list[tuple[str, int]] = []

    def consumer(self, *, max_records: int = 10_000) -> LogConsumer:
        return _NotingConsumer(self.directory, max_records, self.read)


class _NotingConsumer(LogConsumer):
    def __init__(self, directory: Path, max_records: int, read: list[tuple[str, int]]) -> None:
        super().__init__(directory, max_records=max_records)
        self._read = read

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        self._read += [(stream, offset) for (stream, _), offset in positions.items()]
        super().assign(positions)


def test_letters_that_are_named_are_read_once_from_the_first_of_them_on(tmp_path: Path) -> None:
    add(log := NotingLog(tmp_path), *[b"0"] * 9)
    go(log)
    log.read.clear()
    assert drop_dead_letters(sharing(), letters=["0:7", "0:5"], system=log).letters == 2
    assert [one for one in log.read if one[0] == LETTERS] == [(LETTERS, 5)]


@pytest.mark.parametrize("letter", ["12", "a:1", "1:-1", ":", ""])
def test_what_is_no_place_is_refused(system: System, letter: str) -> None:
    with pytest.raises(UsageError, match=r"PARTITION:OFFSET"):
        show_dead_letter(sharing(), letter, system=system)


def test_a_long_message_is_read_from_its_place(system: System) -> None:
    long = b'"' + b"x" * 100_000 + b'"'
    add(system, b"4", long)
    go(system)
    assert len(show_dead_letter(sharing(), "0:0", system=system)[0].message[1] or b"") < len(long)
    assert replay_dead_letters(sharing(), system=system).handled == {"in": 1}
    assert contents(system, "in")[-1] == (b"k", long, 1001, (("trace", b"1"),))


def test_a_long_message_whose_place_has_another_is_left() -> None:
    system = ProducingSystem()
    add(system, b'"' + b"x" * 100_000 + b'"')
    go(system)
    system.admin().remove("in")
    add(system)
    for others in ((), (b"4",)):
        add(system, *others)
        left = replay_dead_letters(sharing(), system=system).left
        assert left == {"of a long message the rest is not in in any more": 1}


def test_what_cannot_go_back_is_left_with_the_reason(system: System) -> None:
    def pipeline(stream: str = "in") -> Pipeline:
        made = Pipeline("p", on_error=dead_letter())
        words = made.stream(stream, key=str, value=int)
        words.partition_by(str, id="by", key_type=str).map(share).send_to("out")
        return made

    add(system, b"0", b"many")
    go(system, pipeline())
    firing = (("fluvial-error", b"ValueError: no"), ("fluvial-operator", b"w"), ("fluvial-window", b"[0, 1)"))
    write(system, {LETTERS: [[(b"k", None, 0, firing)]], "other": [[]]})
    assert replay_dead_letters(pipeline("other"), system=system, dry_run=True).left == {
        "in is not read by the pipeline any more": 1,
        "p-by is between two stages: what comes there needs the watermarks of its stage": 1,
        "a result that failed without a message: nothing holds what it was made of": 1,
    }
    assert replay_dead_letters(pipeline(), system=system).handled == {"in": 1}
    assert drop_dead_letters(pipeline(), system=system).letters == 2


@pytest.mark.parametrize("partition", ["7", "-1", "9" * 30])
@pytest.mark.parametrize("cut", [False, True])
def test_a_letter_whose_partition_is_gone_holds_up_no_other(system: System, partition: str, cut: bool) -> None:
    add(system, b"0")
    go(system)
    place = {"fluvial-stream": b"in", "fluvial-partition": partition.encode(), "fluvial-offset": b"0"}
    reasons = {"fluvial-error": b"E: no", **place, **({"fluvial-value-size": b"9"} if cut else {})}
    write(system, {LETTERS: [[(None, b"1", 5, tuple(reasons.items()))]]})
    FIXED["fixed"] = True
    done = replay_dead_letters(sharing(), system=system)
    assert done.handled == {"in": 1}
    assert done.left == {"in does not have the partition any more that the message was read from": 1}
    assert len(contents(system, "in")) == 2


def test_a_stream_of_letters_that_was_made_anew_has_none_that_are_handled() -> None:
    system = ProducingSystem()
    add(system, b"0")
    go(system)
    replay_dead_letters(sharing(), system=system)
    system.admin().remove(LETTERS)
    go(system)
    assert [group[3] for group in listed(system)] == [1]


def test_wherever_a_replay_is_killed_each_message_goes_back_once() -> None:
    """A message and its mark become visible together."""
    left, system = 0, ProducingSystem()
    for left in range(40):
        system = ProducingSystem()
        add(system, b"0", b"0", b"0")
        go(system)
        system.fate.left = left
        try:
            replay_dead_letters(sharing(), system=system)
        except Killed:
            system.fate.left = FOREVER
            replay_dead_letters(sharing(), system=system)
            assert len(contents(system, "in")) == 6
            continue
        break
    assert 3 < left < 39
    assert len(contents(system, "in")) == 6


def test_two_replays_at_once_on_a_log_are_refused(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    add(system, b"0")
    go(system)
    with system.claim("p", "dead-letters"), pytest.raises(SystemProblem):
        replay_dead_letters(sharing(), system=system)
    assert len(contents(system, "in")) == 1


def test_of_two_replays_at_once_on_kafka_the_first_is_fenced() -> None:
    system = ProducingSystem()
    add(system, b"0")
    go(system)

    def overtake(*_: object) -> None:
        system.on_send = on_send
        assert replay_dead_letters(sharing(), system=system).letters == 1

    on_send, system.on_send = system.on_send, overtake
    with pytest.raises(SystemProblem):
        replay_dead_letters(sharing(), system=system)
    assert len(contents(system, "in")) == 2


@pytest.mark.slow
def test_many_letters_go_back_in_several_transactions(system: System) -> None:
    add(system, *[b"0"] * 1100)
    go(system)
    assert replay_dead_letters(sharing(), system=system).letters == 1100
    assert (len(contents(system, "in")), listed(system)) == (2200, [])


def test_a_pipeline_may_run_meanwhile(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    add(system, b"0")
    go(system)
    with system.claim("p"):
        assert replay_dead_letters(sharing(), system=system).letters == 1


def test_a_letter_of_a_letter_has_the_headers_of_the_message() -> None:
    before = (("fluvial-error", b"ValueError: first"), ("fluvial-stream", b"a"))
    now = (("fluvial-error", b"KeyError: 2"), ("fluvial-stream", b"b"), ("fluvial-partition", b"x"))
    letter = letter_of(0, 0, (None, b"", 0, (*before, *now)))
    assert letter is not None
    assert (letter.message[3], letter.error_class, letter.origin) == (before, "KeyError", None)
