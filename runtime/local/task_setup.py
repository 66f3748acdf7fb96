"""A task before it runs: its name, its store and its inputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from ...planner.grouping import OnlyInput
from ...planner.state_schema import StateSchema
from ..kernel.key_buckets import bucket_of
from ..kernel.state_keys import is_of_all_keys, key_of_record
from ..state.contract import TaskStore
from ..systems.contract import StreamPartition


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """A task before it runs.

    `number` is its number within its stage. `changelogs` has the changelog of each operator that keeps state, by
    operator. `partitions` has the partition of each of its inputs, by the name of the stream or of a growth of it. A
    stream that has no partition for the task's number is not among them. `keeps_more` says that the store may hold
    the state of operators that are no longer in the plan. Where tasks are split by `elasticity`, the task has one
    key `bucket`; `producer` is its number among all tasks of the stage. `schemas` has the schema of the state of
    each operator. `input` is what it reads where its stage is grouped by stream and partition.
    """

    name: str
    stage: str
    number: int
    store: TaskStore
    changelogs: Mapping[str, str]
    partitions: Mapping[str, StreamPartition] = field(default_factory=dict)
    keeps_more: bool = False
    bucket: int = 0
    elasticity: int = 1
    producer: int = 0
    schemas: Mapping[str, StateSchema] = field(default_factory=dict)
    input: OnlyInput | None = None

    @property
    def inputs(self) -> Sequence[str]:
        """The names of the streams or growths of which the task reads a partition."""
        return [*self.partitions]

    @property
    def stateful(self) -> bool:
        """Whether the store of the task outlasts the run."""
        return bool(self.changelogs) or self.keeps_more

    def owns(self, operator: str, record_key: bytes) -> bool:
        """Whether a record of an operator's changelog, which has this key, is of the task's key bucket. Raises
        SystemProblem for one that does not tell the key of its message."""
        if is_of_all_keys(self.schemas[operator], record_key):
            return True
        key = key_of_record(self.schemas[operator], record_key)
        if key is None:
            wrong = f"a record in the changelog {self.changelogs[operator]!r} does not tell the key that it is of"
            remedy = f"run with elasticity=1, or start over without its state: fluvial reset --state {operator}"
            raise SystemProblem(explain(wrong, "records that this version wrote", remedy, self.changelogs[operator]))
        return bucket_of(key, self.elasticity) == self.bucket
