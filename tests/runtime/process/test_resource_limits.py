"""What to do where the machine has run out of something."""

import errno
import os

import pytest

from fluvial.runtime.process.resource_limits import remedy_for


@pytest.mark.parametrize(
    ("number", "remedy"), [(errno.ENOSPC, "free space"), (errno.EFBIG, "ulimit -f"), (errno.EMFILE, "ulimit -n")]
)
def test_each_has_a_remedy(number: int, remedy: str) -> None:
    assert remedy in (remedy_for(OSError(number, os.strerror(number))) or "")
