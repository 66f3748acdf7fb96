"""The size that a run is to have, as a container reports it."""

from collections.abc import Iterator
from dataclasses import dataclass

from ....dsl.text import plural
from ...report import Sample
from ..coordination.assignments import SizingRecord


@dataclass(frozen=True, slots=True)
class SizeProgress:
    """The generation, the number of containers that the run has from then on, and what an autosizer has decided
    last."""

    generation: int = 0
    containers: int = 0
    sizing: SizingRecord | None = None

    @property
    def text(self) -> str:
        """What an autosizer has decided last, and why; empty without one."""
        sizing = self.sizing
        if sizing is None:
            return ""
        split = "".join(f", {stage} split by {factor}" for stage, factor in sizing.elasticity.items() if factor > 1)
        how = "" if sizing.applied else "advises "
        return f"{how}{plural(sizing.containers, 'container')}{split}: {sizing.reason}"

    def samples(self) -> Iterator[Sample]:
        """The samples of what the autosizer has decided."""
        if self.sizing is not None:
            yield Sample("autosizer_containers", self.sizing.containers)
            for stage, factor in self.sizing.elasticity.items():
                yield Sample("autosizer_elasticity", factor, (stage,))
