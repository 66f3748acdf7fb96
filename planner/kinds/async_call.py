"""What the planner knows of `async_flat_map`: the type of the items that its calls return, and the limits of calls."""

import inspect
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, get_args, get_origin

from ...dsl import operators as ops
from ...dsl.annotations import element_type, returned, taken
from ...dsl.operators.labels import function_name
from ..descriptions import duration
from ..flow import Flow
from .contradictions import Contradiction, taking
from .row import PlannerKind


def _of_awaited_items(operator: ops.AsyncFlatMap, inputs: list[Flow]) -> Flow:
    """The items of what the function's call gives when it is awaited."""
    return Flow(inputs[0].key, element_type(_awaited(returned(operator.call.fn))))


def _awaited(type_: Any) -> Any:
    """The type that awaiting gives; an `async def` is annotated with it already. What is awaited names it last:
    `Awaitable[R]`, `Coroutine[Any, Any, R]`, `asyncio.Task[R]`."""
    origin = get_origin(type_)
    return get_args(type_)[-1] if inspect.isclass(origin) and issubclass(origin, Awaitable) else type_


def _called(operator: ops.AsyncFlatMap) -> Callable[..., Any]:
    return operator.call.fn


def _of_call(operator: ops.AsyncFlatMap, inputs: list[Flow]) -> Iterator[Contradiction]:
    fn = operator.call.fn
    return taking(operator, function_name(fn), taken(fn), inputs)


def _async_options(op: ops.AsyncFlatMap) -> dict[str, str]:
    """Its function, the order of results, and the limits of its calls."""
    call = op.call
    options = {"function": function_name(call.fn), "order": call.order, "max_in_flight": str(call.max_in_flight)}
    options["timeout"] = duration(call.timeout)
    if call.retry is not None:
        options["attempts"] = str(call.retry.attempts)
    if call.resource is not None:
        options["resource"] = call.resource.name
    return options


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.AsyncFlatMap: PlannerKind(
        flow=_of_awaited_items, options=_async_options, contradictions=_of_call, typing_function=_called
    ),
}
