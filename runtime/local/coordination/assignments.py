"""What a pipeline's coordinator stream says: which container runs which task, which run is under way, who is there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import DecodeError, Struct, json
from msgspec.structs import replace

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.task_assignment import Stages, assign, tasks_of

VERSION = 1

State = Literal["starting", "running", "done"]
"""Of a container: it has taken its place; its tasks run; they have come to the end of the run."""


class Assignment(Struct, frozen=True, kw_only=True):
    """Which container runs which task, and the run that is under way.

    A `generation` is as long as containers and tasks stay the same; it may see many runs. `before` are the generations
    that may still have writers, with their numbers of containers. `ends` is where a run until the end stops reading its
    sources, by partition.
    """

    version: int = VERSION
    generation: int
    containers: int
    tasks: dict[str, int]
    before: dict[int, int] = {}
    run: str
    until: str
    ends: dict[str, list[int]] | None = None


class Presence(Struct, frozen=True, kw_only=True):
    """A container that is there, or was: `incarnation` is another for each process that takes the place."""

    version: int = VERSION
    container: int
    generation: int
    run: str
    incarnation: str
    state: State
    process: str = ""


class Inquiry(Struct, frozen=True, kw_only=True):
    """The question of a `process` whether any container is alive: each that is writes its presence again."""

    version: int = VERSION
    process: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a run is to be."""

    stages: Stages
    containers: int
    until: str


@dataclass(frozen=True, slots=True)
class Known:
    """What the stream says at one moment."""

    assignment: Assignment | None = None
    presences: Mapping[int, Presence] = field(default_factory=dict)

    def is_done(self, container: int) -> bool:
        """Whether a container has done its part of the run of the assignment."""
        presence = self.presences.get(container)
        run = None if self.assignment is None else self.assignment.run
        return presence is not None and presence.run == run and presence.state == "done"

    @property
    def all_done(self) -> bool:
        """Whether the run of the assignment is done: each of its containers has done its part."""
        containers = 0 if self.assignment is None else self.assignment.containers
        return all(self.is_done(container) for container in range(containers))

    @property
    def settled(self) -> bool:
        """Whether a container of this generation has come to run: it has shut out the generations before."""
        states = [presence.state for presence in self.presences.values() if presence.generation == self._generation]
        return any(state != "starting" for state in states)

    def publishing_beside(self, container: int) -> set[str] | None:
        """The incarnations of the other containers that may have something to publish.

        What an earlier incarnation had prepared is published when its tasks are resumed, by whichever container has
        them now. None until all the others have done so in this generation.
        """
        assignment = self.assignment
        numbers = set() if assignment is None else set(range(assignment.containers)) - {container}
        presences = [self.presences.get(number) for number in numbers]
        present = [
            one
            for one in presences
            if one is not None and one.state != "starting" and one.generation == self._generation
        ]
        if len(present) < len(numbers):
            return None
        return {one.incarnation for one in present if one.state == "running"}

    @property
    def _generation(self) -> int:
        return 0 if self.assignment is None else self.assignment.generation


def begin(known: Known, wanted: Wanted, run: str, ends: Mapping[str, list[int]] | None) -> Assignment:
    """A new run: in the present generation if that has the same containers and tasks, else in the next."""
    ends_by_stream = None if ends is None else dict(ends)
    last = known.assignment
    if last is None:
        tasks = assign(wanted.stages, wanted.containers)
        return Assignment(
            generation=1, containers=wanted.containers, tasks=tasks, run=run, until=wanted.until, ends=ends_by_stream
        )
    if _same(last, wanted):
        return replace(last, run=run, until=wanted.until, ends=ends_by_stream)
    return Assignment(
        generation=last.generation + 1,
        containers=wanted.containers,
        tasks=assign(wanted.stages, wanted.containers, last.tasks),
        before={**({} if known.settled else last.before), last.generation: last.containers},
        run=run,
        until=wanted.until,
        ends=ends_by_stream,
    )


def joins(known: Known, wanted: Wanted, container: int, ends: Mapping[str, list[int]] | None) -> bool:
    """Whether a container that no supervisor has started belongs to the last run, and begins no other: ADR 0018.

    It does as long as that run is wanted and not done. Once it is done, a container that belongs to it was restarted
    after the end of its work, unless the sources have other `ends` than that run had.
    """
    last = known.assignment
    if last is None or not _same(last, wanted) or last.until != wanted.until:
        return False
    return not known.is_done(container) or not known.all_done or last.ends == ends


def _same(last: Assignment, wanted: Wanted) -> bool:
    return last.containers == wanted.containers and set(last.tasks) == set(tasks_of(wanted.stages))


Written = Assignment | Presence | Inquiry
"""What a coordinator stream holds."""

_ASSIGNMENT, _PRESENCE, _INQUIRY = b"assignment", b"container-", b"inquiry"
_DECODERS: Mapping[bytes, Callable[[bytes], Written]] = {
    _ASSIGNMENT: json.Decoder(Assignment).decode,
    _PRESENCE: json.Decoder(Presence).decode,
    _INQUIRY: json.Decoder(Inquiry).decode,
}


def record_of(written: Written) -> tuple[bytes, bytes]:
    """Key and value in the stream, where the last record of a key counts."""
    if isinstance(written, Presence):
        return b"%s%d" % (_PRESENCE, written.container), json.encode(written)
    return _ASSIGNMENT if isinstance(written, Assignment) else _INQUIRY, json.encode(written)


def read_record(key: bytes | None, value: bytes | None) -> Written | None:
    """What a record says; None for one of a kind that a later version may have added.

    Raises SystemProblem for another version of what is known here.
    """
    decode = next((decode for start, decode in _DECODERS.items() if key is not None and key.startswith(start)), None)
    if decode is None or value is None:
        return None
    try:
        record = decode(value)
    except (DecodeError, UnicodeDecodeError) as error:
        wrong = f"the record {key!r} cannot be read: {error}"
        remedy = "remove what another program has written, or start over with fluvial reset --all"
        expected = "a record that a container of the pipeline wrote"
        raise SystemProblem(explain(wrong, expected, remedy, "the coordinator stream")) from None
    if record.version != VERSION:
        wrong = f"a record of the coordinator stream has version {record.version}"
        remedy = "run the version that wrote it"
        raise SystemProblem(explain(wrong, f"version {VERSION}", remedy, "the coordinator stream"))
    return record
