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


class Writer(NamedTuple):
    """A task that writes a stream: the elasticity of its stage as the task has it, and the generation of the assignment
    by which it has taken the place of others."""

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
        self._known = {producer: Writer(elasticity) for producer, elasticity in _all_of(tasks)}
        if stored is not None and stored.numbers == tasks.numbers:
            self._known = _writers_of(stored)
        elif heard and max(heard) < tasks.numbers:
            self._known = {number: Writer(1) for number in range(tasks.numbers)}
        self.inherits: dict[int, int] = {}
        for producer, writer in [*self._known.items()]:
            if writer.elasticity < tasks.elasticity:
                parts = self._parts(producer, writer.elasticity, tasks.elasticity)
                self.inherits |= dict.fromkeys(parts, producer)
                self._replace([producer], dict.fromkeys(parts, Writer(tasks.elasticity)))

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, producer: int) -> bool:
        return producer in self._known

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def follow(self, producer: int, elasticity: int, generation: int, parts: int = 0) -> Mapping[int, list[int]]:
        """A task speaks that has this elasticity. With `parts` it is its last message: it is split into so many.

        Returns the tasks that are known from now on in place of others, and those that each of them goes on from; empty
        if nothing changes. Whoever spoke by an earlier assignment, or by the same one, was replaced, and is not heard.
        """
        to = elasticity * (parts or 1)
        news = self._parts(producer, elasticity, to) if parts else [producer]
        replaced = [one for one in self._known if self._shares_keys(one, producer, elasticity)]
        if not replaced or all(one in self._known and self._known[one].elasticity == to for one in news):
            return {}
        if generation <= max(self._known[one].generation for one in replaced):
            return {}
        if (coarse := self._known[replaced[0]].elasticity) < elasticity:
            news = self._parts(replaced[0], coarse, to)
        before = {new: [one for one in replaced if self._shares_keys(one, new, to)] for new in news}
        self._replace(replaced, dict.fromkeys(news, Writer(to, generation)))
        return before

    def stored(self) -> WritersOfStream | None:
        """What a checkpoint keeps; None where it is what every reader takes for granted."""
        kinds = {*self._known.values()}
        if len(kinds) > 1:
            return WritersOfStream(self.numbers, mixed={one: (*writer,) for one, writer in self._known.items()})
        (writer,) = kinds or {Writer(1)}
        return None if writer == Writer(1) else WritersOfStream(self.numbers, *writer)

    def _parts(self, producer: int, elasticity: int, to: int) -> list[int]:
        """The producers that a task is split into. The first has the number of the task itself."""
        return [producer + at * elasticity * self.numbers for at in range(to // elasticity)]

    def _replace(self, gone: Collection[int], news: Mapping[int, Writer]) -> None:
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


def _writers_of(stored: WritersOfStream) -> dict[int, Writer]:
    if stored.mixed:
        return {producer: Writer(*writer) for producer, writer in stored.mixed.items()}
    writer = Writer(stored.elasticity, stored.generation)
    return dict.fromkeys(range(stored.numbers * stored.elasticity), writer)
