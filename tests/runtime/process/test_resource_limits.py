"""What to do where the machine has run out of something."""

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fluvial.dsl import SystemProblem
from fluvial.runtime.process.resource_limits import (
    exhaustion_behind,
    exhaustion_explained,
    full_disks_explained,
    remedy_for,
)


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOSPC, "free space"), (errno.EFBIG, "ulimit -f"), (errno.EMFILE, "ulimit -n")]
)
def test_each_has_a_remedy(number: int, remedy: str) -> None:
    assert remedy in (remedy_for(OSError(number, os.strerror(number))) or "")


@pytest.mark.parametrize(("number", "remedy"), [(errno.ENFILE, "sysctl fs.file-max"), (errno.EMFILE, "ulimit -n")])
def test_each_is_known_by_its_text_alone(number: int, remedy: str) -> None:
    assert remedy in (remedy_for(RuntimeError(f"IO error: x.sst: {os.strerror(number)}")) or "")


def test_what_the_machine_has_run_out_of_is_a_problem_with_a_remedy() -> None:
    with pytest.raises(SystemProblem, match="free space"), exhaustion_explained():
        raise OSError(errno.ENOSPC, "No space left on device")


def chained(error: BaseException, behind: BaseException, *, told: bool = True) -> BaseException:
    """An error that was raised from another one, or as that was handled."""
    try:
        try:
            raise behind
        except BaseException:
            raise error from behind if told else None
    except BaseException as raised:
        return raised


@pytest.mark.parametrize(
    "wrap",
    [
        lambda error: error,
        lambda error: chained(ValueError(), chained(KeyError(), error)),
        lambda error: BaseExceptionGroup("both", [ValueError(), chained(ValueError(), error)]),
    ],
)
def test_it_is_found_behind_the_error_of_a_client(wrap: Callable[[Exception], BaseException]) -> None:
    lack, other = OSError(errno.EMFILE, "Too many open files"), OSError(errno.ECONNREFUSED, "Connection refused")
    assert exhaustion_behind(wrap(lack)) is lack
    assert exhaustion_behind(wrap(other)) is None


def test_it_is_not_looked_for_behind_an_error_that_was_raised_from_none_or_from_itself() -> None:
    lack, circle = OSError(errno.ENOSPC, "No space left on device"), ValueError()
    circle.__context__ = circle
    assert exhaustion_behind(chained(ValueError(), lack, told=False)) is None
    assert exhaustion_behind(circle) is None


def test_another_error_of_the_machine_stays_as_it_is() -> None:
    with pytest.raises(FileNotFoundError), exhaustion_explained():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")


def test_the_room_on_each_disk_is_reported_beside_the_error_of_a_full_one(tmp_path: Path) -> None:
    """Java does not say which file it could not write."""
    later = tmp_path / "made" / "later"
    with pytest.raises(SystemProblem) as raised, full_disks_explained([later, tmp_path]):
        raise SystemProblem("java.io.IOException: No space left on device")
    first, second = str(raised.value).splitlines()
    assert first == "java.io.IOException: No space left on device"
    assert re.fullmatch(rf"  room now: [0-9,]+ of [0-9,]+ MiB for {re.escape(str(later))}", second)


def test_another_error_says_nothing_of_disks(tmp_path: Path) -> None:
    with pytest.raises(SystemProblem, match=r"\Ano broker\Z"), full_disks_explained([tmp_path]):
        raise SystemProblem("no broker")
