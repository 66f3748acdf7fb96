"""Restores the stores of tasks from their changelogs, up to the commits of their checkpoints."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace as replace_range
from functools import partial

from msgspec import json
from msgspec.structs import replace

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ...kernel.state_backend import Change
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem
from ..checkpoints.checkpoint import Checkpoint, decode, encode, is_ahead
from ..stores.store_keys import CHECKPOINT, META
from ..task_setup import TaskSetup
from .changelog import ChangelogOffsets, ChangelogRange, replay

_ORIGIN, _USED = b"origin", b"used"
# Two days less: one for a clock that is ahead, and one for a restore that takes long.
STALE_MS = 5 * 24 * 3600 * 1000
"""A store that was not used for that long is rebuilt. Changelogs keep deletions for 7 days."""
AHEAD_MS = 24 * 3600 * 1000
"""A store that was used later than that from now is rebuilt too. With STALE_MS it is less than those 7 days."""

# Far longer than a commit takes: what is still open then is that of a dead container, and ends as that is replaced.
SHARED_SECONDS = 60.0
"""How long a start waits for transactions of other containers that are open on its changelogs."""
# Each look is a request to brokers. The transactions that are waited for last as long as a commit interval, seconds.
SHARED_PAUSE_SECONDS = 0.2

# A quarter of one core at the most: the tasks that run beside it have the rest.
RESTS = 3.0
"""How long whoever restores what nobody waits for rests after each batch, in times of that batch."""

OnRestore = Callable[[int, int], None]
"""Called with (records restored, offsets of changelogs still to be read): first before any record, then after each
batch."""


def ignore_restore(restored: int, left: int) -> None:
    """The default `OnRestore`: how far a restore has come is not reported."""


class StoreRestorer:
    """Restores stores from changelogs. One thread may use it at a time."""

    def __init__(
        self,
        system: ProducingSystem,
        on_restore: OnRestore = ignore_restore,
        machine: Machine = THIS_MACHINE,
        *,
        live: bool = False,
        rests: float = 0.0,
    ) -> None:
        """`live` says that other containers may run the tasks. After each batch it rests, so many times as long as that
        took: what runs beside it has the processor meanwhile."""
        self._system = system
        self._admin = system.admin()
        self._on_restore = on_restore
        self._clock, self._wall, self._sleep = machine.clock, machine.wall, machine.sleep
        self._live, self._rests = live, rests

    def restore(
        self, setups: Sequence[TaskSetup], checkpoints: Mapping[str, Checkpoint]
    ) -> tuple[dict[str, Checkpoint], list[ChangelogRange]]:
        """Restore each store that is behind its checkpoint, so that it holds the state of that commit.

        Returns the checkpoint of each task, and what its changelogs hold beyond a checkpoint that was not written in
        one transaction with them. Raises SystemProblem where a changelog lacks what a checkpoint needs."""
        restored = {setup.name: checkpoints.get(setup.name, Checkpoint()) for setup in setups}
        stateful = [setup for setup in setups if setup.stateful]
        streams = {stream for setup in stateful for stream in setup.changelogs.values()}
        changelogs = {stream: ChangelogOffsets(self._admin, stream) for stream in streams}
        self._wait_for_shared(stateful, restored, changelogs)
        behind: list[ChangelogRange] = []
        beyond: list[ChangelogRange] = []
        for setup in stateful:
            own = self._stored_checkpoint(setup, _origin(setup, changelogs), restored[setup.name])
            # The store has schemas of state that the checkpoint may lack.
            restored[setup.name] = replace(restored[setup.name], states={**own.states, **restored[setup.name].states})
            for operator, stream in setup.changelogs.items():
                missing = _behind(setup, operator, changelogs[stream], own, restored[setup.name])
                behind.append(missing)
                if not restored[setup.name].atomic:
                    end = changelogs[stream].ends[setup.number]
                    beyond.append(replace_range(missing, start=missing.end, end=end))
        self._replay(behind)
        # Not before: a restore that is cut off begins again where the store's own checkpoint ends.
        for setup in stateful:
            data = encode(restored[setup.name])
            setup.store.write([(META, CHECKPOINT, data), (META, _ORIGIN, _origin(setup, changelogs)), self.last_use()])
        return restored, beyond

    def last_use(self) -> Change:
        """The entry with the time at which the store was last up to date with its changelogs."""
        return META, _USED, b"%d" % self.now()

    def now(self) -> int:
        """The time, in ms since epoch."""
        return self._wall()

    def _wait_for_shared(
        self,
        setups: Sequence[TaskSetup],
        restored: Mapping[str, Checkpoint],
        changelogs: dict[str, ChangelogOffsets],
    ) -> None:
        """Wait until readers see the changelogs up to the checkpoints. Where key buckets share a partition, an open
        transaction of another container hides what was committed behind its first record, until it commits. Where
        containers go on, brokers may show a checkpoint before they show the changelogs of its transaction."""
        until = self._clock() + SHARED_SECONDS
        shared = [setup for setup in setups if setup.elasticity > 1 or self._live]
        for setup in shared:
            for operator, stream in setup.changelogs.items():
                end = restored[setup.name].changelogs.get(operator, 0)
                while changelogs[stream].ends[setup.number] < end and self._clock() < until:
                    self._sleep(SHARED_PAUSE_SECONDS)
                    changelogs[stream] = ChangelogOffsets(self._admin, stream)

    def _stored_checkpoint(self, setup: TaskSetup, origin: bytes, committed: Checkpoint) -> Checkpoint:
        """The checkpoint in a store, which is emptied if it cannot catch up to the `committed` one."""
        data = setup.store.get(META, CHECKPOINT)
        usable = setup.store.get(META, _ORIGIN) == origin and not committed.blank and self._is_fresh(setup)
        own = decode(data, setup.name) if usable and data is not None else Checkpoint()
        if is_ahead(own, committed):
            own = Checkpoint()  # it belongs to a transaction that was not committed
        if own.blank:
            setup.store.clear()
        return own

    def _is_fresh(self, setup: TaskSetup) -> bool:
        """Whether the changelogs still hold every deletion since the store was last used."""
        used = setup.store.get(META, _USED)
        # A time far ahead is of a clock that was wrong: how old the store is nobody knows.
        return used is not None and -AHEAD_MS < self.now() - int(used) < STALE_MS

    def _replay(self, ranges: Sequence[ChangelogRange]) -> None:
        left = sum(span.end - span.start for span in ranges)
        if not left:
            return
        restored, began = 0, self._clock()
        self._on_restore(restored, left)

        def on_batch(records: int, passed: int) -> None:
            nonlocal restored, left, began
            restored += records
            left -= passed
            self._on_restore(restored, left)
            if self._rests:
                self._sleep(self._rests * (self._clock() - began))
                began = self._clock()

        with closing(self._system.consumer(committed=True)) as consumer:
            replay(consumer, ranges, on_batch)


def _origin(setup: TaskSetup, changelogs: Mapping[str, ChangelogOffsets]) -> bytes:
    """The identities of the changelogs that a store is a copy of. A changelog that was deleted and created again has
    another identity."""
    return json.encode({operator: changelogs[stream].identity for operator, stream in setup.changelogs.items()})


def _behind(
    setup: TaskSetup, operator: str, log: ChangelogOffsets, own: Checkpoint, target: Checkpoint
) -> ChangelogRange:
    """The range of a changelog that a store lacks; raises SystemProblem where the changelog lacks it too."""
    first, last = log.starts[setup.number], log.ends[setup.number]
    end = target.changelogs.get(operator, first)
    start = max(first, own.changelogs.get(operator, first))
    if start < end and last < end:
        wrong = (
            f"the changelog {log.stream!r} ends at offset {last} of partition {setup.number}, and the checkpoint of "
        )
        wrong += f"task {setup.name} needs it up to {end}"
        remedy = "bring the stream back, or start over without its state: fluvial reset --state " + operator
        raise SystemProblem(
            explain(wrong, "the changelog that was written with the checkpoint", remedy, f"changelog {log.stream}")
        )
    owns = None if setup.elasticity == 1 else partial(setup.owns, operator)
    return ChangelogRange(setup.store, operator, (log.stream, setup.number), start, max(start, end), owns)
