"""What the planner knows of `async_flat_map`: the type of the items that its calls return, and the limits of calls."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN, element_type, returned, taken
from ...dsl.operators.labels import function_name
from ...dsl.pooled_function import PooledFunction
from ...dsl.text import plural
from ..descriptions import duration
from ..flow import Flow
from .contradictions import Contradiction, taking
from .row import PlannerKind


def _of_awaited_items(operator: ops.AsyncFlatMap, inputs: list[Flow]) -> Flow:
    """The items of what the function's call gives when it is awaited."""
    if operator.call.result is not None:
        return Flow(inputs[0].key, operator.call.result)
    gives = _awaited(returned(operator.call.fn))
    return Flow(inputs[0].key, element_type(gives if operator.call.batch is None else _without_errors(gives)))


def _without_errors(type_: Any) -> Any:
    """The type of the results of one message, in what a batch gives, without the exceptions that may be there."""
    one = element_type(type_)
    parts = get_args(one) if get_origin(one) in (Union, UnionType) else (one,)
    lists = [part for part in parts if not (inspect.isclass(part) and issubclass(part, BaseException))]
    return lists[0] if len(lists) == 1 else UNKNOWN


def _awaited(type_: Any) -> Any:
    """The type that awaiting gives; an `async def` is annotated with it already. What is awaited names it last:
    `Awaitable[R]`, `Coroutine[Any, Any, R]`, `asyncio.Task[R]`."""
    origin = get_origin(type_)
    return get_args(type_)[-1] if inspect.isclass(origin) and issubclass(origin, Awaitable) else type_


def _called(operator: ops.AsyncFlatMap) -> Callable[..., Any]:
    return operator.call.fn


def _of_call(operator: ops.AsyncFlatMap, inputs: list[Flow]) -> Iterator[Contradiction]:
    fn: Callable[..., Any] = operator.call.fn
    fn = fn.fn if isinstance(fn, PooledFunction) else fn
    wanted = taken(fn) if operator.call.batch is None else element_type(taken(fn))
    return taking(operator, function_name(fn), wanted, inputs)


def _async_options(op: ops.AsyncFlatMap) -> dict[str, str]:
    """Its function, the order of results, and the limits of its calls."""
    call = op.call
    options = {"function": function_name(call.fn), "order": call.order, "max_in_flight": str(call.max_in_flight)}
    options["timeout"] = duration(call.timeout)
    if isinstance(call.fn, PooledFunction):
        options[call.fn.kind] = str(call.fn.size)
    if call.retry is not None:
        options["attempts"] = str(call.retry.attempts)
    if call.batch is not None:
        options["batch"] = f"{plural(call.batch.size, 'message')}, {duration(call.batch.delay_ms)}"
    if call.hedge is not None:
        options["hedge"] = duration(call.hedge)
    if call.resource is not None:
        options["resource"] = call.resource.name
    if call.limit is not None:
        options["limit"] = call.limit.name
    if call.breaker is not None:
        options["breaker"] = call.breaker.name
    if call.concurrency is not None:
        options["concurrency"] = f"{call.concurrency.least} to {call.max_in_flight}, as the service takes"
    if call.journal:
        options["journal"] = "results are kept until they are committed"
    return options


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.AsyncFlatMap: PlannerKind(
        flow=_of_awaited_items, options=_async_options, contradictions=_of_call, typing_function=_called
    ),
}
