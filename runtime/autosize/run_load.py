"""The load of a run over a span of time: what arrives at its tasks, what they process, and how busy they are."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RunSize:
    """How many containers a run has, and the elasticity of each of its stages.

    >>> RunSize(2, {"clicks": 4})
    RunSize(containers=2, elasticity={'clicks': 4})
    """

    containers: int
    elasticity: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SizeBounds:
    """The least and the most containers that a run may have, and the least and the most elasticity of a stage. The most
    `memory` of one container is in bytes, None where it has no bound; `processors` are those that all containers share,
    None where each has its own."""

    containers: tuple[int, int]
    elasticity: tuple[int, int] = (1, 1)
    memory: int | None = None
    processors: int | None = None


@dataclass(frozen=True, slots=True)
class InputLoad:
    """One stream that a task reads: messages `arrived` and `processed`, per second, and the `lag` that is left, in
    messages."""

    arrived: float
    processed: float
    lag: float = 0.0


@dataclass(frozen=True, slots=True)
class TaskLoad:
    """One task in its container. `busy` is the fraction of time in which it processed messages, functions that block
    included. `calls` is the fraction that is in flight of the asynchronous calls that may be. `hottest` is the share
    that one key has, at least, of its messages."""

    stage: str
    number: int
    container: int
    busy: float
    inputs: Mapping[str, InputLoad]
    calls: float = 0.0
    hottest: float = 0.0

    @property
    def processed(self) -> float:
        """Messages processed per second."""
        return sum(one.processed for one in self.inputs.values())


@dataclass(frozen=True, slots=True)
class ContainerLoad:
    """One container: the fractions of time in which its event loop was `busy`, and in which it was `committing`; the
    `processor` time that its process took per second, and its `memory` in bytes, None if that is not known."""

    busy: float
    committing: float
    processor: float
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class RunLoad:
    """The load of a run in the `seconds` up to `at`, in seconds of a clock that never goes back.

    `numbers` has the number of tasks of each stage before they are split, in the order in which messages pass the
    stages; `writers` has the stage that writes each intermediate stream. Stages of `whole` are never split.
    """

    at: float
    seconds: float
    size: RunSize
    tasks: Mapping[str, TaskLoad]
    containers: Mapping[int, ContainerLoad]
    numbers: Mapping[str, int]
    writers: Mapping[str, str] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
