"""What to do where the machine has run out of something."""

import errno
import os

import pytest

from fluvial.dsl import SystemProblem
from fluvial.runtime.process.resource_limits import exhaustion_explained, remedy_for


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOSPC, "free space"), (errno.EFBIG, "ulimit -f"), (errno.EMFILE, "ulimit -n")]
)
def test_each_has_a_remedy(number: int, remedy: str) -> None:
    assert remedy in (remedy_for(OSError(number, os.strerror(number))) or "")


def test_what_the_machine_has_run_out_of_is_a_problem_with_a_remedy() -> None:
    with pytest.raises(SystemProblem, match="free space"), exhaustion_explained():
        raise OSError(errno.ENOSPC, "No space left on device")


def test_another_error_of_the_machine_stays_as_it_is() -> None:
    with pytest.raises(FileNotFoundError), exhaustion_explained():
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")
