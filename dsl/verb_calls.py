"""Errors of verbs and functions that are called by a wrong name, or with arguments that they do not have."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from types import FunctionType, MethodType
from typing import Any, TypeVar, cast

from .errors import FluvialError, NoSuchVerb, PipelineError
from .text import plural
from .validation import explain

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T", bound=type)

_ELSEWHERE = {
    **dict.fromkeys(("keyby", "groupby", "groupbykey", "selectkey", "repartition"), "partition_by"),
    **dict.fromkeys(("aggregate", "count", "reduce", "fold", "windowedby"), "window"),
    **dict.fromkeys(("to", "through", "sinkto", "writeto"), "send_to"),
    **dict.fromkeys(("foreach", "peek", "addsink"), "sink"),
    **dict.fromkeys(("mapvalues", "select"), "map"),
    **dict.fromkeys(("flatmapvalues", "explode"), "flat_map"),
    **dict.fromkeys(("branch",), "split"),
    **dict.fromkeys(("union", "connect"), "merge"),
    **dict.fromkeys(("distinct", "dropduplicates"), "deduplicate"),
    **dict.fromkeys(("transform", "transformwithstate"), "process"),
}
"""What verbs are called in Kafka Streams, Flink and Spark, in lower case and without `_`, and what they are here."""


_INSTEAD = {
    ("remote_table", "journal"): "leave it out: rows that were read may change, and for what is written a service "
    "needs a key, which fluvial.runtime.call_key() gives in the function",
}
"""What to do in place of options that other verbs have."""


def no_such_verb(owner: object, name: str, known: Iterable[str], remedy: str) -> AttributeError:
    """The error of a name that an object does not have. `known` are those that may be meant; `remedy` is what to do
    where none of them is like it."""
    if name.startswith("_"):  # what Python itself and notebooks ask for
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    verbs = sorted(verb for verb in known if verb.islower() and not verb.startswith("_"))
    elsewhere = _ELSEWHERE.get(name.replace("_", "").lower())
    meant = [elsewhere] if elsewhere in verbs else get_close_matches(name, verbs, 1)
    wrong, expected = f"{type(owner).__name__} has no {name!r}", f"one of {', '.join(verbs)}"
    return NoSuchVerb(explain(wrong, expected, f"write .{meant[0]}" if meant else remedy))


def explained_attribute(found: Any) -> Any:
    """An attribute as it was found; of a method, one that raises PipelineError for arguments that it does not have."""
    return explained_call(found) if isinstance(found, MethodType) else found


def explained_call(function: F, error: type[FluvialError] = PipelineError) -> F:
    """A function, or a class, that raises an error of ours, of type `error`, for arguments that it does not have."""
    explaining: Any = function
    if isinstance(function, type):
        explaining.__init__ = _explained(explaining.__init__, error, function)
    else:
        explaining = _explained(function, error)
    return cast("F", explaining)


def explained_object(made: T, error: type[FluvialError] = PipelineError) -> T:
    """A class that raises errors of ours for arguments that it, or one of its methods, does not have, and for names
    that its objects do not have."""
    explaining: Any = explained_call(made, error)
    for name, method in list(vars(explaining).items()):
        if isinstance(method, FunctionType) and not name.startswith("_"):
            setattr(explaining, name, _explained(method, error, is_method=True))

    def missing(self: object, name: str) -> Any:
        raise no_such_verb(self, name, {*dir(explaining), *vars(self)}, "use one of them")

    explaining.__getattr__ = missing
    return cast("T", explaining)


def _explained(
    function: Callable[..., Any], error: type[FluvialError], made: type | None = None, *, is_method: bool = False
) -> Any:
    """What calls a function, and explains a wrong call of it, or of the class that it initialises."""

    @wraps(function)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as raised:
            # An error of the function's own code has a second frame.
            if raised.__traceback__ is None or raised.__traceback__.tb_next is not None:
                raise
            verb = MethodType(function, args[0]) if is_method else made or function
            problem = wrong_call(verb, args[1:] if made or is_method else args, options)
        raise error(problem)

    return called


def wrong_call(verb: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> str:
    """The message about a call with arguments that a function does not have, or without those that it must have."""
    parameters = inspect.signature(verb).parameters
    by_name = [name for name, one in parameters.items() if one.kind is Parameter.KEYWORD_ONLY]
    # A default that is Parameter.empty, as UNKNOWN is, is a default all the same.
    optional = getattr(verb, "__kwdefaults__", None) or {}
    least = [name for name, one in parameters.items() if one.default is Parameter.empty and name not in optional]
    others = [f"{name}=" for name in parameters if name not in least]
    call = ", ".join(f"{name}=..." if name in by_name else name for name in least)
    expected = f"{verb.__name__}({call})" + (f"; options are {', '.join(others)}" if others else "")
    positional = [name for name in parameters if name not in by_name]
    unknown = [name for name in options if name not in parameters]
    missing = [name for name in least if name not in (*options, *positional[: len(args)])]
    if unknown:
        meant = get_close_matches(unknown[0], parameters, 1)
        remedy = f"write {meant[0]}=" if meant else f"leave out {unknown[0]}="
        wrong, remedy = f"has no {unknown[0]}=", _INSTEAD.get((verb.__name__, unknown[0]), remedy)
    elif len(args) > len(positional):
        wrong, remedy = (
            f"got {plural(len(args), 'argument')} by position",
            f"give options by name, such as {by_name[0]}=..." if by_name else "leave out the others",
        )
    elif missing:
        wrong = f"got no {' and no '.join(missing)}"
        remedy = f"pass {' and '.join(f'{name}=...' for name in missing)}"
    else:
        wrong, remedy = "got an argument twice", "leave out one of them"
    return explain(f"{verb.__name__} {wrong}", expected, remedy)
