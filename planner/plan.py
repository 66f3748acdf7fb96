"""The plan: frozen data that says which operators make up which stage, and which streams and stores they need."""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType, structs

from ..dsl.errors import PlanError
from ..dsl.operators import Role
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain, not_found, require
from .settings import Grouping
from .state_schema import StateSchema

if TYPE_CHECKING:
    import networkx as nx

R = TypeVar("R")

StreamKind = Literal["source", "intermediate", "output", "late", "dead-letters"]

FORMAT = 1
"""Version of the JSON form."""


class PlannedOperator(msgspec.Struct, frozen=True, kw_only=True):
    """One operator: what it is, where it was written, and its neighbours in the plan.

    `key` and `value` name the types of what it emits; None where it has no key, or the type is not known.
    `reads` is the stream of a source; `writes` are the streams it fills; `fills` is the table that it sends rows to.
    `details` are its options, as text.

    >>> pipeline = Pipeline("copy")
    >>> pipeline.stream("words", value=str).send_to("copies")
    >>> source = plan(pipeline).operator("stream-1")
    >>> source.kind, source.role, source.reads, source.value
    ('stream', 'non-terminal', 'words', 'str')
    """

    id: str
    kind: str
    role: Role
    stage: str
    inputs: tuple[str, ...]
    label: str
    file: str
    line: int
    key: str | None = None
    value: str | None = None
    reads: str | None = None
    writes: tuple[str, ...] = ()
    fills: str | None = None
    details: dict[str, str] = {}


class PlannedStream(msgspec.Struct, frozen=True, kw_only=True):
    """One stream: a source, an output, or one the plan adds. `key` and `value` name serdes; None: not known. Where
    operators write several types, `value` names all of them: `Order | Refund`. Of a source that has grown, `began_with`
    is the number of partitions over which keys and state were spread first; tasks keep that number.

    >>> pipeline = Pipeline("copy")
    >>> pipeline.stream("words", value=str).send_to("copies")
    >>> [(stream.name, stream.kind, stream.partitions) for stream in plan(pipeline, partitions={"words": 4}).streams]
    [('words', 'source', 4), ('copies', 'output', 4)]
    """

    name: str
    kind: StreamKind
    partitions: int
    key: str | None = None
    value: str | None = None
    written_by: tuple[str, ...] = ()
    read_by: tuple[str, ...] = ()
    began_with: int | UnsetType = UNSET

    @property
    def spread(self) -> int:
        """Over how many tasks of a stage the partitions are spread: partition q is read by task q modulo this."""
        return self.partitions if self.began_with is UNSET else self.began_with

    @property
    def growths(self) -> int:
        """How many partitions a task reads at most: 1 unless the stream has grown."""
        return -(-self.partitions // self.spread)

    def partition_of(self, number: int, growth: int) -> int | None:
        """The partition that the task of a number reads of a growth; None if there is none."""
        partition = number + growth * self.spread
        return partition if 0 <= number < self.spread and partition < self.partitions else None


class PlannedStage(msgspec.Struct, frozen=True, kw_only=True):
    """The operators between two borders, in an order in which inputs come first.

    It runs as `tasks` tasks: task i reads partition i of every input that has it, and of a source that has grown every
    partition that is i modulo the number that it began with. Where it is grouped by "stream-partition", each task of
    the local engine reads one partition of one input, in the order of the inputs. With `elasticity` the local engine
    splits each of them into so many, by key. `id` is what tasks, checkpoints and kept state go by, so it stays as it
    is. `name` is what people read: the input that was written first, as a source or at a border. It is another than the
    id where a source that was written later is read by an earlier operator.

    >>> pipeline = Pipeline("lengths")
    >>> pipeline.stream("words", value=str).partition_by(len, id="by-length", key_type=int).send_to("sorted")
    >>> [(stage.inputs, stage.outputs) for stage in plan(pipeline).stages]
    [(('words',), ('lengths-by-length',)), (('lengths-by-length',), ('sorted',))]
    """

    id: str
    operators: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tasks: int
    name: str = ""
    elasticity: int = 1
    group_by: Grouping = "partition"


class PlannedStore(msgspec.Struct, frozen=True, kw_only=True):
    """The keyed state of one operator, the stream it can be rebuilt from, and what gives it its meaning.

    >>> pipeline = Pipeline("busy")
    >>> clicks = pipeline.stream("clicks", key=str, value=str)
    >>> clicks.window(tumbling(timedelta(minutes=1)), count(), id="per-minute").send_to("busy")
    >>> [(store.operator, store.key, store.value) for store in plan(pipeline).stores]
    [('per-minute', 'str', 'int')]
    """

    operator: str
    stage: str
    changelog: str
    key: str
    value: str
    schema: StateSchema


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    """A plan as `to_json` writes it: all that is planned, and the name of the pipeline in place of itself."""

    format: int
    pipeline: str
    operators: tuple[PlannedOperator, ...]
    stages: tuple[PlannedStage, ...]
    streams: tuple[PlannedStream, ...]
    stores: tuple[PlannedStore, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipeline cut into stages joined by intermediate streams. A value: it can be printed, compared and kept.

    >>> pipeline = Pipeline("copy")
    >>> pipeline.stream("words", value=str).send_to("copies")
    >>> made = plan(pipeline)
    >>> list(made.graph.edges())
    [('stream-1', 'send_to-2')]
    >>> Plan.from_json(made.to_json(), pipeline) == made
    True
    """

    pipeline: Pipeline
    operators: tuple[PlannedOperator, ...]
    stages: tuple[PlannedStage, ...]
    streams: tuple[PlannedStream, ...]
    stores: tuple[PlannedStore, ...]

    picture: ClassVar[Callable[["Plan"], str]]
    """How a notebook shows a plan. Drawings know plans, so plans cannot know drawings: they set it."""

    @property
    def name(self) -> str:
        """The name of the planned pipeline, which begins the names of its own streams."""
        return self.pipeline.name

    def operator(self, id: str) -> PlannedOperator:
        """The planned operator of an id. Raises PlanError if there is none."""
        return self._find("operator", self.operators, lambda operator: operator.id, id)

    def stage(self, id: str) -> PlannedStage:
        """The stage of an id. Raises PlanError if there is none."""
        return self._find("stage", self.stages, lambda stage: stage.id, id)

    def stream(self, name: str) -> PlannedStream:
        """The stream of a name, read or written. Raises PlanError if there is none."""
        return self._find("stream", self.streams, lambda stream: stream.name, name)

    def _find(self, noun: str, records: Iterable[R], id: Callable[[R], str], value: str) -> R:
        for record in records:
            if id(record) == value:
                return record
        raise PlanError(not_found(f"the plan of {self.name!r}", noun, value, map(id, records)))

    @property
    def graph(self) -> "nx.MultiDiGraph[str]":
        """Operators as nodes (`operator` holds the record); edges follow messages, with `stream` where they cross a
        border."""
        import networkx as nx  # noqa: PLC0415 - costs more to load than all the rest

        graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=self.name)
        for operator in self.operators:
            graph.add_node(operator.id, operator=operator)
        for operator in self.operators:
            for source in operator.inputs:
                crosses = graph.nodes[source]["operator"].stage != operator.stage
                stream = graph.nodes[source]["operator"].writes[0] if crosses else None
                graph.add_edge(source, operator.id, stream=stream)
        return graph

    def to_json(self) -> str:
        """The plan as JSON text, without the user's functions; `from_json` reads it back."""
        parts = {name: getattr(self, name) for name in ("operators", "stages", "streams", "stores")}
        document = _Document(format=FORMAT, pipeline=self.name, **parts)
        return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()

    @classmethod
    def from_json(cls, text: str, pipeline: Pipeline) -> "Plan":
        """The plan that `to_json` wrote, with the functions of `pipeline`, which must be the one it was made of.

        Raises `PlanError` for another text, and for a pipeline with other operators.
        """
        good = isinstance(pipeline, Pipeline)
        require(
            good,
            PlanError,
            f"Plan.from_json got {pipeline!r}",
            "the Pipeline that was planned",
            "pass the Pipeline itself",
        )
        require(
            isinstance(text, str), PlanError, f"Plan.from_json got {text!r}", "what Plan.to_json wrote", "pass its text"
        )
        try:
            document = msgspec.json.decode(text, type=_Document)
        except msgspec.DecodeError as error:
            raise PlanError(
                explain(f"this is no plan: {error}", "what Plan.to_json wrote", "plan the pipeline again")
            ) from None
        shape = [(operator.id, operator.kind, operator.inputs) for operator in document.operators]
        if (document.format, document.pipeline) != (FORMAT, pipeline.name) or shape != _shape(pipeline):
            wrong = f"the plan of {document.pipeline!r} does not fit pipeline {pipeline.name!r} at {pipeline.origin}"
            raise PlanError(explain(wrong, "the same operators", "plan the pipeline again"))
        # Plans that were written before stages had names call them by their ids.
        stages = tuple(structs.replace(stage, name=stage.name or stage.id) for stage in document.stages)
        return cls(pipeline, document.operators, stages, document.streams, document.stores)

    def fingerprint(self, *parts: Any) -> str:
        """A short hash of what may not change while state is kept: inputs, stateful operators, keys, and `parts`."""
        stores = [(store.operator, store.key, store.value) for store in self.stores]
        borders = [(stream.name, stream.kind, stream.partitions, stream.key) for stream in self.streams]
        inputs = [border for border in borders if border[1] in ("source", "intermediate")]
        return hashlib.sha256(msgspec.json.encode([self.name, stores, inputs, parts])).hexdigest()[:12]

    def _repr_html_(self) -> str:
        return Plan.picture(self)


def _shape(pipeline: Pipeline) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(operator.id, operator.kind, operator.inputs) for operator in pipeline.operators]
