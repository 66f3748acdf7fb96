"""The tasks that write an intermediate stream, as its reader knows them: their elasticity may change while they run.

A task of the writing stage is known by its number as a producer: `bucket * numbers + number`, where the stage has so
many `numbers`. The key buckets of a number cover all keys at each time, so that no message of it comes from a task that
the reader does not know.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ....planner.task_assignment import StageTasks
from .position import WritersOfStream

BEFORE_ALL = -1
"""Before the generation of any assignment."""


class KnownWriter(NamedTuple):
    """A task that writes a stream: the elasticity of its stage as the task has it, and the generation of the assignment
    by which one that had its keys was split last."""

    elasticity: int
    generation: int = BEFORE_ALL


class BorderWriters:
    """The tasks that write one intermediate stream. A task that is split says so in its last control message, before
    any message of those that go on; one that others were merged into says so in its first."""

    def __init__(self, tasks: StageTasks, stored: WritersOfStream | None, heard: Collection[int]) -> None:
        """`tasks` are those of the plan, `stored` those of the reader's checkpoint, and `heard` the producers of which
        it had heard. Where plan and checkpoint differ, the smaller key buckets count, until their tasks or the one that
        they were merged into says otherwise. `inherits` has the producer that each of these goes on from."""
        self.numbers = tasks.numbers
        self._known = {producer: KnownWriter(elasticity) for producer, elasticity in _all_of(tasks)}
        if stored is not None and stored.numbers == tasks.numbers:
            self._known = _writers_of(stored)
        elif heard and max(heard) < tasks.numbers:
            self._known = {number: KnownWriter(1) for number in range(tasks.numbers)}
        self.inherits: dict[int, int] = {}
        for producer, writer in [*self._known.items()]:
            if writer.elasticity < tasks.elasticity:
                parts = self._parts(producer, writer.elasticity, tasks.elasticity)
                self.inherits |= dict.fromkeys(parts, producer)
                self._replace([producer], dict.fromkeys(parts, writer._replace(elasticity=tasks.elasticity)))

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, producer: int) -> bool:
        return producer in self._known

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def follow(self, producer: int, elasticity: int, generation: int, parts: int = 0) -> Mapping[int, list[int]]:
        """A task speaks that has this elasticity. With `parts` it is its last message: it is split into so many.

        Returns the tasks that are known from now on in place of others, and those that each of them goes on from; empty
        if nothing changes. Whoever spoke by an earlier assignment than that by which a task was split was replaced, and
        is not heard; nor is one of more keys that spoke by the same one, before the split.
        """
        known = self._known.get(producer)
        if not parts and known is not None and known.elasticity == elasticity:  # as nearly always
            return {}
        to = elasticity * (parts or 1)
        replaced = [one for one in self._known if self._shares_keys(one, producer, elasticity)]
        since = max((self._known[one].generation for one in replaced), default=generation)
        coarse = min((self._known[one].elasticity for one in replaced), default=0)
        if not replaced or generation < since or (generation == since and to < coarse):
            return {}
        first, before = (producer, elasticity) if coarse >= elasticity else (replaced[0], coarse)
        news = self._parts(first, before, max(to, before))
        writers = dict.fromkeys(news, KnownWriter(to, generation if parts else since))
        changed = {new: [one for one in replaced if self._shares_keys(one, new, to)] for new in news}
        same = all(one in self._known and self._known[one].elasticity == to for one in news)
        self._replace(replaced, writers)
        return {} if same else changed

    def stored(self) -> WritersOfStream | None:
        """What a checkpoint keeps; None where it is what every reader takes for granted."""
        kinds = {*self._known.values()}
        if len(kinds) > 1:
            return WritersOfStream(self.numbers, mixed=dict(self._known))
        (writer,) = kinds or {KnownWriter(1)}
        return None if writer == KnownWriter(1) else WritersOfStream(self.numbers, *writer)

    def _parts(self, producer: int, elasticity: int, to: int) -> list[int]:
        """The producers that a task is split into. The first has the number of the task itself."""
        return [producer + at * elasticity * self.numbers for at in range(to // elasticity)]

    def _replace(self, gone: Collection[int], news: Mapping[int, KnownWriter]) -> None:
        for one in gone:
            del self._known[one]
        self._known.update(news)

    def _shares_keys(self, known: int, producer: int, elasticity: int) -> bool:
        if known % self.numbers != producer % self.numbers:
            return False
        least = min(self._known[known].elasticity, elasticity)
        return (known // self.numbers - producer // self.numbers) % least == 0


def _all_of(tasks: StageTasks) -> Iterator[tuple[int, int]]:
    return ((producer, tasks.elasticity) for producer in range(tasks.total))


def _writers_of(stored: WritersOfStream) -> dict[int, KnownWriter]:
    if stored.mixed:
        return {producer: KnownWriter(*writer) for producer, writer in stored.mixed.items()}
    writer = KnownWriter(stored.elasticity, stored.generation)
    return dict.fromkeys(range(stored.numbers * stored.elasticity), writer)
