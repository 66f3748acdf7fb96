"""Verbs that take their options as one record."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

R = TypeVar("R")


def takes_record(record: type[R]) -> Callable[[Callable[[R], None]], Callable[..., None]]:
    """Let a verb take one record, each of whose fields is an argument or an option of the command line.

    Typer reads the options of a verb from the parameters of its function. The function that this returns has the fields
    of the record as parameters."""
    signature = inspect.signature(record).replace(return_annotation=None)

    def decorate(verb: Callable[[R], None]) -> Callable[..., None]:
        @wraps(verb)
        def verb_of_options(**values: object) -> None:
            verb(record(**values))

        verb_of_options.__annotations__ = {name: field.annotation for name, field in signature.parameters.items()}
        verb_of_options.__signature__ = signature  # type: ignore[attr-defined]
        return verb_of_options

    return decorate
