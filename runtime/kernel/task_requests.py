"""What stream tasks are given with a message, and what they ask of the run."""

from dataclasses import dataclass
from typing import NamedTuple

from ...dsl.stream_task import Scope


class MessagePlace(NamedTuple):
    """Where a message was read; None where it was not, and where an engine does not know."""

    stream: str | None = None
    partition: int | None = None
    offset: int | None = None


NOWHERE = MessagePlace()


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call of a method of a stream task, in place of the value of a firing."""

    name: str


class RunRequest(NamedTuple):
    """What was asked for, `commit` and `shutdown`, each by scope or None, by the message of a place, or by none."""

    commit: Scope | None
    shutdown: Scope | None
    place: MessagePlace


class RunRequests:
    """The requests of a task that are still to be heeded. `asked[0]` says that there are some: compiled code then stops
    behind the message that made one, unless messages are in flight. An engine that does not `take` them refuses."""

    def __init__(self, *, taken: bool) -> None:
        self.taken = taken
        self.asked = [False]
        self.pending: list[RunRequest] = []

    def note(self, request: RunRequest) -> None:
        """A message has asked for something, and its effects are applied."""
        self.pending.append(request)
        self.asked[0] = True

    def keep(self, left: list[RunRequest]) -> None:
        """Only these are still to be heeded."""
        self.pending = left
        self.asked[0] = bool(left)
