"""Tokens: who may publish them, how often, and what is refused."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems.log import LogSystem

Numbered = Callable[..., list[Record]]
Read = Callable[..., list[Record]]


def prepared(log: LogSystem, records: list[Record], checkpoints: Mapping[str, bytes] | None = None) -> bytes:
    """The token of a transaction of a writer that is gone."""
    producer = log.producer()
    writing = producer.begin()
    writing.append("clicks", 0, records)
    token = writing.prepare("tasks", checkpoints or {})
    producer.close()
    return token


def at_least(batch: int) -> Callable[[Mapping[str, bytes]], bool]:
    return lambda saved: int(saved.get("batch", b"-1")) >= batch


def test_a_batch_with_a_number_is_published_once(log: LogSystem, read: Read, numbered: Numbered) -> None:
    driver = log.producer()
    first, again = ([prepared(log, numbered(2)), prepared(log, numbered(2, 4))] for _ in range(2))
    assert driver.publish_all(first, "query", {"batch": b"0"}, unless=at_least(0))
    assert not log.producer().publish_all(again, "query", {"batch": b"0"}, unless=at_least(0))
    assert driver.publish_all(again, "query", {"batch": b"1"}, unless=at_least(1))
    assert read(log, "clicks") == [*numbered(4), *numbered(4)]
    assert log.admin().checkpoints("query") == {"batch": b"1"}


def test_publishing_all_leaves_out_what_is_visible(log: LogSystem, read: Read, numbered: Numbered) -> None:
    tokens = [prepared(log, numbered(0, 1)), prepared(log, numbered(1, 2))]
    log.producer().publish(tokens[1])
    assert log.producer().publish_all([*tokens, *tokens])
    assert read(log, "clicks") == [*numbered(1, 2), *numbered(0, 1)]


def test_checkpoints_of_tokens_come_before_those_of_the_whole(log: LogSystem, numbered: Numbered) -> None:
    token = prepared(log, numbered(1), {"one": b"token", "two": b"token"})
    log.producer().publish_all([token], "tasks", {"two": b"whole"})
    assert log.admin().checkpoints("tasks") == {"one": b"token", "two": b"whole"}


def test_a_token_is_known_after_compaction(tmp_path: Path, read: Read, numbered: Numbered) -> None:
    log = LogSystem(tmp_path, fsync=False, compact_bytes=1)
    log.admin().create("clicks", 1)
    token = prepared(log, numbered(3))
    log.producer().publish(token)
    log.producer().begin().commit("other", {"task": b"x" * 1000})
    log.producer().publish(token)
    assert read(log, "clicks") == numbered(3)


def test_a_token_whose_file_is_gone_publishes_nothing(log: LogSystem, read: Read, numbered: Numbered) -> None:
    tokens = [prepared(log, numbered(1)), prepared(log, numbered(1), {"task": b"1"})]
    next(iter(sorted(log.directory.glob("streams/*/*/*.seg")))).unlink()
    with pytest.raises(SystemProblem, match=r"\.seg is gone, which vacuum may have removed"):
        log.producer().publish_all(tokens)
    assert (read(log, "clicks"), log.admin().checkpoints("tasks")) == ([], {})


def test_a_token_whose_file_was_cut_publishes_nothing(log: LogSystem, read: Read, numbered: Numbered) -> None:
    token = prepared(log, numbered(1))
    next(log.directory.glob("streams/*/*/*.seg")).write_bytes(b"")
    with pytest.raises(SystemProblem, match=r"(?s)has 0 bytes: .*expected: \d+ bytes or more"):
        log.producer().publish(token)
    assert read(log, "clicks") == []


def test_a_token_of_another_log_is_refused(log: LogSystem, tmp_path: Path, numbered: Numbered) -> None:
    other = LogSystem(tmp_path / "other", fsync=False)
    with pytest.raises(SystemProblem, match="there is no stream 'clicks'"):
        other.producer().publish(prepared(log, numbered(1)))
    other.admin().create("clicks", 2)
    with pytest.raises(SystemProblem, match="the token names no transaction"):
        other.producer().publish(prepared(log, numbered(1)))


def test_a_token_that_was_changed_is_refused(log: LogSystem, numbered: Numbered) -> None:
    token = bytearray(prepared(log, numbered(1)))
    for changed in (token[:-1], token + b"x", bytes([token[0] ^ 1]) + token[1:], token[:-1] + bytes([token[-1] ^ 1])):
        with pytest.raises(SystemProblem, match="the token names no transaction"):
            log.producer().publish(bytes(changed))


def test_an_empty_commit_adds_nothing(log: LogSystem) -> None:
    size = (log.directory / "journal").stat().st_size
    log.producer().begin().commit()
    log.producer().publish(log.producer().begin().prepare("tasks", {}))
    assert (log.directory / "journal").stat().st_size == size
