"""How far each stateful operator of a task has come: the watermark up to which it has fired.

An operator has a watermark of its own, which is committed with its state: see `watermarks`."""

from .bounds import END, START
from .watermark_node import lagging
from .watermarks import WatermarkGraph


def reached(watermarks: WatermarkGraph) -> dict[str, int]:
    """The watermark of each stateful operator, for a commit: what was due by then has fired. For an input that has
    ended it is the reported watermark, from which a later run with more input goes on."""
    watermarks.catch_up()
    return {id: _committed_of(watermarks, id, index) for id, index in watermarks.of_nodes.operators.items()}


def reached_by(watermarks: WatermarkGraph, operator: str) -> int:
    """The watermark of one operator; START if it keeps no state."""
    index = watermarks.of_nodes.operators.get(operator)
    return START if index is None else _passed_by(watermarks, index)


def _committed_of(watermarks: WatermarkGraph, operator: str, index: int) -> int:
    if watermarks.now[index] != END or watermarks.of_nodes.returns:
        return _passed_by(watermarks, index)
    before = watermarks.nodes[index].follows[0]
    return max(watermarks.of_nodes.restored.get(operator, START), _reported_before_end(watermarks, before))


def _reported_before_end(watermarks: WatermarkGraph, index: int) -> int:
    """The watermark that a node would have if no input had ended before another."""
    node = watermarks.nodes[index]
    if node.kind == "stream":
        return watermarks.of_nodes.reported(index)
    if node.kind == "clock":
        return watermarks.clock
    return lagging(min(_reported_before_end(watermarks, other) for other in node.follows), node.behind)


def _passed_by(watermarks: WatermarkGraph, index: int) -> int:
    return lagging(watermarks.of_nodes.reported(index), -watermarks.nodes[index].behind)
