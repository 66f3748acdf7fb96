"""Watches the other containers of a run: acts when one of them is silent, and when it is back."""

import logging
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Event, Thread

from ....dsl.errors import TakenOver
from ....dsl.text import plural
from ....planner.plan import Plan
from ....planner.settings import Settings
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from ..coordination.assignments import CoordinatorState
from ..coordination.membership import MembershipGuard
from .fail_over import even_out, fail_over
from .heartbeats import BEATS, Heartbeats, Silence

# A container that dies again and again must not move tasks each time: to move them costs more than to run unevenly.
BACK_SECONDS = 60.0
"""Seconds after which a container that is back gets its share of the tasks again."""
LONGEST_SECONDS = 60.0
"""Seconds between two looks, at most, at a silent container that has no tasks left to take over."""
# With less, the second would act while the first still fences, and both would write assignments in turn.
RANK_TIMEOUTS = 3
"""After so many more timeouts the next of the containers that are alive acts: the first one may be unable to."""
CLOSE_SECONDS = 5.0
"""Seconds that the end of a container waits for its decision. Others make a decision again that is cut off."""

_log = logging.getLogger(__name__)


class FailOverWatch:
    """Looks at the heartbeats of the other containers, in a thread. The first of those that are alive acts for all."""

    def __init__(
        self,
        plan: Plan,
        system: ProducingSystem,
        guard: MembershipGuard,
        heartbeats: Heartbeats,
        standbys: int,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        self._plan, self._system, self._guard, self._heartbeats = plan, system, guard, heartbeats
        self._run, self._container = guard.membership.run, guard.membership.container
        self._standbys, self._machine = standbys, machine
        self._attempts: dict[int, tuple[float, float]] = {}
        self._alive: frozenset[int] = frozenset()
        self._since = machine.clock()
        self._failing = False
        self.failing: Callable[[], Collection[str]] = frozenset
        """Returns the tasks whose copies have failed here."""
        self._stop = Event()
        self._thread = Thread(target=self._watch, name="fluvial-fail-over", daemon=True)

    def start(self) -> None:
        """Begin to send heartbeats and to look at those of others, in threads."""
        self._heartbeats.expect(self._guard.sending)
        self._heartbeats.start()
        self._thread.start()

    def close(self, *, ended: bool = False) -> None:
        """End, in the middle of a decision if that takes long. Where the container has `ended` in good order, nobody
        takes its tasks over."""
        self._stop.set()
        self._heartbeats.close(ended=ended)
        if self._thread.ident is not None:
            self._thread.join(CLOSE_SECONDS)

    def _watch(self) -> None:
        while not self._stop.wait(self._heartbeats.timeout / BEATS):
            self.look_safely()

    def look_safely(self) -> None:
        """A look. Whatever fails is logged once, and tried again."""
        try:
            self.look()
            self._failing = False
        # What keeps this container from looking after others is no reason to end its own tasks.
        except Exception as error:
            if not self._failing:
                text = "container %d cannot look after the others, and tries again: %s"
                _log.warning(text, self._container, error)
            self._failing = True

    def look(self) -> None:
        """Act on containers that are silent or back, if this container is the one to act."""
        sending, heartbeats = self._guard.sending, self._heartbeats
        # Before it looks at who is silent: one that has just joined has its time from now on.
        heartbeats.expect(sending)
        heartbeats.lack(self.failing())
        if not heartbeats.hears_itself:
            return
        silent, alive = heartbeats.silent, heartbeats.alive
        self._attempts = {number: attempt for number, attempt in self._attempts.items() if number in silent}
        for number, silence in silent.items():
            if self._is_due(number, silence, alive, sending):
                self._act(number, silence, alive)
        self._even_out(alive)

    def _is_due(self, number: int, silence: Silence, alive: frozenset[int], sending: Mapping[int, str]) -> bool:
        now, rank = self._machine.clock(), sorted(alive).index(self._container)
        if rank and (
            number not in sending or now - silence.since < (1 + RANK_TIMEOUTS * rank) * self._heartbeats.timeout
        ):
            return False
        at, wait = self._attempts.get(number, (float("-inf"), 0.0))
        return now - at > wait

    def _act(self, number: int, silence: Silence, alive: frozenset[int]) -> None:
        """Give the tasks of a silent container to those that are alive."""
        timeout, now = self._heartbeats.timeout, self._machine.clock()
        _, before = self._attempts.get(number, (now, timeout / 2))
        # Noted before the attempt: one that fails, or takes long, must not be made again at once.
        self._attempts[number] = now, min(max(2 * before, timeout), max(LONGEST_SECONDS, timeout))

        def may_decide(state: CoordinatorState) -> bool:
            process = state.presences[number]
            if process.heartbeats is True and process.incarnation != silence.incarnation:
                # Another process of that container has started since: it gets the whole timeout.
                self._heartbeats.give_time(number, process.incarnation)
                return False
            return process.heartbeats is True and self._is_member(state)

        with suppress(TakenOver):  # another container acts, or the silent one has just started again
            tasks = fail_over(
                self._plan,
                self._system,
                self._run,
                number,
                alive,
                self._standbys,
                self._machine,
                may_decide=may_decide,
                lacking=self._heartbeats.lacking,
            )
            if tasks:
                self._attempts[number] = now, timeout
                text = "container %d of pipeline %r is silent: others go on with its %s"
                _log.warning(text, number, self._plan.name, plural(len(tasks), "task"))

    def _even_out(self, alive: frozenset[int]) -> None:
        """Even the tasks out once the same containers have been alive for a while."""
        now = self._machine.clock()
        if alive != self._alive:
            self._alive, self._since = alive, now
        elif self._container == min(alive) and now - self._since > BACK_SECONDS:
            self._since = now
            even_out(self._plan, self._system, self._run, alive, self._machine, may_decide=self._is_member)

    def _is_member(self, state: CoordinatorState) -> bool:
        """Whether no other container has taken this one for dead. If one has, this container decides nothing, and stops
        its heartbeats so that the others decide."""
        own = state.presences.get(self._container)
        if own is not None and own.incarnation == self._guard.incarnation and own.state != "done":
            return True
        # Or they would see two signs: that others have its tasks, and that it is alive.
        self._heartbeats.stop()
        return False


def begin_watch(
    plan: Plan, system: System, settings: Settings, guard: MembershipGuard, machine: Machine = THIS_MACHINE
) -> FailOverWatch | None:
    """Begin to watch the other containers of a run; None where it has no standbys."""
    if guard.silence is None:
        return None
    assert isinstance(system, ProducingSystem)
    member = guard.membership
    heartbeats = Heartbeats(system, plan.name, member.run, member.container, guard.silence, machine, guard.incarnation)
    watch = FailOverWatch(plan, system, guard, heartbeats, settings.standbys, machine)
    watch.start()
    return watch
