"""How many messages each operator of a stage was given.

Only two things are counted while messages are processed: what is fed, and the outputs of operators that pass on fewer
or more messages than they are given. All other counts follow from these and from the failures.
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
    """Messages given to each operator: `fed` counts records by stream, `controls` those of them that are no messages,
    `emitted` messages by the operators' places in the stage, `failed` failures by operator."""
    given = {entry.writer: fed[stream] - controls.get(stream, 0) for stream, entry in graph.inputs.items()}
    out = {writer: number - failed.get(writer, 0) for writer, number in given.items()}
    counts: dict[str, int] = {}
    for (id, operator), number in zip(graph.operators.items(), emitted, strict=True):
        if id in graph.side_of:  # it is not what comes out of the processor otherwise
            counts[id] = number
        else:
            counts[id] = given[id] if operator.reads is not None else sum(out[of] for of in operator.fed_by)
        if operator.emits in ("some", "many"):
            out[id] = number
        elif not operator.is_border:  # what a border passes on is what the reading stage is fed
            out[id] = counts[id] - failed.get(id, 0)
        if operator.fills is not None:
            counts[operator.fills] += out[id]
    return counts
