"""What a container says of containers that it waits for."""

from dataclasses import dataclass, field
from typing import cast

import pytest

from fluvial.runtime.local.coordination.membership import Membership, MembershipGuard
from fluvial.runtime.local.coordination.wait_messages import WaitReporter


@dataclass
class Guard:
    """A guard that knows which containers have not started."""

    absent: tuple[int, ...] = ()
    unfinished: tuple[object, ...] = ()
    assignment: None = None
    membership: Membership = field(default_factory=lambda: Membership(0, 2, 1, "r", frozenset(), None, "p-1-0"))


def test_the_wait_for_containers_of_a_run_that_grows_begins_when_it_does(caplog: pytest.LogCaptureFixture) -> None:
    guard = Guard()
    reporter = WaitReporter(cast("MembershipGuard", guard), None, lambda: 0.0)
    reporter.report(80.0, 80.0)
    guard.absent = (1,)
    for now in (84.0, 90.0, 95.0):
        reporter.report(now, now)
    (line,) = [record.getMessage().splitlines()[0] for record in caplog.records]
    assert line == (
        "container 0 waits for container 1 of 2, which has not started in this run: 11 s so far, for as long as that "
        "takes"
    )
