"""Sends heartbeats of this container, and reads those of the others: who is alive, and who is silent for too long."""

import logging
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from threading import Event, Lock, Thread

from msgspec import DecodeError, Struct, json, structs

from ....dsl.message import Record
from ....planner.stream_names import heartbeats
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..coordination.stream_clients import StreamClients, StreamPeer

# Four may be lost, or come late, before a container is taken for dead; more would be records that say nothing.
BEATS = 5
"""How many heartbeats a container sends within the timeout. It reads those of the others as often."""
POLL_SECONDS = 0.1
"""How long the end of a container waits for the thread, at most."""
# Half an hour of a hundred containers with the usual timeout. An end that is older was dealt with long ago.
HISTORY = 100_000
"""How many of the last heartbeats are read at the start, to learn which containers have ended in good order."""

_log = logging.getLogger(__name__)


class Heartbeat(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that says that a process of a run is alive; or that it has `ended` in good order, so that nobody takes
    its tasks over. `lacks` are the tasks whose copies have failed in this process: others are to take these over."""

    container: int
    run: str
    incarnation: str = ""
    ended: bool = False
    lacks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Silence:
    """The time since which no heartbeat of a container's process has been read."""

    incarnation: str
    since: float


_decode = json.Decoder(Heartbeat).decode


class Heartbeats(StreamPeer):
    """Sends the heartbeats of a container and reads those of the others, in a thread. It decides nothing: a decision
    may take long, and would delay heartbeats.

    It reads its own heartbeats, too. If it has read none of its own for a while, since its process stood still or
    brokers are out of reach, it has read none of the others either: then each of these gets the whole timeout again.
    After an error it goes on at the usual pace with new clients, and with a new stream if the old one is gone."""

    def __init__(
        self,
        system: ProducingSystem,
        pipeline: str,
        run: str,
        container: int,
        timeout: timedelta,
        machine: Machine = THIS_MACHINE,
        incarnation: str = "",
    ) -> None:
        super().__init__()
        self.timeout = timeout.total_seconds()
        self._system, self._stream = system, heartbeats(pipeline)
        self._own = Heartbeat(container=container, run=run, incarnation=incarnation)
        self._machine = machine
        self._lock = Lock()
        self._heard: dict[int, float] = {}
        """When the last heartbeat of each container was read. Who is alive is computed from this alone."""
        self._silences: dict[int, Silence] = {}
        self._known: set[tuple[int, str]] = set()
        self._ended: dict[int, str] = {}
        self._lacks: dict[int, frozenset[str]] = {}
        self._lacking: Collection[str] = ()
        self._echo, self._opened = float("-inf"), float("-inf")
        self._failing = False
        self._stop = Event()
        self._open()
        self._read_history()
        self._thread = Thread(target=self._run, name="fluvial-heartbeats", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    @property
    def hears_itself(self) -> bool:
        """Whether it has read one of its own heartbeats lately. If not, it has not read those of the others either."""
        # Half, so that it knows of its own deafness before the silence of others seems to last for the whole timeout.
        return self._machine.clock() - self._echo <= self.timeout / 2

    @property
    def alive(self) -> frozenset[int]:
        """The containers whose heartbeats were read lately, and this one."""
        since = self._machine.clock() - self.timeout
        with self._lock:
            return frozenset([self._own.container, *(one for one, heard in self._heard.items() if heard >= since)])

    @property
    def silent(self) -> Mapping[int, Silence]:
        """The containers that have been silent for the timeout, and that have not ended in good order."""
        since = self._machine.clock() - self.timeout
        with self._lock:
            return {
                number: one
                for number, one in self._silences.items()
                if one.since < since and self._ended.get(number) != one.incarnation
            }

    def lacking(self, tasks: Collection[str]) -> Collection[int]:
        """The containers in which a copy of any of these tasks has failed."""
        with self._lock:
            return {number for number, lacks in self._lacks.items() if not lacks.isdisjoint(tasks)}

    def lack(self, tasks: Collection[str]) -> None:
        """From now on, let others know that copies of these tasks have failed."""
        self._lacking = tasks

    def expect(self, others: Mapping[int, str]) -> None:
        """Expect heartbeats of these processes of containers. The timeout of a process that was not expected before
        begins now."""
        for container, incarnation in others.items():
            if (container, incarnation) not in self._known:
                self.give_time(container, incarnation)

    def give_time(self, container: int, incarnation: str) -> None:
        """Expect heartbeats of a process of a container that has just started."""
        with self._lock:
            self._known.add((container, incarnation))
            self._silences[container] = Silence(incarnation, self._machine.clock())

    def stop(self) -> None:
        """Send no more heartbeats: this container has been taken for dead, and the others are to find it silent."""
        self._stop.set()

    def close(self, *, ended: bool) -> None:
        """End. Where the container has `ended` in good order, let others know, so that nobody takes its tasks over."""
        self._stop.set()
        if self._thread.ident is not None:
            # Before the last record is sent: a heartbeat behind it would say that this container is alive.
            self._thread.join()
        try:
            if ended and self._clients is not None:
                self._send(self._clients, structs.replace(self._own, ended=True))
        except Exception as error:  # the run has ended well all the same
            text = "container %d cannot tell others that it has ended, so that they may take its tasks over: %s"
            _log.warning(text, self._own.container, error)
        finally:
            self._close_clients()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.turn_safely(self.timeout / BEATS)

    def turn_safely(self, seconds: float) -> None:
        """Do a turn. Of errors in a row the first is logged; the next turn is made with new clients, at the usual
        pace."""
        try:
            self.turn(seconds)
            self._failing = False
        # A run goes on without it: at worst others take its tasks over, and fence it.
        except Exception as error:
            if not self._failing:
                text = "heartbeats of container %d fail, and are tried again: %s"
                _log.warning(text, self._own.container, error)
            self._failing = True
            self._close_clients()
            self._stop.wait(seconds)

    def turn(self, seconds: float) -> None:
        """Send a heartbeat, and read those of others for up to so many seconds."""
        if self._machine.clock() - max(self._echo, self._opened) > self.timeout:
            self._close_clients()  # the stream may have been made anew
        clients = self._clients or self._open()
        lacks = tuple(sorted(self._lacking))
        self._send(clients, structs.replace(self._own, lacks=lacks) if lacks else self._own)
        self._read(clients, seconds)

    def _open(self) -> StreamClients:
        """Begin to read at the end of the stream, which is made where there is none."""
        admin = self._system.admin()
        admin.create(self._stream, 1, "heartbeats")
        clients = StreamClients.open(self._system, self._stream, admin.ends(self._stream)[0])
        self._clients, self._opened = clients, self._machine.clock()
        return clients

    def _read_history(self) -> None:
        """Learn which containers have ended in good order before this one has started."""
        admin = self._system.admin()
        start, end = admin.starts(self._stream)[0], admin.ends(self._stream)[0]
        # Bounded in time too: a container must start although brokers are slow.
        at, until = max(start, end - HISTORY), self._machine.clock() + self.timeout
        with closing(self._system.consumer()) as consumer:
            consumer.assign({(self._stream, 0): at})
            while at < end and self._machine.clock() < until:
                for batch in consumer.poll(POLL_SECONDS):
                    at = batch.next_offset
                    for one in map(_decoded, batch.records):
                        if one is not None and one.run == self._own.run:
                            self._note_end(one)

    def _send(self, clients: StreamClients, heartbeat: Heartbeat) -> None:
        record: Record = (b"%d" % heartbeat.container, json.encode(heartbeat), self._machine.wall(), ())
        clients.producer.send(self._stream, 0, [record])
        clients.producer.flush()

    def _read(self, clients: StreamClients, seconds: float) -> None:
        until = self._machine.clock() + seconds
        while not self._stop.is_set():
            left = until - self._machine.clock()
            for batch in clients.consumer.poll(max(0.0, min(left, POLL_SECONDS))):
                for heartbeat in map(_decoded, batch.records):
                    if heartbeat is not None:
                        self._hear(heartbeat)
            if left <= 0:
                return

    def _hear(self, heartbeat: Heartbeat) -> None:
        now, container = self._machine.clock(), heartbeat.container
        if heartbeat.run != self._own.run:
            return
        with self._lock:
            if container == self._own.container:
                if heartbeat.incarnation == self._own.incarnation:
                    self._hear_itself(now)
                return
            self._note_end(heartbeat)
            if heartbeat.ended:
                self._heard.pop(container, None)
                self._lacks.pop(container, None)
            else:
                self._heard[container] = now
                self._lacks[container] = frozenset(heartbeat.lacks)
            self._known.add((container, heartbeat.incarnation))
            self._silences[container] = Silence(heartbeat.incarnation, now)

    def _hear_itself(self, now: float) -> None:
        if now - self._echo > self.timeout / 2:
            # It was deaf itself: all others would seem to have been silent for as long, and it would take over a whole
            # run.
            self._silences = {number: Silence(one.incarnation, now) for number, one in self._silences.items()}
        self._echo = now

    def _note_end(self, heartbeat: Heartbeat) -> None:
        if heartbeat.ended:
            self._ended[heartbeat.container] = heartbeat.incarnation
        elif self._ended.get(heartbeat.container) == heartbeat.incarnation:
            del self._ended[heartbeat.container]


def _decoded(record: Record) -> Heartbeat | None:
    """A heartbeat; None for what something else has written to the stream."""
    try:
        return _decode(record[1] or b"")
    except DecodeError:
        return None
