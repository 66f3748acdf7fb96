"""The position of a task in time at a commit: of its inputs, its operators and the clock."""

from msgspec import Struct, field

from .bounds import START

Cursor = tuple[int, bytes]
"""The end of a window, and a key: how far a firing has come."""


class WritersOfStream(Struct, frozen=True, array_like=True):
    """The tasks that write an intermediate stream, as its reader knows them: `numbers` of the stage, the elasticity of
    all of them, and the generation of the assignment that gave it to them. While they change, `mixed` has both for each
    producer."""

    numbers: int
    elasticity: int = 1
    generation: int = -1
    mixed: dict[int, tuple[int, int]] = {}


class Position(Struct):
    """How far a task has come at a commit, besides the offsets of its inputs. Times are in ms since epoch.

    By input stream:

    - `highs`: the largest timestamp of a source;
    - `producers`: the watermark that the messages of each producer have reported;
    - `ended`: the producers that have reported the end of this run;
    - `idle`: the idle producers, 0 for an idle source;
    - `rested`: the watermark of each idle producer, which advances with the clock;
    - `out_of_order`: that of the source, in ms;
    - `quiet_since`: the processing time since which a source that may be idle had no message;
    - `writers`: the tasks that write an intermediate stream, where tasks are split by key.

    By operator that keeps state:

    - `reached`: the watermark up to which it has fired; in processing time, the clock;
    - `clock_fired`: the processing time up to which the clock timers of a processor have fired;
    - `lateness`: that of a window, in ms;
    - `forgotten`: the end up to which windows were forgotten before their lateness was increased;
    - `versions`: the number of commits that have changed a table;
    - `built`: the sum of the versions from which a joined table is built;
    - `fired_at_end`: the greatest end of the windows that have fired at an end of input, and are kept;
    - `cursors`: the last window, and its key, that has fired in a firing which is not over;
    - `met`: from earlier versions, in place of `reached`: the watermark where the inputs of an operator merge.

    `clock` is the processing time up to which everything has fired. Entries of an operator that the stage no longer has
    are kept: they count again if the operator comes back.

    Checkpoints store the fields by name. A new field comes last, and has a default.
    """

    highs: dict[str, int] = field(default_factory=dict)
    producers: dict[str, dict[int, int]] = field(default_factory=dict)
    ended: dict[str, list[int]] = field(default_factory=dict)
    idle: dict[str, list[int]] = field(default_factory=dict)
    clock: int = START
    met: dict[str, int] = field(default_factory=dict)
    rested: dict[str, dict[int, int]] = field(default_factory=dict)
    lateness: dict[str, int] = field(default_factory=dict)
    out_of_order: dict[str, int] = field(default_factory=dict)
    forgotten: dict[str, int] = field(default_factory=dict)
    reached: dict[str, int] = field(default_factory=dict)
    clock_fired: dict[str, int] = field(default_factory=dict, name="rung")  # stored under its first name
    versions: dict[str, int] = field(default_factory=dict)
    built: dict[str, int] = field(default_factory=dict)
    quiet_since: dict[str, int] = field(default_factory=dict)
    fired_at_end: dict[str, int] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    writers: dict[str, WritersOfStream] = field(default_factory=dict)


POSITION_BY_OPERATOR = (
    "lateness",
    "forgotten",
    "reached",
    "clock_fired",
    "versions",
    "built",
    "fired_at_end",
    "cursors",
)
"""The fields with an entry for each operator that keeps state. The entry moves to another task with the state."""
POSITION_BY_STREAM = ("highs", "producers", "idle", "rested", "out_of_order", "quiet_since", "writers")
"""The fields with an entry for each input stream."""
