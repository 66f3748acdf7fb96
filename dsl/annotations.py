"""Types as a program writes them: what a function's annotations say about the values it takes and gives."""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sized
from dataclasses import is_dataclass
from types import FunctionType, MethodDescriptorType, MethodType, NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from .message import Message

if TYPE_CHECKING:
    # What stands for a type: a class, or an expression that is none, such as `int | None`. Type checkers know this
    # module without its being installed.
    from typing_extensions import TypeForm as TypeForm
else:
    TypeForm = type

UNKNOWN: Any = inspect.Parameter.empty
"""Stands for a type that nothing tells."""


def returned(fn: Callable[..., Any]) -> Any:
    """The type a function is annotated to return; a class returns itself; UNKNOWN without an annotation."""
    if inspect.isclass(fn) or get_origin(fn) is not None:
        return fn
    try:
        return get_type_hints(fn).get("return", UNKNOWN)
    # A name that exists for type checkers alone is no mistake of the user's: the type is not known, that is all.
    except (NameError, TypeError, AttributeError):
        return UNKNOWN


def taken(fn: Callable[..., Any], index: int = 0) -> Any:
    """The type a function is annotated to take as its first argument, or as another one, from 0; UNKNOWN where nothing
    tells it for certain.

    >>> def doubled(number: int) -> int:
    ...     return 2 * number
    >>> taken(doubled)
    <class 'int'>
    """
    if isinstance(fn, MethodDescriptorType):  # `str.upper`
        return fn.__objclass__ if index == 0 else UNKNOWN
    if fn is len:
        return Sized
    if not isinstance(fn, FunctionType | MethodType) or is_decorated(fn):
        return UNKNOWN
    try:
        parameters = list(inspect.signature(fn).parameters.values())
        if index >= len(parameters) or parameters[index].default is None:
            return UNKNOWN
        return get_type_hints(fn).get(parameters[index].name, UNKNOWN)
    except (NameError, TypeError, AttributeError, ValueError, SyntaxError):
        return UNKNOWN


def promised(fn: Callable[..., Any]) -> Any:
    """The type that a function is annotated to return, or an asynchronous one to give; UNKNOWN where a decorator may
    have changed it."""
    type_ = UNKNOWN if is_decorated(fn) or inspect.isclass(fn) else returned(fn)
    waited = inspect.isclass(get_origin(type_)) and issubclass(get_origin(type_), Awaitable)
    return get_args(type_)[-1] if waited else type_


def is_single(type_: Any) -> bool:
    """Whether a value of a type is for certain no iterable of values: text, which has none but letters, is one.

    >>> is_single(int), is_single(str), is_single(list[str]), is_single(int | list[int])
    (True, True, False, False)
    """
    return type_ is NoneType or (is_plain(type_) and not (is_dataclass(type_) and _iterates(type_)))


def _iterates(type_: Any) -> bool:
    return hasattr(type_, "__iter__") or hasattr(type_, "__getitem__")


def is_decorated(fn: object) -> bool:
    """Whether a function has the annotations of one that it wraps: it may take and return something else."""
    return hasattr(fn, "__wrapped__")


def contradicts(given: Any, wanted: Any) -> bool:
    """Whether no value of the class `given` is one of `wanted`: known of plain builtins and dataclasses alone.

    >>> contradicts(int, str), contradicts(int, float), contradicts(int, int | str)
    (True, False, False)
    """
    if wanted is Sized:
        return is_plain(given) and given in _NUMBERS
    if not (is_plain(given) and is_plain(wanted)) or {given, wanted} <= _NUMBERS:
        return False
    return not (issubclass(given, wanted) or issubclass(wanted, given))


_NUMBERS = {int, float, bool}
"""Builtins whose values Python takes for each other's."""


def is_plain(type_: Any) -> bool:
    """Whether a type is a builtin or a dataclass, of which it is certain what is none of its values: None is none."""
    is_data = inspect.isclass(type_) and is_dataclass(type_) and not getattr(type_, "_is_protocol", False)
    return is_data or type_ in (str, bytes, *_NUMBERS)


def element_type(type_: Any) -> Any:
    """The element type of an iterable type: `list[int]` gives int; UNKNOWN where there is none."""
    parts = [part for part in get_args(type_) if part is not Ellipsis]
    origin = get_origin(type_)
    known = inspect.isclass(origin) and hasattr(origin, "__iter__") and (len(parts) == 1 or len(set(parts)) == 1)
    return parts[0] if known else UNKNOWN


def row_of(type_: Any) -> Any:
    """The type of the values of a mapping type: `dict[str, int]` gives int; UNKNOWN where it does not say."""
    parts, origin = get_args(type_), get_origin(type_)
    return parts[1] if inspect.isclass(origin) and issubclass(origin, Mapping) and len(parts) == 2 else UNKNOWN


def message_value(type_: Any) -> Any:
    """The value type of a message type: `Message[int]` gives int; UNKNOWN where it does not say."""
    return get_args(type_)[0] if get_origin(type_) is Message else UNKNOWN
