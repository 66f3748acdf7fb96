"""Shares the limits of calls among the containers of a run, by records in a stream of the run's own."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread

from msgspec import DecodeError, json

from ....dsl.message import Record
from ....planner.plan import Plan
from ....planner.stream_names import limits
from ...kernel.calls.admission import Admission
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from .limit_board import BEAT_SECONDS, LimitBoard
from .limit_ledger import LimitGrant, LimitReport
from .membership import Membership
from .stream_clients import StreamClients, StreamPeer

# A seventh of a beat: less would wake the thread for nothing most of the time.
POLL_SECONDS = 0.02
"""Seconds that the thread waits for records at a time, at most. It reads a grant so much later than it could."""
CLOSE_SECONDS = 5.0
"""How long the end of a container waits for the thread."""

_log = logging.getLogger(__name__)
_decode = json.Decoder(LimitReport | LimitGrant).decode


class LimitLeases(StreamPeer):
    """Writes what a container reports and grants, and reads what all write, in a thread. Whatever fails is logged once,
    and tried again with other clients; meanwhile leases lapse, and calls wait. `granted` is called after each record:
    more calls may begin."""

    def __init__(
        self,
        system: ProducingSystem,
        pipeline: str,
        board: LimitBoard,
        granted: Callable[[], None],
        machine: Machine = THIS_MACHINE,
    ) -> None:
        super().__init__()
        self._system, self._stream, self._board, self._granted = system, limits(pipeline), board, granted
        self._machine = machine
        self._next: int | None = None
        self._failing = False
        self._stop = Event()
        self._thread = Thread(target=self._run, name="fluvial-limits", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def close(self) -> None:
        """End. What the container holds is given back, or lapses after a while."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.turn_safely(BEAT_SECONDS)
        if self._clients is not None:
            with suppress(Exception):  # what it holds lapses, then
                self._leave(self._clients)
        self._close_clients()  # in this thread, which may be late: no other may close what it may still use

    def _leave(self, clients: StreamClients) -> None:
        """Give back all that the container holds, and then what was granted before others had read that."""
        until = self._machine.clock() + 2 * BEAT_SECONDS
        self._give_back(clients)
        while self._machine.clock() < until:
            self._read(clients, POLL_SECONDS)
        self._give_back(clients)

    def _give_back(self, clients: StreamClients) -> None:
        record = self._board.leave(self._machine.clock())
        clients.producer.send(self._stream, 0, [(b"", json.encode(record), self._machine.wall(), ())])
        clients.producer.flush()

    def turn_safely(self, seconds: float) -> None:
        """A turn. Of errors in a row the first is logged; the next turn is made with other clients."""
        try:
            self.turn(seconds)
            self._failing = False
        # A run goes on without it: calls wait, and no call goes beyond the limit.
        except Exception as error:
            if not self._failing:
                _log.warning("limits of calls are not shared, and calls wait for them: %s", error)
            self._failing = True
            self._close_clients()
            self._stop.wait(seconds)

    def turn(self, seconds: float) -> None:
        """Write what is to be written now, and read for so many seconds."""
        clients = self._clients or self._open()
        # Written before reading, so that what others read of this container is at most a turn old.
        records = self._board.beat(self._machine.clock())
        wall = self._machine.wall()
        sent: list[Record] = [(b"", json.encode(record), wall, ()) for record in records]
        clients.producer.send(self._stream, 0, sent)
        clients.producer.flush()
        until = self._machine.clock() + seconds
        while not self._stop.is_set():
            left = until - self._machine.clock()
            if not self._read(clients, max(0.0, min(left, POLL_SECONDS))) and left <= 0:
                return

    def _read(self, clients: StreamClients, seconds: float) -> bool:
        """Read what comes within so many seconds. Returns whether anything has."""
        batches = clients.consumer.poll(seconds)
        for batch in batches:
            for _, value, _, _ in batch.records:
                with suppress(DecodeError, UnicodeDecodeError):  # something else has written to the stream
                    self._board.read(_decode(value or b""), self._machine.clock())
            self._next = batch.next_offset
            # After each batch, not each beat: calls that wait begin as soon as there is something for them.
            self._granted()
        return bool(batches)

    def _open(self) -> StreamClients:
        """Begin to read at the end of the stream, which is made where there is none, and after an error where reading
        ended: who misses a grant knows neither what others hold nor who leads."""
        admin = self._system.admin()
        admin.create(self._stream, 1, "heartbeats")
        start, end, known = admin.starts(self._stream)[0], admin.ends(self._stream)[0], self._next
        if known is not None and not start <= known <= end:  # these records are gone
            known = None
            self._board.begin(self._machine.clock())
        self._next = end if known is None else known
        self._clients = StreamClients.open(self._system, self._stream, self._next)
        return self._clients


def share_limits(
    plan: Plan,
    system: System,
    member: Membership,
    admissions: Sequence[Admission],
    machine: Machine = THIS_MACHINE,
) -> LimitLeases | None:
    """Share limits with the other containers of a run. On a system to which records can be sent at any time they are
    shared by leases, in a thread that this starts; on others each container has an equal part. Returns None where no
    lease is needed: a container that is alone, and stays so, has all of each limit."""
    if not admissions:
        return None
    if not isinstance(system, ProducingSystem):
        for admission in admissions:
            admission.divide(member.containers)
        return None
    if member.containers == 1 and member.ends is not None:
        return None

    def pump() -> None:
        for admission in admissions:
            admission.pump_soon()

    board = LimitBoard(member.run, member.container, admissions, machine.new_id, machine.clock())
    leases = LimitLeases(system, plan.name, board, pump, machine)
    leases.start()
    return leases
