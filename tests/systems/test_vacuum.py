"""What vacuum removes, and what it keeps."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems.log import LogSystem, vacuum

Numbered = Callable[..., list[Record]]
Read = Callable[..., list[Record]]

DAY = timedelta(days=1)


def tomorrow(log: LogSystem) -> Callable[[], float]:
    """A clock that shows more than a day after the last write."""
    newest = max(path.stat().st_mtime for path in log.directory.glob("streams/*/*/*.seg"))
    return lambda: newest + DAY.total_seconds() + 1


def test_files_without_published_records_go_when_they_are_old(log: LogSystem, read: Read, numbered: Numbered) -> None:
    kept, left = (log.producer().begin() for _ in range(2))
    for writing in (kept, left):
        writing.append("clicks", 0, numbered(5))
    kept.commit()
    token = left.prepare("", {})
    assert vacuum(log.directory, DAY, now=lambda: tomorrow(log)() - 10) == []
    assert len(vacuum(log.directory, DAY, now=tomorrow(log))) == 1
    assert read(log, "clicks") == numbered(5)
    with pytest.raises(SystemProblem, match="vacuum may have removed"):
        log.producer().publish(token)


def test_a_file_with_any_published_record_stays(log: LogSystem, numbered: Numbered) -> None:
    producer = log.producer()
    for number in range(2):
        writing = producer.begin()
        writing.append("clicks", 0, numbered(5))
        token = writing.prepare("", {})
        if number:
            producer.publish(token)
    assert vacuum(log.directory, DAY, now=tomorrow(log)) == []
