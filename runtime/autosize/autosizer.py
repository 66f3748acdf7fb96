"""What decides the size of a run: a protocol, of which `BusyTimeAutosizer` is what we use by default."""

from dataclasses import dataclass
from typing import Protocol

from .run_load import RunLoad, RunSize, SizeBounds


@dataclass(frozen=True, slots=True)
class SizeDecision:
    """The size that a run is to have, and the reason, as a sentence without a full stop."""

    size: RunSize
    reason: str


class Autosizer(Protocol):
    """Decides the size of a run, again and again.

    >>> class OneForThousand:
    ...     '''One container for each 1,000 messages per second.'''
    ...     def decide(self, load: RunLoad, bounds: SizeBounds) -> SizeDecision:
    ...         arrived = sum(one.arrived for task in load.tasks.values() for one in task.inputs.values())
    ...         least, most = bounds.containers
    ...         containers = min(most, max(least, math.ceil(arrived / 1000)))
    ...         return SizeDecision(RunSize(containers, load.size.elasticity), f"{arrived:.0f} messages/s arrive")
    """

    def decide(self, load: RunLoad, bounds: SizeBounds) -> SizeDecision:
        """The size that the run is to have from now on, within the bounds; `load.size` if it is to stay."""
        ...
