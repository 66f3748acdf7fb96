"""Descriptions of pipelines: frozen and printable."""

from dataclasses import dataclass
from typing import Literal

from generators.case_keys import KeyType
from generators.described_steps import (
    Border,
    Broadcast,
    Deduplicate,
    Join,
    Merge,
    Messages,
    Put,
    RemotePut,
    Send,
    Source,
    Step,
    WindowStep,
)
from generators.described_tables import Compact, RemoteRows, TablePair, TableSource

Mode = Literal["on_time", "late"]
OnError = Literal["fail", "skip", "dead_letter"]
ENDS = (Send, Put, RemotePut)
"""Steps that no other may read."""


@dataclass(frozen=True, repr=False)
class Description(Compact):
    """A pipeline; what nobody reads or sends is sent to `out-{node}`. Unless it is `exclusive` no firing is."""

    sources: tuple[Source, ...]
    steps: tuple[Step, ...] = ()
    on_error: OnError = "fail"
    mode: Mode = "on_time"
    tables: tuple[TableSource | TablePair, ...] = ()
    remotes: tuple[RemoteRows, ...] = ()
    exclusive: bool = True

    @property
    def rows(self) -> tuple[TableSource, ...]:
        """The tables that are read from streams: whose rows are to be there before all else."""
        return tuple(table for table in self.tables if isinstance(table, TableSource) and not table.filled)

    def key_type(self, node: int) -> KeyType | None:
        """The type of key at a node, as the planner tracks it."""
        if node < len(self.sources):
            return self.sources[node].key
        step = self.steps[node - len(self.sources)]
        match step:
            case Border():
                return step.key
            case Messages() | Broadcast() | Deduplicate(bare=True):
                return None
            case Merge():
                types: set[KeyType | None] = {self.key_type(one) for one in (step.of, *step.others)}
                return types.pop() if len(types) == 1 else None
            case _:
                return self.key_type(step.of)


def has_time_triggers(description: Description) -> bool:
    """Whether some trigger waits for a time: then the panes depend on the steps that the watermark takes."""
    return any(_waits(step) for step in description.steps)


def has_time_triggers_behind_borders(description: Description) -> bool:
    """Whether some trigger that waits for a time is in a stage of its own, which may learn of time in larger steps."""
    behind = [False for _ in description.sources]
    for step in description.steps:
        behind.append(isinstance(step, Border | Broadcast) or any(behind[one] for one in inputs_of(step)))
        if behind[-1] and _waits(step):
            return True
        behind[-1] |= isinstance(step, WindowStep) and step.crosses
    return False


def inputs_of(step: Step) -> tuple[int, ...]:
    """The nodes whose messages a step reads."""
    match step:
        case Merge():
            return step.of, *step.others
        case Join():
            return step.of, step.other
        case _:
            return (step.of,)


def _waits(step: Step) -> bool:
    triggers = (step.trigger, step.late_trigger) if isinstance(step, WindowStep) else ()
    return any(when is not None and (when.first, when.last) != (None, None) for when in triggers)
