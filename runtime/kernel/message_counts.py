"""The number of input messages of each operator of a stage.

Only two things are counted while messages are processed: the records that are fed, and the outputs of operators that
emit fewer or more messages than they are given. All other counts follow from these and from the failures.
"""

from collections.abc import Mapping, Sequence

from .code.stage_graph import StageGraph


def input_counts(
    graph: StageGraph,
    fed: Mapping[str, int],
    controls: Mapping[str, int],
    emitted: Sequence[int],
    failed: Mapping[str, int],
) -> dict[str, int]:
    """The number of messages given to each operator. `fed` counts records by stream, and `controls` the control
    messages among them; `emitted` counts the outputs of operators in the order of the stage, and `failed` failures by
    operator."""
    given = {entry.writer: 0 for entry in graph.inputs.values()}
    for stream, entry in graph.inputs.items():
        given[entry.writer] += fed[stream] - controls.get(stream, 0)
    out = {writer: number - failed.get(writer, 0) for writer, number in given.items()}
    counts: dict[str, int] = {}
    for (id, operator), number in zip(graph.operators.items(), emitted, strict=True):
        if id in graph.side_of:  # it is given its own outputs, not those of the processor
            counts[id] = number
        else:
            counts[id] = given[id] if operator.reads is not None else sum(out[of] for of in operator.fed_by)
        if operator.emits in ("some", "many"):
            out[id] = number
        elif not operator.is_border:  # the outputs of a border are fed to the next stage
            out[id] = counts[id] - failed.get(id, 0)
        if operator.fills is not None:
            counts[operator.fills] += out[id]
    return counts
