"""The limits of streams, as the limits of the operators that write them."""

import pytest

from fluvial.dsl import Pipeline, dead_letter
from fluvial.planner import plan
from fluvial.runtime.kernel.compiler.graph_builder import build_stage_graph
from fluvial.runtime.kernel.compiler.stream_limits import limits_of_operators
from fluvial.runtime.kernel.output_buffer import DEAD_LETTERS
from fluvial.runtime.kernel.time.border_watermarks import TRAILER_BYTES, TRAILER_SIZE
from fluvial.runtime.size_limit import SizeLimit

LIMIT = SizeLimit(1_000)


def found(limits: dict[str, SizeLimit], trailers: bool = True) -> dict[str, SizeLimit]:
    pipeline = Pipeline("p", on_error=dead_letter())
    words = pipeline.stream("in", value=str)
    words.send_to("out")
    words.partition_by(len, id="by", key_type=int).send_to("behind")
    graph = build_stage_graph(plan(pipeline), "in", {"in": "source"})
    return limits_of_operators(graph, limits, trailers)


def test_an_operator_has_the_limit_of_the_stream_that_it_writes() -> None:
    assert found({"out": LIMIT, "behind": LIMIT, "in": LIMIT}) == {"send_to-2": LIMIT}


def test_dead_letters_have_that_of_theirs() -> None:
    assert found({"p-dead-letters": LIMIT}) == {DEAD_LETTERS: LIMIT}


@pytest.mark.parametrize("trailers", [True, False])
def test_a_record_between_stages_has_room_for_its_trailer(trailers: bool) -> None:
    (limit,) = found({"p-by": LIMIT}, trailers).values()
    assert limit.largest == (LIMIT.largest - TRAILER_BYTES if trailers else LIMIT.largest)
    assert TRAILER_BYTES > TRAILER_SIZE
