"""What the planner knows of `process` and of side outputs: the types that the processor's class declares, and the
states and timers that it keeps."""

from collections.abc import Callable, Iterator, Mapping
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

from ...dsl import operators as ops
from ...dsl.annotations import UNKNOWN, element_type, message_value, returned, taken
from ...dsl.keyed_state import HoldsStates, ListState, MapState, State
from ...dsl.operators.labels import function_name
from ...dsl.pipeline import Pipeline
from ...dsl.processor import Context, KeyedProcessor, Tagged, answers_timers, clock_of, states_of, tags_of
from ...dsl.serde import Serde, key_serde
from ..descriptions import duration, exclusive_options, state_text
from ..flow import Flow
from ..state_schema import CLOCK_TIMERS, STATE
from .checks import check_keyed
from .contradictions import Contradiction, taking, taking_keys
from .row import Flows, Meaning, OperatorState, PlannerKind
from .state_facts import format_name, key_facts, layout_facts, type_of_values


def _of_processor(operator: ops.Process, inputs: list[Flow]) -> Flow:
    """The type of what the processor emits without a tag, under the key of its input."""
    return Flow(inputs[0].key, _emitted(operator.processor))


def _of_side(operator: ops.Side, inputs: list[Flow]) -> Flow:
    """The type that its tag declares, under the key of the processor's input."""
    return Flow(inputs[0].key, operator.tag.type)


def _emitted(processor: KeyedProcessor[Any, Any, Any]) -> Any:
    """The type of what a processor emits without a tag: as its class says, else as its method is annotated."""
    arguments = arguments_of(type(processor), KeyedProcessor)
    if len(arguments) == 3 and not isinstance(arguments[2], TypeVar):
        return UNKNOWN if arguments[2] is Any else arguments[2]
    kinds = [type_ for type_ in _choices(returned(processor.on_message)) if type_ is not NoneType]
    return _untagged(element_type(kinds[0])) if len(kinds) == 1 else UNKNOWN


def _untagged(type_: Any) -> Any:
    kinds = [one for one in _choices(type_) if (get_origin(one) or one) is not Tagged]
    return Union[tuple(kinds)] if kinds else UNKNOWN  # noqa: UP007 - of as many as there are


def _choices(type_: Any) -> tuple[Any, ...]:
    return get_args(type_) if get_origin(type_) in (Union, UnionType) else (type_,)


def arguments_of(type_: Any, base: type) -> tuple[Any, ...]:
    """What a class, or one with arguments, gives for the parameters of a base; () if it does not say."""
    origin = get_origin(type_) or type_
    if origin is base:
        return get_args(type_)
    given = dict(zip(getattr(origin, "__parameters__", ()), get_args(type_), strict=False))
    bases = getattr(origin, "__orig_bases__", ()) if "__orig_bases__" in vars(origin) else origin.__bases__
    for one in bases:
        if issubclass(get_origin(one) or one, base):
            return tuple(given.get(argument, argument) for argument in arguments_of(one, base))
    return ()


def _process_options(op: ops.Process) -> dict[str, str]:
    """The class of its processor, its states and timers, and the names of its side outputs."""
    options = {"processor": type(op.processor).__name__} | state_options(op.processor)
    if clock_of(op.processor) is not None:
        options["time"] = "event and processing"
    return options | exclusive_options(op) | tag_options(op.processor)


def state_options(handler: HoldsStates) -> dict[str, str]:
    """The states that a class declares, with how long they are kept."""
    return {
        name: state_text(state) + (f" for {duration(state.ttl)}" if state.ttl else "")
        for name, state in states_of(handler).items()
    }


def tag_options(handler: HoldsStates) -> dict[str, str]:
    """The names of the side outputs that a class declares."""
    tags = tags_of(handler)
    return {"side outputs": ", ".join(tags)} if tags else {}


def _side_options(op: ops.Side) -> dict[str, str]:
    """The name of the tag whose values it emits."""
    return {"tag": op.tag.name}


def _check_process(operator: ops.Process, flows: Flows) -> None:
    """Refuse a stream without key, for states and timers are by key."""
    check_keyed(operator, flows)


def _of_processor_types(operator: ops.Process, inputs: list[Flow]) -> Iterator[Contradiction]:
    """What its class declares, and its method is annotated to take."""
    processor = operator.processor
    class_name = type(processor).__name__
    declared = (*arguments_of(type(processor), KeyedProcessor), UNKNOWN, UNKNOWN)
    on_message = processor.on_message
    name, context = function_name(on_message), taken(on_message, 1)
    yield from taking(operator, name, message_value(taken(on_message)), inputs)
    yield from taking(operator, class_name, declared[1], inputs)
    yield from taking_keys(operator, class_name, declared[0], inputs)
    key = get_args(context)[0] if get_origin(context) is Context else UNKNOWN
    yield from taking_keys(operator, name, key, inputs)


def _on_message(operator: ops.Process) -> Callable[..., Any]:
    return operator.processor.on_message


def _process_state(_: Pipeline, op: ops.Process, inputs: list[Flow]) -> Meaning:
    """Key, the form of each state of the processor, and whether it has timers in processing time; the types of their
    values."""
    facts, types = states_meaning(op.processor)
    if clock_of(op.processor) is not None:
        facts[CLOCK_TIMERS] = "declared"
    return key_facts(inputs[0].key) | facts, types


def states_meaning(handler: HoldsStates) -> Meaning:
    """The form of each state that a class declares, and the types of their values."""
    facts, types = dict[str, str](), dict[str, Any]()
    for name, state in states_of(handler).items():
        facts |= _state(name, state)
        types |= type_of_values(f"values of state {name}", state.type)
    return facts, types


def _state(name: str, state: State) -> dict[str, str]:
    """The form of a state. How long entries are kept may change; that they say when they were written may not."""
    aged = ", with ttl" if state.ttl else ""
    # A state of a type of MessagePack needs no serde.
    format = f" as {format_name(state.type)}" if isinstance(state.type, Serde) else ""
    form = "list" if isinstance(state, ListState) else "value"
    keys = {}
    if isinstance(state, MapState):
        form, keys = f"map by {key_serde(state.key).name}", layout_facts(f"keys of state {name}", key_serde(state.key))
    return {f"{STATE}{name}": f"{form}{format}{aged}", **keys, **layout_facts(f"values of state {name}", state.type)}


def _process_text(op: ops.Process, _: list[Flow]) -> str:
    """The names and types of the processor's states."""
    return states_text(op.processor) or "timers"


def states_text(handler: HoldsStates) -> str:
    """The names and types of the states that a class declares."""
    states = states_of(handler).items()
    # How long entries are kept may change; that they say when they were written may not.
    return ", ".join(f"{name}: {state_text(state)}{' with ttl' if state.ttl else ''}" for name, state in states)


def _has_timers(op: ops.Process) -> bool:
    return answers_timers(op.processor)


def _timers_fire(op: ops.Process) -> str:
    return "at an end of input its timers fire before their time" if _has_timers(op) else ""


ROWS: Mapping[type[ops.Operator], PlannerKind] = {
    ops.Process: PlannerKind(
        flow=_of_processor,
        options=_process_options,
        check=_check_process,
        contradictions=_of_processor_types,
        typing_function=_on_message,
        state=OperatorState(shown=_process_text, meaning=_process_state),
        fires_at_end=_has_timers,
        fires_early=_has_timers,
        end_dependence=_timers_fire,
    ),
    ops.Side: PlannerKind(flow=_of_side, options=_side_options),
}
