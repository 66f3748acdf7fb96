"""The graph of operators: ids, order, and what of it is replaced."""

import pytest

from fluvial.dsl import KeyedStream, PipelineError
from fluvial.dsl.operators import Map, Merge, Source, TableOf
from fluvial.dsl.operators.graph import OperatorGraph


def graph() -> OperatorGraph:
    """A source and two functions behind it that were written on one line."""
    made = OperatorGraph("p", KeyedStream)
    source = made.add(Source, inputs=(), stream="words", value=str)
    first, second = (made.add(Map, inputs=(source,), fn=lambda word: word) for _ in range(2))
    made.add(Merge, id="all", inputs=(first, second))
    return made


def test_an_operator_without_id_is_numbered_by_its_place() -> None:
    assert [operator.id for operator in graph()] == ["stream-1", "map-2", "map-3", "all"]


def test_operators_that_read_alike_on_one_line_are_numbered_in_their_labels() -> None:
    first, second = graph().of(Map)
    assert (first.number_on_line, second.number_on_line) == (1, 2)
    assert first.label != second.label


def test_operators_that_read_differently_are_not_numbered() -> None:
    made = graph()
    assert [made[id].number_on_line for id in ("stream-1", "all")] == [0, 0]


def test_an_id_is_given_once() -> None:
    made = graph()
    with pytest.raises(PipelineError, match=r"id 'all' is used twice in pipeline 'p', first by merge at .*test_graph"):
        made.add(Map, id="all", inputs=("stream-1",), fn=str)


def test_a_stream_is_read_once() -> None:
    made = graph()
    made.check_new_stream("others")
    with pytest.raises(PipelineError, match="stream 'words' is read twice"):
        made.check_new_stream("words")


def test_a_table_that_is_filled_loses_its_source_and_keeps_its_name() -> None:
    made = OperatorGraph("p", KeyedStream)
    source = made.add(Source, inputs=(), stream="users", value=str, key=str, bootstrap=True)
    table = made.add(TableOf, id="users", inputs=(source,), stream="users", key=str, value=str)
    made.fill(table)
    assert [(operator.id, operator.inputs) for operator in made] == [("users", ())]
    with pytest.raises(PipelineError, match="stream 'users' is read twice"):
        made.check_new_stream("users")


def test_an_operator_is_replaced_in_its_place() -> None:
    made = graph()
    other = Map(id="map-2", inputs=("stream-1",), origin=made["map-2"].origin, fn=str)
    made.put(other)
    assert made["map-2"] is other
    assert [operator.id for operator in made] == ["stream-1", "map-2", "map-3", "all"]


def test_the_same_graph_for_networkx_has_the_records() -> None:
    made = graph()
    other = made.to_networkx()
    assert list(other.edges()) == [("stream-1", "map-2"), ("stream-1", "map-3"), ("map-2", "all"), ("map-3", "all")]
    assert [other.nodes[operator.id]["operator"] for operator in made] == list(made)
