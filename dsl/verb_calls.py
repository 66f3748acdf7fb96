"""Errors of verbs that are called by a wrong name, or with arguments that they do not have."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter
from types import MethodType
from typing import Any

from .errors import NoSuchVerb, PipelineError
from .validation import explain


def no_such_verb(owner: object, name: str, known: Iterable[str], remedy: str) -> AttributeError:
    """The error of a name that an object does not have. `known` are those that may be meant; `remedy` is what to do
    where none of them is like it."""
    if name.startswith("_"):  # what Python itself and notebooks ask for
        return AttributeError(f"{type(owner).__name__!r} object has no attribute {name!r}", name=name, obj=owner)
    verbs = sorted(verb for verb in known if verb.islower() and not verb.startswith("_"))
    meant = get_close_matches(name, verbs, 1)
    wrong, expected = f"{type(owner).__name__} has no {name!r}", f"one of {', '.join(verbs)}"
    return NoSuchVerb(explain(wrong, expected, f"write .{meant[0]}" if meant else remedy))


def explained(found: Any) -> Any:
    """An attribute as it was found; of a method, one that raises PipelineError for arguments that it does not have."""
    if not isinstance(found, MethodType):
        return found

    @wraps(found)
    def called(*args: Any, **options: Any) -> Any:
        try:
            return found(*args, **options)
        except TypeError as error:
            # An error of the method's own code has a second frame.
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise
            problem = _wrong_call(found, args, options)
        raise PipelineError(problem)

    return called


def _wrong_call(verb: Callable[..., Any], args: Sequence[Any], options: Mapping[str, Any]) -> str:
    parameters = inspect.signature(verb).parameters
    by_name = [name for name, one in parameters.items() if one.kind is Parameter.KEYWORD_ONLY]
    least = [name for name, one in parameters.items() if one.default is Parameter.empty]
    others = [f"{name}=" for name in parameters if name not in least]
    call = ", ".join(f"{name}=..." if name in by_name else name for name in least)
    expected = f"{verb.__name__}({call})" + (f"; options are {', '.join(others)}" if others else "")
    positional = [name for name in parameters if name not in by_name]
    unknown = [name for name in options if name not in parameters]
    missing = [name for name in least if name not in (*options, *positional[: len(args)])]
    if unknown:
        meant = get_close_matches(unknown[0], parameters, 1)
        wrong, remedy = f"has no {unknown[0]}=", f"write {meant[0]}=" if meant else f"leave out {unknown[0]}="
    elif len(args) > len(positional):
        wrong, remedy = (
            f"got {len(args)} arguments by position",
            f"give options by name, such as {by_name[0]}=..." if by_name else "leave out the others",
        )
    elif missing:
        wrong = f"got no {' and no '.join(missing)}"
        remedy = f"pass {' and '.join(f'{name}=...' for name in missing)}"
    else:
        wrong, remedy = "got an argument twice", "leave out one of them"
    return explain(f"{verb.__name__} {wrong}", expected, remedy)
