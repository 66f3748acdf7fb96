"""What people read of an operator."""

from functools import partial
from typing import Any

import pytest

from fluvial.dsl import Pipeline
from fluvial.planner import plan
from fluvial.planner.shown_operators import distinct_labels


class Doubled:
    """Can be called."""

    def __call__(self, number: int) -> int:
        return 2 * number


CASES: list[tuple[Any, str]] = [
    (lambda s: s, "stream numbers"),
    (lambda s: s.map(abs), "map(abs)"),
    (lambda s: s.map(partial(round, ndigits=2)), "map(round)"),
    (lambda s: s.map(Doubled()), "map(Doubled)"),
    (lambda s: s.filter(lambda number: number), "filter(lambda, test_labels.py:LINE)"),
    (lambda s: s.merge(s), "merge(test_labels.py:LINE)"),
    (lambda s: s.split(abs)[1], "branch(2, test_labels.py:LINE)"),
    (lambda s: s.partition_by(abs, id="by-size", key_type=int), "partition_by by-size"),
    (lambda s: s.broadcast(id="all"), "broadcast all"),
]


@pytest.mark.parametrize(("build", "shown"), CASES, ids=[case[1] for case in CASES])
def test_an_operator_is_named_by_stream_id_or_function(build: Any, shown: str) -> None:
    made = build(Pipeline("p").stream("numbers", value=int))
    wanted = shown.replace("LINE", str(build.__code__.co_firstlineno))
    assert (made.operator.label, wanted in repr(made)) == (wanted, True)


def test_labels_that_are_alike_are_told_apart_by_their_lines() -> None:
    pipeline = Pipeline("p")
    stream = pipeline.stream("numbers", value=int).map(abs)
    stream.map(abs).send_to("out")
    first, second = (operator.line for operator in plan(pipeline).operators if operator.kind == "map")
    assert list(distinct_labels(plan(pipeline).operators).values()) == [
        "stream numbers",
        f"map(abs), test_labels.py:{first}",
        f"map(abs), test_labels.py:{second}",
        "send_to out",
    ]


def test_operators_that_read_alike_on_one_line_are_numbered() -> None:
    pipeline = Pipeline("p")
    stream = pipeline.stream("numbers", value=int).map(abs)
    # fmt: off
    stream.map(lambda n: n + 1).map(lambda n: 1 // n).filter(lambda n: n).map(abs).map(abs).send_to("out")
    stream.send_to("even"); stream.send_to("even")  # noqa: E702
    # fmt: on
    operators = plan(pipeline).operators
    labels = [operator.label for operator in operators]
    line = f"test_labels.py:{operators[2].line}"
    sends = f"test_labels.py:{operators[2].line + 1}"
    assert labels == [
        "stream numbers",
        "map(abs)",
        f"map(lambda, {line}, 1st)",
        f"map(lambda, {line}, 2nd)",
        f"filter(lambda, {line})",
        f"map(abs, {line}, 1st)",
        f"map(abs, {line}, 2nd)",
        "send_to out",
        f"send_to even ({sends}, 1st)",
        f"send_to even ({sends}, 2nd)",
    ]
    assert labels == list(distinct_labels(operators).values()) == [pipeline.operator(one.id).label for one in operators]
