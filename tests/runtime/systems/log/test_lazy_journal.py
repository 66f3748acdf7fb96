"""A journal that is read before there is a log."""

from pathlib import Path

import pytest

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.systems.log import LogSystem
from fluvial.runtime.systems.log.lazy_journal import LazyJournal


def test_reading_a_log_that_does_not_exist_creates_nothing(tmp_path: Path) -> None:
    log = LogSystem(tmp_path / "log")
    admin, consumer = log.admin(), log.consumer()
    assert (admin.streams(), admin.partitions("clicks"), admin.checkpoints("visits")) == ({}, None, {})
    with pytest.raises(SystemProblem, match="there is no stream 'clicks'"):
        consumer.assign({("clicks", 0): 0})
    assert consumer.poll() == []
    assert not log.directory.exists()


def test_a_log_that_is_made_later_is_read(tmp_path: Path) -> None:
    log = LogSystem(tmp_path / "log")
    reading = log.admin()
    assert reading.streams() == {}
    log.admin().create("clicks", 2)
    assert reading.streams() == {"clicks": 2}


def test_a_file_in_place_of_the_log_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemProblem, match=r"Not a directory|File exists|no folder"):
        LazyJournal(tmp_path / "file")
