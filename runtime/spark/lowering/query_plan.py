"""The plan of one query: what Spark runs for a connected component of a plan's stages."""

from collections.abc import Mapping
from dataclasses import dataclass

from ....planner.plan import Plan
from ....planner.state_schema import StateSchema
from ...state.checkpoint_path import CheckpointPath
from ..key_buckets import KeyBuckets
from .levels import Levels
from .shipped_plan import ShippedPlan


@dataclass(frozen=True, slots=True)
class BucketSplit:
    """The state of another `checkpoint`, which had the buckets `before`. `states` has the schema of each operator's
    state, `producers` the number of each stream's producers; `resets` counts how often an operator's state was
    removed."""

    checkpoint: str
    before: KeyBuckets
    states: Mapping[str, StateSchema]
    producers: Mapping[str, int]
    resets: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """All that a query needs to start.

    `folder` has Spark's checkpoint and the files beside it. `group` is the unique name of this checkpoint: a later one
    in the same folder has another. `starts` are the offsets at which the sources begin. `once` says that each output
    is to be seen once; else messages may have `ids`. The first batch begins with the state of `split`. `run` is the
    unique name of the run behind a URL, and else empty.
    """

    plan: Plan
    levels: Levels
    buckets: KeyBuckets
    shipped: ShippedPlan
    folder: CheckpointPath
    group: str
    sources: tuple[str, ...]
    starts: dict[str, list[int]]
    once: bool = False
    ids: bool = False
    split: BucketSplit | None = None
    run: str = ""

    @property
    def keeps_state(self) -> bool:
        """Whether the query has a shuffle, behind which stages keep state or meet other streams."""
        return self.levels.count > 1

    @property
    def checkpoint(self) -> CheckpointPath:
        """Spark's own folder."""
        return self.folder / "spark"
