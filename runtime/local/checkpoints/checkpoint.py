"""Checkpoints: what a task writes at a commit, and resumes from after a restart."""

from collections.abc import Mapping
from contextlib import closing

from msgspec import Struct, field, json, structs

from ....dsl.operators import TableOf, table_id
from ....planner.border_schema import BorderSchema
from ....planner.grouping import OnlyInput
from ....planner.state_schema import StateSchema
from ...kernel.time.position import Position
from ...systems.contract import System
from ..saved_record import read_saved

# Another number, older or newer, is refused (`read_saved`): new fields with defaults need no new one.
VERSION = 1

OPERATOR_FACTS = ("states", "changelogs", "tables", "journals")
"""The fields of a checkpoint, beside its position, that are by operator: they move with the operator's state."""
STREAM_FACTS = ("offsets", "identities", "holds")
"""The fields of a checkpoint, beside its position, that are by input stream."""

_FIELDS = structs.fields(Position)
_POSITION = tuple(one.encode_name for one in _FIELDS)
_WRITTEN = (
    *("version", "offsets", *_POSITION[:2]),
    *("changelogs", "run", *_POSITION[2:12]),
    *("states", "atomic", "number", "identities", "tables", *_POSITION[12:14]),
    *("borders", *_POSITION[14:]),
)
"""The fields of a checkpoint as JSON, in the order in which versions have added them. Those of the position lie among
the others, as they did before it was a record of its own."""


_OPTIONAL = ("owner", "bootstrapping", "holds", "input", "journals")
"""Later ones, which are left out where they are empty."""

Owner = tuple[str, int]
"""The container that a task was handed over to: the id of the run, and the number of the container."""


class Hold(Struct, frozen=True, array_like=True):
    """Why a growth of a source is not processed yet. `until` this time, in ms since epoch, producers may still write to
    the partitions of before; what these hold then, up to the offsets `ends` by input, is processed first. It is empty
    until they are known."""

    until: int
    ends: dict[str, int] = {}


class Checkpoint(Struct, frozen=True, kw_only=True):
    """The point from which a task resumes.

    - `offsets`: for each input stream the offset before which every message has landed.
    - `position`: the watermarks, the clock, and which producers have ended; the last is valid for one `run` only.
    - `changelogs`: for each operator the end offset of its changelog.
    - `states`: for each operator the schema of its state.
    - `atomic`: whether the changelogs were written in one transaction with it, so that they hold nothing beyond it.
    - `number`: the count of the task's commits; 0 in checkpoints of versions that did not count.
    - `identities`: the ids of the input streams that have ids; the offsets are valid for these streams only.
    - `tables`: for each table the offset up to which it has read its stream, since the stream may be read on without
      the table; None in checkpoints of versions that did not store it.
    - `borders`: the schemas of the intermediate streams that the task writes.
    - `owner`: the container that has the task now, if it has got another one in a run that was scaled.
    - `bootstrapping`: whether bootstrap streams were processed, before the other inputs.
    - `holds`: the growths of sources that are held back.
    - `journals`: for each operator with a journal the offset from which its entries may be needed.
    - `input`: what the task reads besides broadcasts, where its stage is grouped by stream and partition.

    A source that has grown is several inputs, each with the name of a growth (`growth_name`), here and in the position.
    """

    version: int = VERSION
    offsets: dict[str, int] = {}
    position: Position = field(default_factory=Position)
    changelogs: dict[str, int] = {}
    run: str = ""
    states: dict[str, StateSchema] = {}
    atomic: bool = False
    number: int = 0
    identities: dict[str, str] = {}
    tables: dict[str, int] | None = None
    borders: dict[str, BorderSchema] = {}
    owner: Owner | None = None
    bootstrapping: bool = False
    holds: dict[str, Hold] = {}
    input: OnlyInput | None = None
    journals: dict[str, int] = {}

    @property
    def blank(self) -> bool:
        """Whether nothing was ever committed. A commit leaves offsets or, if these were reset, state, or journals that
        count no more."""
        return not (self.offsets or self.states or self.changelogs or self.journals)

    def within(self, run: str) -> "Checkpoint":
        """This checkpoint as a run resumes from it: producers that ended in another run have not ended in this one."""
        if self.run == run:
            return self
        return structs.replace(self, run="", position=structs.replace(self.position, ended={}))

    def owner_in(self, run: str) -> Owner | None:
        """The container that a run has moved the task to; None where this run has not moved it."""
        return self.owner if self.owner is not None and self.owner[0] == run else None


Checkpoints = Mapping[str, Checkpoint]
"""The checkpoints of a pipeline by task name, those of former names too."""


def checkpoints_in(system: System, pipeline: str) -> Checkpoints:
    """The last checkpoint of each task of a pipeline. Raises SystemProblem as `decode` does."""
    return {task: decode(data, task) for task, data in system.admin().checkpoints(pipeline).items()}


def write_checkpoints(system: System, pipeline: str, checkpoints: Checkpoints) -> None:
    """Make these the last checkpoints of their tasks. No task of the pipeline may run."""
    with closing(system.producer()) as producer:
        producer.begin().commit(pipeline, {task: encode(checkpoint) for task, checkpoint in checkpoints.items()})


def is_ahead(one: Checkpoint, other: Checkpoint) -> bool:
    """Whether one checkpoint is later than another in any respect."""
    changelogs = any(end > other.changelogs.get(name, 0) for name, end in one.changelogs.items())
    return changelogs or any(offset > other.offsets.get(name, 0) for name, offset in one.offsets.items())


def encode(checkpoint: Checkpoint) -> bytes:
    """A checkpoint as JSON, with its fields in the order in which versions have added them."""
    position = {one.encode_name: getattr(checkpoint.position, one.name) for one in _FIELDS}
    values = structs.asdict(checkpoint) | position
    # Those that came with key buckets, handovers, growths and groupings are left out where there are none.
    absent = {name for name in ("writers", *_OPTIONAL) if not values[name]}
    return json.encode({name: values[name] for name in (*_WRITTEN, *_OPTIONAL) if name not in absent})


def decode(data: bytes, task: str) -> Checkpoint:
    """Decode a checkpoint. Raises SystemProblem if that fails, or if it has another version."""
    expected, location = "a checkpoint that a run of the pipeline wrote", "the checkpoints of the pipeline"
    checkpoint = read_saved(_decode, data, VERSION, f"the checkpoint of task {task}", expected, location)
    before = _tables_of_before(checkpoint) if checkpoint.tables is None else None
    return structs.replace(checkpoint, tables=before) if before else checkpoint


def _decode(data: bytes) -> Checkpoint:
    """Decode the checkpoint and its position, whose fields lie in one JSON object. Each decoder ignores the fields of
    the other."""
    position = json.decode(data, type=Position)
    return structs.replace(json.decode(data, type=Checkpoint), position=position)


def _tables_of_before(checkpoint: Checkpoint) -> dict[str, int]:
    """The offsets of tables in a checkpoint without `tables`. In that version only the table read its stream."""
    by_table = {table_id(stream): offset for stream, offset in checkpoint.offsets.items()}
    tables = (id for id, schema in checkpoint.states.items() if schema.kind == TableOf.kind)
    return {id: by_table[id] for id in tables if id in by_table}
