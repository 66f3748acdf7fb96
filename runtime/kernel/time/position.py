"""What a task remembers of time at a commit: its inputs, its operators, and the clock."""

from dataclasses import dataclass, field

from .bounds import START


@dataclass(slots=True)
class Position:
    """What a task remembers of its inputs besides offsets: the largest timestamp of each source, and each producer's
    watermark of each intermediate stream; in ms since epoch. `ended` are the producers of each that have told the end
    of this run, `idle` those to which nothing comes, or 0 for an idle source; `clock` is the processing time up to
    which all has fired. `rested` tells how far the time of those that are idle has gone on; their other watermarks are
    what their messages have told.

    `reached` is the watermark of each operator that keeps state, up to which all has fired there; of one that goes by
    the clock it is the clock's time. `met` is what versions before have kept in its place, by operator: how far time
    had come where inputs meet. `rung` is the time up to which clock timers have rung, by processor.

    `lateness` and `out_of_order` are those of windows, by operator, and of sources; in ms. `forgotten` tells of windows
    whose lateness has grown since: up to which end they were forgotten by then. `versions` counts the commits that have
    changed each table, and `built` tells of which versions of its tables, together, a joined one is made. What is
    known of an operator that the stage no longer has is carried along: it counts again if the operator comes back.

    Checkpoints and Spark's state keep the fields by name. A new field goes to the end, and has a default.
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
    rung: dict[str, int] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    built: dict[str, int] = field(default_factory=dict)


POSITION_BY_OPERATOR = ("lateness", "forgotten", "reached", "rung", "versions", "built")
"""The fields of a position that tell of operators which keep state: they go where the state goes."""
POSITION_BY_STREAM = ("highs", "producers", "idle", "rested", "out_of_order")
"""The fields of a position that tell of input streams."""
