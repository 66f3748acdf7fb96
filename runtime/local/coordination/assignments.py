"""The records of a coordinator stream: which container runs which task, which run is under way, who is alive."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import UNSET, Struct, UnsetType, json
from msgspec.structs import replace

from ....planner.task_assignment import Stages, assign, numbers_of, stages_with, tasks_of
from ..saved_record import read_saved

# Another number is refused, so containers of two versions do not share a run by misunderstanding.
VERSION = 1

RunPhase = Literal["starting", "running", "done"]
"""Of a container: it has joined the run; its tasks run; its tasks have reached the end of the run."""


class Assignment(Struct, frozen=True, kw_only=True):
    """Which container runs which task, and the run that is under way.

    A `generation` lasts as long as containers and tasks stay the same; it may contain many runs. `before` has the
    earlier generations that may still write, with their numbers of containers. `ends` are the offsets at which a run
    to the end stops reading its sources, by stream and partition.

    A pipeline that is scaled while it runs gets another generation, and its containers go on. Then `epoch` is the
    generation in which they were started, whose transactional ids they keep, `owners` are the containers that had the
    tasks in that generation, and `most` is the largest number of containers since.
    """

    version: int = VERSION
    generation: int
    containers: int
    tasks: dict[str, int]
    before: dict[int, int] = {}
    run: str
    until: str
    ends: dict[str, list[int]] | None = None
    epoch: int = 0
    owners: dict[str, int] = {}
    most: int = 0

    @property
    def began(self) -> int:
        """The generation in which the containers were started."""
        return self.epoch or self.generation

    @property
    def began_with(self) -> Mapping[str, int]:
        """The containers that had the tasks in the generation in which they were started."""
        return self.owners or self.tasks

    @property
    def most_containers(self) -> int:
        """The largest number of containers since they were started."""
        return max(self.most, self.containers)

    def continues(self, other: "Assignment") -> bool:
        """Whether containers of the other assignment go on in this one."""
        return self.run == other.run and self.began == other.began


class Presence(Struct, frozen=True, kw_only=True):
    """A container that is alive, or was. Each process that runs as this container has another `incarnation`. One that
    sends `heartbeats` says so: others must not take those for dead that send none."""

    version: int = VERSION
    container: int
    generation: int
    run: str
    incarnation: str
    state: RunPhase
    process: str = ""
    heartbeats: bool | UnsetType = UNSET


class Gone(Struct, frozen=True, kw_only=True):
    """A record that says that the process with this `incarnation` was taken for dead, and that others have its tasks:
    they no longer wait for it to follow the assignment. It says nothing of another process of the container, whichever
    record comes first."""

    version: int = VERSION
    container: int
    generation: int
    run: str
    incarnation: str


class LivenessQuery(Struct, frozen=True, kw_only=True):
    """A `process` asks whether any container is alive. Each container that is alive writes its presence again."""

    version: int = VERSION
    process: str


class Readiness(Struct, frozen=True, kw_only=True):
    """The tasks that a container could take over without delay, since its process with this `incarnation` has nearly
    all of their state. Another process of the container would restore them first."""

    version: int = VERSION
    container: int
    generation: int
    incarnation: str = ""
    tasks: list[str]


class SizingRecord(Struct, frozen=True, kw_only=True):
    """What an autosizer has decided last in a run: the containers and the elasticity of each stage, and the reason.
    `applied` says whether the run changes to that, or is but advised to."""

    version: int = VERSION
    run: str
    containers: int
    elasticity: dict[str, int]
    reason: str
    applied: bool = True


class DrainRequest(Struct, frozen=True, kw_only=True):
    """A request that a run until stopped ends at these offsets of its sources, by stream and partition, as a run to the
    end does. It holds for this run alone, and not for one that begins later."""

    version: int = VERSION
    run: str
    ends: dict[str, list[int]]


OwnersOf = Callable[[Assignment], Mapping[str, int]]
"""The container that has each task at the moment, in the run of an assignment."""


@dataclass(frozen=True, slots=True)
class RequestedRun:
    """A run that a process wants to begin or to join."""

    stages: Stages
    containers: int
    until: str


@dataclass(frozen=True, slots=True)
class CoordinatorState:
    """The last assignment in a coordinator stream, the last presence of each container, and the last `sizing`."""

    assignment: Assignment | None = None
    presences: Mapping[int, Presence] = field(default_factory=dict)
    readiness: Mapping[int, Readiness] = field(default_factory=dict)
    gone: Mapping[int, str] = field(default_factory=dict)
    """The incarnation of the last process of each container that was taken for dead."""
    sizing: SizingRecord | None = None
    drain: DrainRequest | None = None

    @property
    def drains(self) -> bool:
        """Whether the run of the assignment was told to drain."""
        return self.drain is not None and self.assignment is not None and self.drain.run == self.assignment.run

    def is_done(self, container: int) -> bool:
        """Whether a container has done its part of the run of the assignment. In a run until stopped that is not
        drained no container ever has: one that is too many for now may be started again."""
        presence, assignment = self.presences.get(container), self.assignment
        if presence is None or assignment is None or (assignment.until == "stopped" and not self.drains):
            return False
        return presence.run == assignment.run and presence.state == "done"

    def sending(self, run: str) -> dict[int, str]:
        """The containers of a run that send heartbeats and are not done, each with the incarnation of its process."""
        return {
            number: one.incarnation
            for number, one in self.presences.items()
            if one.run == run and one.heartbeats is True and one.state != "done"
        }

    def not_running(self) -> list[int]:
        """The containers of the assignment that have not reported that their tasks run."""
        assignment = self.assignment
        running = {
            number
            for number, one in self.presences.items()
            if assignment is not None and one.run == assignment.run and one.state == "running"
        }
        return [] if assignment is None else [one for one in range(assignment.containers) if one not in running]

    @property
    def all_done(self) -> bool:
        """Whether the run of the assignment is done: each of its containers has done its part."""
        containers = 0 if self.assignment is None else self.assignment.containers
        return all(self.is_done(container) for container in range(containers))

    @property
    def generation_running(self) -> bool:
        """Whether a container of this generation, or of one that it continues, has reported "running". Earlier
        generations are fenced by then. A container that is gone may have died before its tasks ran, and does not
        count."""
        began = 0 if self.assignment is None else self.assignment.began
        return any(
            one.state != "starting" and self.gone.get(number) != one.incarnation
            for number, one in self.presences.items()
            if one.generation >= began
        )

    def other_publishers(self, container: int) -> set[str] | None:
        """The incarnations of the other containers that may have prepared transactions to publish.

        Transactions of an earlier incarnation are published when its tasks are resumed, by the container that has the
        tasks now. Returns None until all other containers have resumed their tasks in this generation.
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


def begin(
    state: CoordinatorState, requested: RequestedRun, run: str, ends: Mapping[str, list[int]] | None
) -> Assignment:
    """The assignment of a new run: of the present generation if containers and tasks stay the same, else of the
    next."""
    ends_by_stream = None if ends is None else dict(ends)
    last = state.assignment
    if last is None:
        tasks = assign(requested.stages, requested.containers)
        return Assignment(
            generation=1,
            containers=requested.containers,
            tasks=tasks,
            run=run,
            until=requested.until,
            ends=ends_by_stream,
        )
    # After a live change tasks may be with other containers than it says, so that these are started anew.
    if not last.epoch and _same(last, requested):
        return replace(last, run=run, until=requested.until, ends=ends_by_stream)
    return Assignment(
        generation=last.generation + 1,
        containers=requested.containers,
        tasks=assign(requested.stages, requested.containers, last.tasks),
        before={**({} if state.generation_running else last.before), last.began: last.most_containers},
        run=run,
        until=requested.until,
        ends=ends_by_stream,
    )


def joins(
    state: CoordinatorState, requested: RequestedRun, container: int, ends: Mapping[str, list[int]] | None
) -> bool:
    """Whether a container that no supervisor has started joins the last run instead of beginning a new one (ADR 0018).

    It joins if that run is as requested and not done, also where the run has got this number of containers since it
    began. It also joins a run that is done if the sources still have the `ends` of that run: then the container was
    restarted after the end of its work.
    """
    last = state.assignment
    if last is None or not _same(last, requested) or last.until != requested.until:
        return False
    return not state.is_done(container) or not state.all_done or (last.ends == ends and not state.drains)


def joined(state: CoordinatorState, requested: RequestedRun, run: str, number: int, owners: OwnersOf) -> Assignment:
    """The assignment of a run that a container joins by its number alone. A run that has fewer containers gets more; a
    run of other tasks ends, and a new one begins with the containers up to this one."""
    last = state.assignment
    over = state.drains and state.all_done
    if last is None or last.until != requested.until or over or not _has_numbers(last, requested):
        return begin(state, RequestedRun(requested.stages, number + 1, requested.until), run, None)
    if number < last.containers:
        return last
    return scaled(state, stages_with(last.tasks), number + 1, owners(last))


def _same(last: Assignment, requested: RequestedRun) -> bool:
    """Whether containers and tasks are as requested. A run that was scaled keeps the elasticity that it has."""
    same = _has_numbers(last, requested) if last.epoch else set(last.tasks) == set(tasks_of(requested.stages))
    return last.containers == requested.containers and same


def _has_numbers(last: Assignment, requested: RequestedRun) -> bool:
    """Whether a run has the stages that are requested, with as many partitions."""
    return numbers_of(stages_with(last.tasks)) == numbers_of(requested.stages)


def scaled(state: CoordinatorState, stages: Stages, containers: int, owners: Mapping[str, int]) -> Assignment:
    """The assignment of the same run with another number of containers. `owners` are the containers that have the tasks
    now."""
    last = state.assignment
    assert last is not None
    before = {} if state.generation_running else last.before
    return replace(moved(last, assign(stages, containers, owners), containers), before=before)


def moved(last: Assignment, tasks: Mapping[str, int], containers: int = 0) -> Assignment:
    """The assignment of the same run with these tasks, and maybe with another number of containers."""
    containers = containers or last.containers
    return replace(
        last,
        generation=last.generation + 1,
        containers=containers,
        tasks=dict(tasks),
        epoch=last.began,
        owners=dict(last.began_with),
        most=max(last.most_containers, containers),
    )


CoordinatorRecord = Assignment | Presence | LivenessQuery | Readiness | Gone | SizingRecord | DrainRequest
"""The kinds of records in a coordinator stream."""

_ASSIGNMENT, _PRESENCE, _LIVENESS_QUERY, _READINESS = b"assignment", b"container-", b"inquiry", b"ready-"
_GONE, _SIZING, _DRAIN = b"gone-", b"sizing", b"drain"
_DECODERS: Mapping[bytes, Callable[[bytes], CoordinatorRecord]] = {
    _ASSIGNMENT: json.Decoder(Assignment).decode,
    _PRESENCE: json.Decoder(Presence).decode,
    _LIVENESS_QUERY: json.Decoder(LivenessQuery).decode,
    _READINESS: json.Decoder(Readiness).decode,
    _SIZING: json.Decoder(SizingRecord).decode,
    _GONE: json.Decoder(Gone).decode,
    _DRAIN: json.Decoder(DrainRequest).decode,
}


def record_of(record: CoordinatorRecord) -> tuple[bytes, bytes]:
    """A record as key and value. The stream is compacted: the last record of a key counts."""
    if isinstance(record, Presence):
        return b"%s%d" % (_PRESENCE, record.container), json.encode(record)
    if isinstance(record, Gone):  # not the key of the presence, which another process may have written meanwhile
        return b"%s%d" % (_GONE, record.container), json.encode(record)
    if isinstance(record, Readiness):
        return b"%s%d" % (_READINESS, record.container), json.encode(record)
    if isinstance(record, SizingRecord):
        return _SIZING, json.encode(record)
    if isinstance(record, DrainRequest):
        return _DRAIN, json.encode(record)
    return _ASSIGNMENT if isinstance(record, Assignment) else _LIVENESS_QUERY, json.encode(record)


def read_record(key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """Decode a record; None if its kind is unknown, since a later version may have added it.

    Raises SystemProblem for a record that cannot be decoded, or has another version.
    """
    decode = next((decode for start, decode in _DECODERS.items() if key is not None and key.startswith(start)), None)
    if decode is None or value is None:
        return None
    expected = "a record that a container of the pipeline wrote"
    return read_saved(decode, value, VERSION, f"the record {key!r}", expected, "the coordinator stream")
