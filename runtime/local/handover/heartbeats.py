"""Tells that this container is alive, and notices which others are not."""

import logging
from collections.abc import Callable, Collection
from contextlib import closing
from datetime import timedelta
from threading import Event, Thread

from msgspec import Struct, json, structs

from ....dsl.errors import FluvialError
from ....dsl.message import Record
from ....planner.stream_names import heartbeats
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem

BEATS = 5
"""Heartbeats in the time after which a container is taken for dead. As often it is looked for those of others."""

POLL_SECONDS = 0.1
"""How long the end of a container waits for the thread, at most."""

_log = logging.getLogger(__name__)

OnSilent = Callable[[int, Collection[int]], None]
"""Called with a container that has been silent for too long, and those that are alive, this one among them."""
OnTurn = Callable[[Collection[int]], None]
"""Called now and then with the containers that are alive."""


class Heartbeat(Struct, frozen=True, kw_only=True):
    """A container of a run is alive; or it has `ended` in good order, so that nobody is to take its tasks over."""

    container: int
    run: str
    ended: bool = False


_decode = json.Decoder(Heartbeat).decode


class Heartbeats:
    """Sends heartbeats of a container in a thread, and calls `on_silent` for each other one that has sent some, and
    then none for `timeout`: again each time that this passes, for as long as it is silent. `on_turn` is called each
    time.

    It hears itself, too. Where it has not for a while, since it stood still or brokers are out of reach, it has not
    heard others either, and gives them their time again."""

    def __init__(
        self,
        system: ProducingSystem,
        pipeline: str,
        run: str,
        container: int,
        timeout: timedelta,
        on_silent: OnSilent,
        on_turn: OnTurn,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self._stream = heartbeats(pipeline)
        self._own = Heartbeat(container=container, run=run)
        self._timeout = timeout.total_seconds()
        self._on_silent, self._on_turn = on_silent, on_turn
        self._machine = machine
        self._heard: dict[int, float] = {}
        self._echo = float("-inf")
        self._stop = Event()
        system.admin().create(self._stream, 1, "heartbeats")
        self._consumer = system.consumer()
        self._consumer.assign({(self._stream, 0): system.admin().ends(self._stream)[0]})
        self._producer = system.record_producer(once=False, streams=[self._stream])
        self._thread = Thread(target=self._run, name="fluvial-heartbeats", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    @property
    def alive(self) -> frozenset[int]:
        """The containers that have been heard of lately, and this one."""
        since = self._machine.clock() - self._timeout
        return frozenset([self._own.container, *(one for one, heard in self._heard.items() if heard >= since)])

    def close(self, *, ended: bool) -> None:
        """End. Where the container has `ended` in good order, let others know, so that nobody takes its tasks over."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        with closing(self._consumer), closing(self._producer):
            if ended:
                self._send(structs.replace(self._own, ended=True))

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.turn(self._timeout / BEATS)
            except FluvialError as error:
                _log.warning("heartbeats of container %d fail, and are tried again: %s", self._own.container, error)
                self._stop.wait(self._timeout)

    def turn(self, seconds: float) -> None:
        """Send a heartbeat, read those of others for up to so many seconds, and tell of those that are silent."""
        self._send(self._own)
        self._read(seconds)
        now = self._machine.clock()
        if now - self._echo > self._timeout / 2:
            return
        silent = [one for one, heard in self._heard.items() if now - heard > self._timeout]
        for one in silent:
            self._heard[one] = now
            self._on_silent(one, self.alive - {*silent})
        self._on_turn(self.alive)

    def _send(self, heartbeat: Heartbeat) -> None:
        record: Record = (b"%d" % heartbeat.container, json.encode(heartbeat), self._machine.wall(), ())
        self._producer.send(self._stream, 0, [record])
        self._producer.flush()

    def _read(self, seconds: float) -> None:
        until = self._machine.clock() + seconds
        while not self._stop.is_set():
            left = until - self._machine.clock()
            for batch in self._consumer.poll(max(0.0, min(left, POLL_SECONDS))):
                for record in batch.records:
                    self._hear(_decode(record[1] or b""))
            if left <= 0:
                return

    def _hear(self, heartbeat: Heartbeat) -> None:
        now = self._machine.clock()
        if heartbeat.run != self._own.run:
            return
        if heartbeat.container == self._own.container:
            if now - self._echo > self._timeout / 2:
                self._heard = dict.fromkeys(self._heard, now)
            self._echo = now
        elif heartbeat.ended:
            self._heard.pop(heartbeat.container, None)
        else:
            self._heard[heartbeat.container] = now
