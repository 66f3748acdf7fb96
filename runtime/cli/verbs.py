"""The group of all verbs. A wrong value of an option is an error in the form of all others."""

import re
from typing import Any

import typer
from typer.core import TyperGroup

from ...dsl.errors import UsageError
from .option_values import wrong_option

_NOT_ONE_OF = re.compile(r"(?:Value error, )?(?P<given>'.*') is not one of (?P<known>'.*')\.?")


class Verbs(TyperGroup):
    """Runs a verb. Raises UsageError in place of Typer's own error for a value that an option does not take."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb. Raises UsageError for a value that an option does not take."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            if error.param is None or type(error) is not typer.BadParameter:  # such as a missing argument
                raise
            raise wrong_value(error.param.opts[-1], error.message) from None


def wrong_value(option: str, message: str) -> UsageError:
    """The error for a value that an option does not take; `message` is what Typer says of it.

    >>> print(wrong_value("--engine", "'x' is not one of 'local', 'spark'."))
    --engine 'x'
      at the command line
      expected: one of 'local', 'spark'
      to do: correct --engine; fluvial VERB -h shows its values
    """
    remedy = f"correct {option}; fluvial VERB -h shows its values"
    if choice := _NOT_ONE_OF.fullmatch(message):
        return wrong_option(option, choice["given"], f"one of {choice['known']}", remedy)
    expected = message.removeprefix("Value error, ").removeprefix("Input should be ")
    return wrong_option(option, "does not take this value", expected, remedy)
