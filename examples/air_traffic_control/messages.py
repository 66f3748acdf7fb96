"""What flows through air traffic control. Times are in ms since epoch."""

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["invitation", "message", "connection", "post", "comment"]
"""What an event is about; a service knows more about each kind."""

Channel = Literal["push", "email"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a member may want to know: an invitation, a message, what somebody has posted."""

    id: str
    member: str
    kind: Kind
    item: str
    at: int
    urgent: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """What a service knows of an item: how it reads, and how close its author is to the member, from 0 to 1."""

    title: str
    closeness: float


@dataclass(frozen=True, slots=True)
class Candidate:
    """An event that still stands, with what its service knows."""

    event: Event
    item: Item


@dataclass(frozen=True, slots=True)
class Model:
    """What a member cares for, as it was learnt elsewhere: a weight for each kind, and the least score to be told."""

    weights: dict[str, float] = field(default_factory=dict)
    least: float = 0.1

    def score(self, candidate: Candidate) -> float:
        """How much the member cares for an event, from 0 to 1."""
        return self.weights.get(candidate.event.kind, 0.5) * candidate.item.closeness


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score, and whether that is too low to tell the member."""

    candidate: Candidate
    score: float
    too_low: bool


@dataclass(frozen=True, slots=True)
class Preferences:
    """How a member wants to be told: nothing between two hours of their day, and so many times a day at most."""

    quiet_from: int = 22
    quiet_until: int = 8
    utc_offset: int = 0
    per_day: int = 5
    push: bool = True


@dataclass(frozen=True, slots=True)
class Wanted:
    """A ranked event, and how its member wants to be told."""

    ranked: Ranked
    preferences: Preferences


@dataclass(frozen=True, slots=True)
class Communication:
    """What a member is told at once, about one event or several. Its id is the same whenever it is sent again."""

    id: str
    member: str
    channel: Channel
    text: str
    events: list[str]
    urgent: bool
