"""The measurements by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.elasticity import containers, discarding, followed_load, moved_state, standbys
from benchmarks.elasticity.goals import Judged
from benchmarks.topics import Topics


class Measure(Protocol):
    """Measures on a broker, at length or with small sizes."""

    def __call__(self, topics: Topics, *, small: bool) -> Judged:
        """What was found."""
        ...


@dataclass(frozen=True, slots=True)
class Measurement:
    """What is measured, and about how long that takes. `drawing` draws what was saved."""

    name: str
    title: str
    minutes: int
    measure: Measure
    drawing: Callable[[bytes], str] | None = None

    def file(self, folder: Path) -> Path:
        """Where figures are kept."""
        return folder / f"elasticity_{self.name.replace('-', '_')}.json"


MEASUREMENTS: Mapping[str, Measurement] = {
    one.name: one
    for one in (
        Measurement("containers", "one partition, one and two containers", 4, containers.measured),
        Measurement("discarding", "messages of other key buckets", 4, discarding.measured),
        Measurement(
            "moved-state", "1 GB of state, from one container to two", 11, moved_state.measured, moved_state.picture
        ),
        Measurement("standbys", "containers that are killed, and that stand still", 18, standbys.measured),
        Measurement(
            "followed-load", "a load that steps up and down", 14, followed_load.measured, followed_load.picture
        ),
    )
}
