"""Leases of limits in the stream of a run: containers share, go on after errors, and divide where nothing is sent."""

import asyncio
import logging
from collections import Counter
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from threading import Event, Thread, current_thread
from typing import Any

import pytest
from msgspec import json

from engines.sending import MemorySender, ProducingSystem, RefusingSystem
from fluvial.dsl import Limit, Pipeline, PlanError
from fluvial.planner import plan
from fluvial.runtime.kernel.calls.admission import Admission
from fluvial.runtime.local.coordination import limit_leases
from fluvial.runtime.local.coordination.limit_board import BEAT_SECONDS, LimitBoard
from fluvial.runtime.local.coordination.limit_leases import LimitLeases, share_limits
from fluvial.runtime.local.coordination.limit_ledger import LimitReport
from fluvial.runtime.local.coordination.membership import Membership
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems import MemorySystem
from waiting import wait_until

LIMIT = Limit("service", calls=80, per=timedelta(seconds=10))


async def ask(value: str) -> list[str]:
    return [value]


def pipeline(name: str = "p", reads: str = "words") -> Pipeline:
    made = Pipeline(name)
    made.stream(reads, value=str).async_flat_map(ask, id="ask", limit=LIMIT).send_to("answers")
    return made


class Sharing:
    """Containers of a run that share a limit when a test says so."""

    def __init__(self, containers: int) -> None:
        self.system, self.now, self.pumped = RefusingSystem(), 0.0, 0
        self.machine = replace(THIS_MACHINE, clock=lambda: self.now)
        self.admissions = [Admission(LIMIT) for _ in range(containers)]
        self.leases = [self._leases(number) for number in range(containers)]

    def _leases(self, number: int) -> LimitLeases:
        board = LimitBoard("run", number, [self.admissions[number]], THIS_MACHINE.new_id, 0.0)
        return LimitLeases(self.system, "p", board, self._pump, self.machine)

    def _pump(self) -> None:
        self.pumped += 1

    def turns(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            self.now += BEAT_SECONDS
            for leases in self.leases:
                leases.turn_safely(0.0)

    def shares(self) -> list[float]:
        return [admission.meters["calls"].most for admission in self.admissions]


def test_containers_share_a_limit_by_the_stream() -> None:
    sharing = Sharing(4)
    assert sharing.shares() == [0, 0, 0, 0]
    sharing.turns(3)
    assert sharing.shares() == [20, 20, 20, 20]
    assert sharing.pumped
    assert all(admission.lease_ends > sharing.now for admission in sharing.admissions)
    sharing.leases.pop()
    sharing.turns(14)
    assert [round(share) for share in sharing.shares()[:3]] == [27, 27, 27]
    assert sharing.admissions[3].lease_ends < sharing.now


def test_errors_are_reported_once_and_leases_lapse_until_they_are_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sharing = Sharing(2)
    sharing.turns(3)
    sharing.system.refuses = True
    for leases in sharing.leases:
        leases._close_clients()
    with caplog.at_level(logging.WARNING):
        sharing.turns(2)
    assert [record.getMessage() for record in caplog.records] == [
        "limits of calls are not shared, and calls wait for them: no broker"
    ] * 2
    assert all(admission.lease_ends < sharing.now for admission in sharing.admissions)
    sharing.system.refuses = False
    sharing.turns(20)
    assert sharing.shares() == [40, 40]


@pytest.mark.parametrize("gone", [False, True])
def test_a_container_whose_clients_failed_takes_part_again(gone: bool) -> None:
    sharing = Sharing(3)
    sharing.turns(3)
    leader, second, _ = sharing.leases
    assert leader._board.leads
    second._close_clients()
    del sharing.leases[:2]
    sharing.turns(3)  # another leads meanwhile
    if gone:
        second._next = 1 << 20
    sharing.leases.append(second)
    sharing.turns(20)
    assert sharing.shares()[1:] == [40, 40]
    assert sum(leases._board.leads for leases in sharing.leases) == 1


def test_what_else_is_written_to_the_stream_is_passed_over() -> None:
    sharing = Sharing(1)
    sharing.turns(1)
    with closing(sharing.system.record_producer(once=False)) as producer:
        strange = b'{"type": "grant", "run": "run", "term": 99, "leader": "\xff"}'
        producer.send("p-limits", 0, [(b"", b"hello", 0, ()), (b"", None, 0, ()), (b"", strange, 0, ())])
        producer.flush()
    sharing.turns(2)
    assert sharing.shares() == [80]


def _member(containers: int, *, ends: bool) -> Membership:
    return Membership(0, containers, 1, "run", frozenset(), {("words", 0): 1} if ends else None, "p-1-0")


def test_a_container_that_is_alone_to_an_end_has_all() -> None:
    admission = Admission(LIMIT)
    assert share_limits(plan(pipeline()), ProducingSystem(), _member(1, ends=True), [admission]) is None
    assert share_limits(plan(pipeline()), ProducingSystem(), _member(4, ends=True), []) is None
    assert admission.meters["calls"].most == 80


def test_where_nothing_is_sent_each_container_has_an_equal_part() -> None:
    admission = Admission(LIMIT)
    assert share_limits(plan(pipeline()), MemorySystem(), _member(4, ends=True), [admission]) is None
    assert admission.meters["calls"].most == 20


def test_a_thread_shares_while_the_container_runs_and_gives_back_at_its_end() -> None:
    admission, system = Admission(LIMIT), ProducingSystem()

    async def enter() -> None:
        waits = asyncio.get_running_loop().create_task(admission.enter("word"))
        leases = share_limits(plan(pipeline()), system, _member(2, ends=False), [admission])
        assert leases is not None
        try:
            await asyncio.wait_for(waits, 60)
        finally:
            leases.close()

    admission.lease_ends = 0.0
    asyncio.run(enter())
    assert admission.begun == 1
    admission.pump_soon()  # the loop is closed
    (end,) = system.admin().ends("p-limits")
    consumer = system.consumer()
    consumer.assign({("p-limits", 0): end - 1})
    ((_, last, *_),) = consumer.poll()[0].records
    report = json.decode(last or b"", type=LimitReport)
    holding = report.holdings["service/calls"]
    assert (holding.capacity, holding.used, report.leaves) == (1, 1, True)


class StuckSystem(ProducingSystem):
    """A system whose brokers do not answer until they `go_on`; it keeps in which threads its clients were closed."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on, self.closed_in = Event(), Event(), list[Thread]()

    def record_producer(self, *args: Any, **options: Any) -> MemorySender:
        del args, options
        return StuckSender(self)


class StuckSender(MemorySender):
    """Sends what is flushed once its system goes on."""

    def __init__(self, system: StuckSystem) -> None:
        super().__init__(system, None, Counter())
        self._stuck = system

    def flush(self) -> None:
        self._stuck.begun.set()
        self._stuck.go_on.wait(60)
        super().flush()

    def close(self) -> None:
        self._stuck.closed_in.append(current_thread())


def test_no_clients_are_closed_under_a_thread_that_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limit_leases, "CLOSE_SECONDS", 0.0)
    system = StuckSystem()
    leases = share_limits(plan(pipeline()), system, _member(2, ends=False), [Admission(LIMIT)])
    assert leases is not None
    assert system.begun.wait(60)
    leases.close()
    assert system.closed_in == []
    system.go_on.set()
    wait_until(lambda: bool(system.closed_in), "the end of the thread")
    assert system.closed_in == [leases._thread]


def test_the_stream_is_the_pipelines_own() -> None:
    with pytest.raises(PlanError, match="which is kept for the limits of the pipeline's calls"):
        plan(pipeline(reads="p-limits"))
    plan(pipeline("q", reads="p-limits"))
