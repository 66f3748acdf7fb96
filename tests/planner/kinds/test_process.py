"""What a plan says of processors, side outputs and splits: types, stores, and what may not change."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Generic, TypeVar

import pytest

from fluvial.dsl import (
    Context,
    KeyedProcessor,
    ListState,
    MapState,
    Message,
    Pipeline,
    PlanError,
    Serde,
    Tag,
    Tagged,
    ValueState,
)
from fluvial.planner import Plan, plan

T = TypeVar("T")
HOUR = timedelta(hours=1)


class Typed(KeyedProcessor[str, str, list[int]]):
    count = ValueState(int, 0)
    words = ListState(str)
    by_length = MapState(int, dict[str, int], ttl=HOUR)
    long = Tag("long", bytes)

    def on_message(self, message: Message[str], context: Context[str]) -> Any:  # noqa: ARG002
        return [[1]]


class Base(KeyedProcessor[str, str, T], Generic[T]):
    def on_message(self, message: Message[str], context: Context[str]) -> Any:  # noqa: ARG002
        return []


class Derived(Base[float]):
    pass


class Further(Derived):
    pass


class Annotated(KeyedProcessor):  # type: ignore[type-arg]
    def on_message(
        self,
        message: Message[str],  # noqa: ARG002
        context: Context[str],  # noqa: ARG002
    ) -> Iterable[int | Tagged[str]] | None:
        return None


class Untold(KeyedProcessor):  # type: ignore[type-arg]
    def on_message(self, *_):  # type: ignore[no-untyped-def]
        return []


class Counting:
    """What processors share beside their base."""


class Mixed(Counting, Typed):
    pass


class OnlyTagged(KeyedProcessor):  # type: ignore[type-arg]
    def on_message(self, message: Message[str], context: Context[str]) -> Iterable[Tagged[str]]:  # noqa: ARG002
        return []


def planned(processor: KeyedProcessor[Any, Any, Any]) -> Plan:
    pipeline = Pipeline("p")
    out = pipeline.stream("in", key=str, value=str).process(processor, id="it")
    out.send_to("out")
    if isinstance(processor, Typed):
        out.tagged(Typed.long).send_to("long")
    return plan(pipeline, partitions={"in": 3})


@pytest.mark.parametrize(
    ("processor", "kind"),
    [
        (Typed(), "list[int]"),
        (Derived(), "float"),
        (Further(), "float"),
        (Mixed(), "list[int]"),
        (Base(), None),
        (Annotated(), "int"),
        (Untold(), None),
        (OnlyTagged(), None),
    ],
)
def test_the_class_or_its_method_tells_what_comes_out(processor: Any, kind: str | None) -> None:
    assert planned(processor).operator("it").value == kind


def test_a_plan_tells_all_that_a_processor_keeps_and_emits() -> None:
    made = planned(Typed())
    process, side = made.operator("it"), made.operator("side-4")
    assert (process.role, process.label, side.label, side.value) == ("both", "process it", "side long", "bytes")
    assert process.details == {
        "processor": "Typed",
        "count": "int",
        "words": "list[str]",
        "by_length": "map[int, dict[str, int]] for 1 h",
        "side outputs": "long",
    }
    assert made.stores[0].value == "count: int, words: list[str], by_length: map[int, dict[str, int]] with ttl"
    assert [stream.partitions for stream in made.streams] == [3, 3, 3]
    assert Plan.from_json(made.to_json(), made.pipeline) == made


def test_a_processor_may_keep_nothing() -> None:
    assert planned(Derived()).stores[0].value == "timers"


def keeping(**states: Any) -> str:
    kind: Any = type("Keeping", (Derived,), states)
    return planned(kind()).fingerprint()


def test_names_and_types_of_states_may_not_change_while_they_are_kept() -> None:
    first = keeping(kept=ValueState(int))
    assert first == keeping(kept=ValueState(int, 0))
    others = [ValueState(str), ListState(int), MapState(str, int), ValueState(int, ttl=HOUR)]
    assert len({first, keeping(other=ValueState(int)), *(keeping(kept=other) for other in others)}) == 6
    assert keeping(kept=ValueState(int, ttl=HOUR)) == keeping(kept=ValueState(int, ttl=2 * HOUR))
    hexed: Serde[int] = Serde("hex", int, lambda n: b"%x" % n, lambda data: int(data, 16))
    assert keeping(kept=ValueState(hexed)) != first


def test_a_processor_wants_one_type_of_key() -> None:
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, key=kind, value=str) for name, kind in (("a", str), ("b", bytes)))
    merged: Any = one.merge(other)
    merged.process(Derived(), id="it").send_to("out")
    with pytest.raises(PlanError, match="process 'it' on messages without one key type"):
        plan(pipeline)


def test_branches_that_nobody_reads_are_left_out_but_not_all_of_them() -> None:
    pipeline = Pipeline("p")
    first, _, rest = pipeline.stream("in", value=str).split(str.isalpha, str.isdigit)
    first.send_to("out")
    made = plan(pipeline)
    line = made.operator("split-2").line
    assert [(made.operator(id).label, made.operator(id).value) for id in ("split-2", "branch-3", "branch-5")] == [
        (f"split(test_process.py:{line})", "str"),
        (f"branch(1, test_process.py:{line})", "str"),
        (f"branch(3, test_process.py:{line})", "str"),
    ]
    assert made.operator("split-2").details == {"predicates": "isalpha, isdigit"}
    alone = Pipeline("alone")
    alone.stream("in", value=str).split(str.isalpha)
    with pytest.raises(PlanError, match=r"nothing reads what branch\(1, "):
        plan(alone)
    assert rest.operator.kind == "branch"
