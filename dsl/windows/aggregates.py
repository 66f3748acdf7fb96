"""Aggregates: how the messages of a window become one value."""

from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import isclass
from typing import Any, Generic, TypeVar

from ..annotations import UNKNOWN, promised, returned, taken
from ..errors import PipelineError
from ..functions import called_name, function, gives_number, takes_back
from ..origin import Origin, here
from ..validation import a_type, explain
from ..verb_calls import explained_call
from .combining import Combines, any_accumulator, of_numbers, of_type, whole_number, whole_sum

V = TypeVar("V")
A = TypeVar("A")
R = TypeVar("R")
N = TypeVar("N", int, float)
V_contra = TypeVar("V_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


def _itself(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate(Generic[V_contra, R_co]):
    """An accumulator: `init()` makes it, `add(accumulator, value)` and `merge(one, other)` give the next one,
    `result` turns it into the pane's value.

    `state` and `gives` tell the types of accumulator and result, from the type of the values: accumulators are encoded
    when they are kept, so their type must be known. `kind` is the function that made it: `count`, `total`, `aggregate`
    and their like; `name` is the user's for one of the user's own.

    >>> largest = maximum(len)
    >>> largest.result(largest.add(largest.add(largest.init(), "tea"), "coffee"))
    6
    """

    name: str
    kind: str = field(repr=False)
    init: Callable[[], Any] = field(repr=False)
    add: Callable[[Any, V_contra], Any] = field(repr=False)
    merge: Callable[[Any, Any], Any] | None = field(repr=False)
    state: Callable[[Any], Any] = field(repr=False)
    gives: Callable[[Any], Any] = field(repr=False)
    result: Callable[[Any], R_co] = field(default=_itself, repr=False)
    taker: str = field(default="", repr=False)
    """The user's function that is given the values, as errors name it."""
    takes: tuple[Any, ...] = field(default=(), repr=False)
    """The types that it is annotated to take, once for each of its arguments that is a value."""
    appends: bool = field(default=False, repr=False)
    """Whether `add` appends to the accumulator, a list, and changes nothing else of it. What a message that failed has
    added is then removed; of other accumulators there is a copy."""
    combines: Combines | None = field(default=None, repr=False)
    """Says of an accumulator whether it may be merged with others before a shuffle; None where none may."""
    origin: Origin = field(repr=False)

    @property
    def is_ordered(self) -> bool:
        """Whether the result may depend on the order of the values, though the accumulators may be merged."""
        return self.kind == "aggregate"


def _scalar(value: Any) -> Any:
    """Refuse what would not come back the same from a store whose type nobody declared."""
    if type(value) not in (int, float, str, bool):
        raise TypeError(f"without type=, an aggregate keeps int, float, str or bool, not {type(value).__name__}")
    return value


def _none() -> None:
    return None


def _type_of(fn: Callable[..., Any], type_: Any) -> tuple[Any, Callable[[Any], Any]]:
    """The declared or annotated type of what `fn` returns, and the check to make where there is neither."""
    known = type_ if type_ is not UNKNOWN else returned(fn)
    return (Any, _scalar) if known is UNKNOWN else (known, _itself)


@explained_call
def count() -> Aggregate[Any, int]:
    """The number of messages.

    >>> count().add(2, "a third message")
    3
    """

    def add(total: int, _: Any) -> int:
        return total + 1

    def merge(one: int, other: int) -> int:
        return one + other

    return Aggregate(
        name="count",
        kind="count",
        init=int,
        add=add,
        merge=merge,
        state=lambda _: int,
        gives=lambda _: int,
        combines=any_accumulator,
        origin=here(),
    )


@explained_call
def total(fn: Callable[[V], N]) -> Aggregate[V, N]:
    """The sum of `fn(value)`, a number; 0 is where it starts.

    >>> total(len).add(10, "tea")
    13
    """
    function("total", fn, "value")
    gives_number("total", fn)
    type_, check = _type_of(fn, UNKNOWN)

    def add(acc: Any, value: V) -> Any:
        return acc + check(fn(value))

    def merge(one: Any, other: Any) -> Any:
        return one + other

    return Aggregate(
        name="total",
        kind="total",
        init=int,
        add=add,
        merge=merge,
        state=lambda _: type_,
        gives=lambda _: type_,
        taker=called_name(fn),
        takes=(taken(fn),),
        combines=of_numbers(type_, whole_number),
        origin=here(),
    )


def _extreme(name: str, fn: Callable[[V], R], type_: Any, better: Callable[[Any, Any], Any]) -> Aggregate[V, R]:
    function(name, fn, "value")
    if type_ is not UNKNOWN:
        a_type(f"{name}: type", type_)
    known, check = _type_of(fn, type_)

    def add(acc: Any, value: V) -> Any:
        result = check(fn(value))
        return result if acc is None else better(acc, result)

    def merge(one: Any, other: Any) -> Any:
        return better(one, other)

    state = known if known is Any else known | None
    return Aggregate(
        name=name,
        kind=name,
        init=_none,
        add=add,
        merge=merge,
        state=lambda _: state,
        gives=lambda _: known,
        taker=called_name(fn),
        takes=(taken(fn),),
        combines=of_numbers(known, whole_number),
        origin=here(),
    )


@explained_call
def minimum(fn: Callable[[V], R], *, type: Any = UNKNOWN) -> Aggregate[V, R]:
    """The smallest `fn(value)`. `type` tells what `fn` returns where it is no plain number or text.

    >>> minimum(len).add(4, "tea")
    3
    """
    return _extreme("minimum", fn, type, min)


@explained_call
def maximum(fn: Callable[[V], R], *, type: Any = UNKNOWN) -> Aggregate[V, R]:
    """The largest `fn(value)`. `type` tells what `fn` returns where it is no plain number or text.

    >>> maximum(lambda word: (len(word), word), type=tuple[int, str]).add((3, "tea"), "sip")
    (3, 'tea')
    """
    return _extreme("maximum", fn, type, max)


@explained_call
def mean(fn: Callable[[V], float]) -> Aggregate[V, float]:
    """The arithmetic mean of `fn(value)`.

    >>> lengths = mean(len)
    >>> lengths.result(lengths.add(lengths.add(lengths.init(), "tea"), "coffee"))
    4.5
    """
    function("mean", fn, "value")
    gives_number("mean", fn)

    def add(acc: tuple[float, int], value: V) -> tuple[float, int]:
        return acc[0] + fn(value), acc[1] + 1

    def merge(one: tuple[float, int], other: tuple[float, int]) -> tuple[float, int]:
        return one[0] + other[0], one[1] + other[1]

    def result(acc: tuple[float, int]) -> float:
        return acc[0] / acc[1]

    return Aggregate(
        name="mean",
        kind="mean",
        init=lambda: (0, 0),
        add=add,
        merge=merge,
        state=lambda _: tuple[int | float, int],
        gives=lambda _: float,
        result=result,
        taker=called_name(fn),
        takes=(taken(fn),),
        combines=of_numbers(returned(fn), whole_sum),
        origin=here(),
    )


@explained_call
def collect() -> Aggregate[V, list[V]]:
    """All values, in order of arrival; in the order of the windows' starts where sessions merge.

    >>> collect().add(["tea"], "coffee")
    ['tea', 'coffee']
    """

    def add(acc: list[V], value: V) -> list[V]:
        acc.append(value)
        return acc

    def merge(one: list[V], other: list[V]) -> list[V]:
        return one + other

    def list_type(value: Any) -> Any:
        return UNKNOWN if value is UNKNOWN else list[value | None]

    return Aggregate(
        name="collect",
        kind="collect",
        init=list,
        add=add,
        merge=merge,
        state=list_type,
        gives=list_type,
        appends=True,
        origin=here(),
    )


@explained_call
def reduce(fn: Callable[[V, V], V]) -> Aggregate[V, V]:
    """Values combined two by two; `fn` must be associative if used with sessions, for they merge.

    >>> longest = reduce(lambda one, other: max(one, other, key=len))
    >>> longest.add("tea", "coffee")
    'coffee'
    """
    function("reduce", fn, "one", "other")
    name = called_name(fn)
    takes_back("reduce", f"{name} returns", promised(fn), f"{name} takes", taken(fn), taken(fn, 1))

    def add(acc: V | None, value: V) -> V:
        return value if acc is None else fn(acc, value)

    def optional(value: Any) -> Any:
        return UNKNOWN if value is UNKNOWN else value | None

    return Aggregate(
        name="reduce",
        kind="reduce",
        init=_none,
        add=add,
        merge=fn,
        state=optional,
        gives=optional,
        taker=called_name(fn),
        takes=(taken(fn), taken(fn, 1)),
        origin=here(),
    )


def _accumulator(init: Callable[[], Any], add: Callable[..., Any], merge: Callable[..., Any] | None, type: Any) -> Any:
    """The type of an accumulator; raises PipelineError where nothing tells it, or functions contradict each other."""
    initial, added = init if isclass(init) else promised(init), promised(add)
    takes_back("aggregate", "init gives", initial, "add takes", taken(add))
    takes_back("aggregate", "add returns", added, "add takes", taken(add))
    takes_back("aggregate", "add returns", added, "type= is", type)
    if merge is not None:
        takes_back("aggregate", "add returns", added, "merge takes", taken(merge), taken(merge, 1))
        takes_back("aggregate", "merge returns", promised(merge), "add returns", added)
    type_ = next((type_ for type_ in (type, returned(add), returned(init)) if type_ is not UNKNOWN), UNKNOWN)
    if type_ is UNKNOWN:
        wrong = "aggregate: nothing tells the accumulator's type"
        raise PipelineError(explain(wrong, "an annotated add or init, or type=", "annotate what add returns"))
    return type_


@explained_call
def aggregate(
    init: Callable[[], A],
    add: Callable[[A, V], A],
    *,
    merge: Callable[[A, A], A] | None = None,
    type: Any = UNKNOWN,
) -> Aggregate[V, A]:
    """An aggregate of your own: `init()` starts it, `add` takes a value in, `merge` joins two.

    The accumulator's type comes from `type`, else from the annotation of what `add` or `init` returns: it is encoded
    when it is kept. `add` may change the accumulator in place if it returns it, but must not raise half-way.

    Sessions need `merge`. With it, windows behind a `partition_by` are given the messages in parts that are aggregated
    before the shuffle (see `combine=` of `KeyedStream.window`): to merge what two parts of the messages give must give
    the same as to add all of them, in the order of the parts.

    >>> def longest(best: str, word: str) -> str:
    ...     return max(best, word, key=len)
    >>> aggregate(str, longest, merge=longest).name
    'longest'
    """
    function("aggregate: init", init)
    function("aggregate: add", add, "accumulator", "value")
    if merge is not None:
        function("aggregate: merge", merge, "one", "other")
    if type is not UNKNOWN:
        a_type("aggregate: type", type)
    type_ = _accumulator(init, add, merge, type)
    name = getattr(add, "__name__", "aggregate")
    return Aggregate(
        name=name,
        kind="aggregate",
        init=init,
        add=add,
        merge=merge,
        state=lambda _: type_,
        gives=lambda _: type_,
        taker=called_name(add),
        takes=(taken(add, 1),),
        combines=None if merge is None else of_type(type_),
        origin=here(),
    )
