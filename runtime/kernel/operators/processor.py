"""A processor in one task: the user's code, with state and timers by key."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from ....dsl.keyed_state import HoldsStates, put_to_work, used_outside
from ....dsl.message import Headers, Message
from ....dsl.processor import Tagged, Timer, clock_of, states_of, tags_of
from ...process.interruptions import INTERRUPTIONS
from ..state_backend import Change, StateBackend
from ..state_cache import WriteBackCache
from ..state_codec import MsgpackCodec
from ..stateful_operator import keyless
from ..time.bounds import EARLIEST, END, LATEST, START
from ..time.pausable import PausableFiring
from .processor_state import BoundState, bound_state
from .state_entries import Entries, KeyScope, StateNamespace, key_and_name, under

_RUN = b"run"
"""The entry with the last run that has reached the end of its input."""

EmitMessage = Callable[[bytes, Any, int, Headers], None]
"""Passes on a value: key bytes, value, timestamp, headers."""


@dataclass(slots=True)
class ProcessContext:
    """The environment of a processor.

    `handler` is the object of the user's that messages are handed to, which this task alone has: its class declares
    states and side outputs. `on_message` and `on_timer` hand it a message or a timer; if `answered` it has timers.
    `at_end` is called at an end of input, once per run, behind the timers.

    `emit` passes on outputs, and `fail` takes the error of a timer. `clock` returns the processing time, and
    `clock_fired` is the processing time up to which clock timers have fired. `run` identifies a run to the end of
    input: restarted, it has the same id. For the rest see `WindowContext`.
    """

    id: str
    backend: StateBackend
    empty: bool
    watermark: int
    handler: HoldsStates
    on_message: Callable[[Any, Any], Any]
    on_timer: Callable[[Any, Any], Any]
    answered: bool
    decode_key: Callable[[bytes], Any]
    emit: EmitMessage
    fail: Callable[[bytes, Timer, int, BaseException], None]
    schedule: Callable[[int], None]
    firing: Callable[[int], None]
    pauses: Callable[[], bool]
    clock: Callable[[], int]
    clock_fired: int
    run: str
    at_end: Callable[[], None] | None = None


class CallContext:
    """The context argument of a processor's methods: key, timestamp, watermark, timers."""

    __slots__ = ("key", "timers", "timestamp", "watermark")

    def __init__(self, timers: "BoundTimers") -> None:
        self.key: Any = None
        self.timers = timers
        self.timestamp = self.watermark = START


class BoundTimers:
    """The timers of a processor. State: key and name -> when the timer is due, and the time that it is set to; and a
    far timer for each entry, which fires no later than the timer is due.

    A timer is due at its time; if that time has passed, when the watermark next advances. If a timer is set to a later
    time, only its entry changes: the far timer fires early, and is then set again.
    """

    def __init__(self, namespace: StateNamespace, marks: str, *, answered: bool = True) -> None:
        self._answered = answered
        self._scope = namespace.scope
        self.times: Entries = namespace.permanent(marks[0], "", MsgpackCodec(tuple[int, int]))
        self.far_timers = namespace.far_timers(marks[1])
        self._changes: dict[str, int | None] = {}
        self.noted: list[bytes] | None = None
        """If it is a list, the entries of timers that are set."""
        self.now = self.reached = namespace.watermark
        """The watermark that the current call sees, and the watermark now."""

    def set(self, name: str, time: int) -> None:
        """Set a timer of the present key, in ms since epoch, in place of an earlier one of that name. Raises TypeError
        or ValueError for what is no such time, and TypeError where no `on_timer` answers it."""
        if not self._answered:
            raise TypeError(f"timer {name!r} is set, and the processor has no method on_timer(self, timer, context)")
        if time.__class__ is not int:
            raise TypeError(
                f"the time of timer {name!r} is an int, ms since epoch, not {type(time).__name__}: {time!r}"
            )
        if not EARLIEST <= time <= LATEST:
            raise ValueError(f"the time of timer {name!r} is {time}, not in ms since epoch, {EARLIEST} to {LATEST}")
        self._change(name, time)

    def delete(self, name: str) -> None:
        """Delete a timer of the present key, if it is set."""
        self._change(name, None)

    def _change(self, name: str, time: int | None) -> None:
        if name.__class__ is not str:
            raise TypeError(f"the name of a timer is a str, not {type(name).__name__}: {name!r}")
        if self._scope.key is None:
            raise used_outside(f"timer {name}")
        if not self._changes:
            self._scope.touched.append(self)
        name.encode()
        self._changes[name] = time

    def flush(self) -> None:
        """Write the timers that the function has set and deleted."""
        key = self._scope.key
        assert key is not None
        for name, time in self._changes.items():
            entry = under(key, name.encode())
            before = self.times.get(entry)
            if time is not None:
                due = time if time > self.now else self.reached + 1
                self.times.put(entry, (due, time))
                if self.noted is not None:
                    self.noted.append(entry)
                if before is None or due < before[0]:
                    self.far_timers.set(due, self.now, entry)
            elif before is not None:
                self.times.delete(entry)

    def close(self) -> None:
        """Forget the timers that the function has set and deleted."""
        self._changes = {}


class ProcessOperator:
    """A processor in one task, with states and timers of its own. Outputs of a tag that nothing reads are dropped."""

    def __init__(self, context: ProcessContext) -> None:
        self._context = context
        self.passed = context.watermark
        """The watermark up to which all has fired."""
        self._next_due = END
        self.ended = False
        self._sides: dict[str, EmitMessage] = {}
        self.scope = KeyScope()
        """The key of the present call, and the time of what it reads and writes."""
        namespace = StateNamespace(
            context.id, context.backend, context.empty, self._schedule, context.watermark, self.scope
        )
        self._processor = context.handler
        self._states: dict[str, BoundState] = {
            name: bound_state(state, namespace) for name, state in states_of(self._processor).items()
        }
        put_to_work(self._processor, self._states)
        self._tags = {*tags_of(self._processor)}
        answered = context.answered
        self._timers = BoundTimers(namespace, "wa", answered=answered)
        self._clock_timers: BoundTimers | None = None
        self._firing, self._clock_firing = PausableFiring(), PausableFiring()
        self.fire_clock_timers: Callable[[int], bool] | None = None
        """To be called when the processing time advances, and again if it returns False: the firing has paused. None
        without timers in processing time."""
        if (name := clock_of(self._processor)) is not None:
            of_clock = namespace.for_processing_time(context.clock_fired)
            clock = self._clock_timers = BoundTimers(of_clock, "cb", answered=answered)
            self.fire_clock_timers = partial(self._fire_clock_timers, clock)
            put_to_work(self._processor, {name: clock})
        self._call_context = CallContext(self._timers)
        self._expiring = [(state, state.expiring) for state in self._states.values() if state.expiring is not None]
        state_entries = [entries for state in self._states.values() for entries in state.entries]
        self._all_timers = [self._timers, *([self._clock_timers] if self._clock_timers else [])]
        self._last_end = namespace.permanent("e", "", MsgpackCodec(str))
        self._set_at_end = namespace.permanent("n", "", MsgpackCodec(str))
        timers = [entries for one in self._all_timers for entries in (one.times, one.far_timers)]
        self._entries = [*state_entries, *timers, self._last_end, self._set_at_end]
        self.run = self._runner()
        """Calls a function for a key, and returns its outputs. Changes of state count once it has returned."""
        self.add = self._adder()

    def _schedule(self, time: int) -> None:
        self._next_due = min(self._next_due, time)
        self._context.schedule(time)

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        """The function that processes a message. It is a closure over locals, since it runs for each message."""
        scope, timers, decode_key = self.scope, self._timers, self._context.decode_key
        on_message, run, emit = self._context.on_message, self.run, self.emit
        read_clock = None if self._clock_timers is None else self._read_clock

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            if key is None:
                scope.undo_log = None
                raise keyless()
            # After a restart a message can be read again after its input has ended.
            if not self.passed <= watermark < END:
                watermark = self.passed
            name = decode_key(key)
            timers.reached = watermark
            if read_clock is not None:
                read_clock()
            scope.time = timestamp if timestamp > watermark else watermark
            message = Message(name, value, timestamp, headers)
            outputs = run(on_message, message, key, name, timestamp, watermark)
            if outputs:
                emit(key, outputs, timestamp, headers)

        return add

    def _read_clock(self) -> None:
        if self._clock_timers is not None:
            self._clock_timers.now = self._clock_timers.reached = self._context.clock()

    def _runner(self) -> Callable[[Callable[[Any, Any], Any], Any, bytes, Any, int, int], Sequence[Any]]:
        """The function that calls a method of the processor, and returns its outputs. Changes of state are applied once
        the method has returned; if it raises, there are none."""
        context, scope, timers, outputs_of = self._call_context, self.scope, self._timers, self._outputs_of
        touched = scope.touched

        def run(
            call: Callable[[Any, Any], Any], given: Any, key: bytes, name: Any, timestamp: int, watermark: int
        ) -> Sequence[Any]:
            context.key, context.timestamp, context.watermark = name, timestamp, watermark
            timers.now = watermark
            scope.key = key
            try:
                returned = call(given, context)
                outputs = () if returned is None else outputs_of(returned)
                for state in touched:
                    state.flush()
            finally:
                for state in touched:
                    state.close()
                touched.clear()
                scope.key = scope.undo_log = None
            return outputs

        return run

    def _outputs_of(self, returned: Any) -> list[Any]:
        """Collect the outputs of a call. If it returned a generator, its code runs here."""
        if returned.__class__ is str or returned.__class__ is bytes:
            raise TypeError(f"a processor returns values to emit, such as [{returned!r}], not {returned!r}")
        outputs = list(returned)
        for one in outputs:
            if one.__class__ is Tagged and one.tag.name not in self._tags:
                known = ", ".join(sorted(self._tags)) or "none"
                raise TypeError(f"{one.tag!r} is no tag of {type(self._processor).__name__}, which has {known}")
        return outputs

    def emit(self, key: bytes, outputs: Sequence[Any], timestamp: int, headers: Headers) -> None:
        """Pass on the outputs of a call, each where its tag says."""
        emit = self._context.emit
        for one in outputs:
            if one.__class__ is not Tagged:
                emit(key, one, timestamp, headers)
            elif (emit_aside := self._sides.get(one.tag.name)) is not None:
                emit_aside(key, one.value, timestamp, headers)

    def attach_side(self, tag: str, emit: EmitMessage) -> None:
        """Pass on by `emit` what is emitted under a tag."""
        self._sides[tag] = emit

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - any entry
        """Begin to note changes, and return a function that takes them back."""
        # A timer that was set stays: it fires without effect.
        return self.scope.begin_undo_log()

    def advance(self, watermark: int) -> bool:
        """Fire the timers that are due, earliest first, and delete expired state."""
        if watermark == END:
            return self._firing.run(self._fire_at_end)
        if watermark >= self._next_due and not self._firing.run(lambda: self._fire_due(watermark)):
            return False
        self.passed = max(self.passed, watermark)
        return True

    def _fire_due(self, watermark: int) -> Iterator[None]:
        self._timers.reached = watermark
        self._read_clock()
        yield from self._fire_up_to(self._timers, watermark)
        for state, expiring in self._expiring:
            for entry in expiring.expired(watermark):
                state.drop(entry)
        self._next_due = min(
            [self._timers.far_timers.next_due(), *(expiring.next_due() for _, expiring in self._expiring)]
        )

    def due(self) -> int:
        """The next processing time at which a timer may be due."""
        return END if self._clock_timers is None or self.ended else self._clock_timers.far_timers.next_due()

    def _fire_clock_timers(self, clock: BoundTimers, now: int) -> bool:
        """Fire the timers in processing time that are due; none after the end of input."""
        if self.ended:
            return True
        clock.now = clock.reached = now
        return self._clock_firing.run(lambda: self._fire_up_to(clock, now))

    def _fire_up_to(self, timers: BoundTimers, time_now: int) -> Iterator[None]:
        for now, entries in timers.far_timers.fire(time_now):
            for time, entry in self._still_set(timers, entries):
                due, left = timers.times.get(entry) or (END, None)
                if left == time and due <= now:
                    self._fire(timers, entry, time, now)
                    if self._context.pauses():
                        yield
                elif left is not None:  # it was set to a later time, perhaps by a timer that has just fired
                    timers.far_timers.set(due, now, entry)

    def _still_set(self, timers: BoundTimers, entries: Iterable[bytes]) -> list[tuple[int, bytes]]:
        """The timers of these entries that are still set, as (time, entry), in order."""
        times = timers.times
        return sorted((timer[1], entry) for entry in entries if (timer := times.get(entry)) is not None)

    def _fire_at_end(self) -> Iterator[None]:
        """Fire all timers at the end of input, once per run. Timers that are set by these calls wait for more input."""
        self.ended, run = True, self._context.run
        if run and self._last_end.get(_RUN) == run:
            return
        self._timers.reached = self.passed
        self._read_clock()
        for timers in self._all_timers:
            # Hour by hour: all of them may be more than fit in memory.
            for over, entries in timers.far_timers.waiting():
                for time, entry in self._still_set(timers, entries):
                    due, left = timers.times.get(entry) or (END, None)
                    if left != time or self._set_at_end.get(entry) == run:
                        continue
                    if due >= over:
                        timers.far_timers.set(due, over - 1, entry)
                        continue
                    self._fire_one_at_end(timers, entry, time)
                    if self._context.pauses():
                        yield
        for entry in [*self._set_at_end.keys()]:
            self._set_at_end.delete(entry)
        if self._context.at_end is not None:
            self._context.at_end()
        if run:
            self._last_end.put(_RUN, run)

    def _fire_one_at_end(self, timers: BoundTimers, entry: bytes, time: int) -> None:
        """Fire a timer at the end of input, and remember those that it sets, in case the firing pauses."""
        noted = list[bytes]()
        for each in self._all_timers:
            each.noted = noted
        self._fire(timers, entry, time, max(time, timers.reached))
        for each in self._all_timers:
            each.noted = None
        for new in noted:
            self._set_at_end.put(new, self._context.run)

    def _fire(self, timers: BoundTimers, entry: bytes, time: int, now: int) -> None:
        key, name = key_and_name(entry)
        timers.times.delete(entry)
        # A timer in processing time leaves the watermark unchanged.
        clocked = timers is self._clock_timers
        watermark = self.passed if clocked else now
        self.scope.time = watermark if clocked or time < watermark else time
        if not clocked:
            self._context.firing(time)
        timer = Timer(name.decode(), time, "processing" if clocked else "event")
        try:
            at = self._context.decode_key(key)
            outputs = self.run(self._context.on_timer, timer, key, at, time, watermark)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._context.fail(key, timer, time, error)
        else:
            self.emit(key, outputs, time, ())

    def next_due(self) -> int:
        """The watermark at which the next timer is due or the next entry expires, in ms since epoch."""
        return self._next_due

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return sum(entries.changed for entries in self._entries)

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain.from_iterable(entries.changes() for entries in self._entries)

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        for entries in self._entries:
            entries.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain.from_iterable(entries.caches() for entries in self._entries)
