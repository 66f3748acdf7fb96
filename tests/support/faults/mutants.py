"""Mutants: the same code with one mistake in it, planted for a while and named by what it does wrong.

`Replaced` puts a wrong function in the place of one that others call: it survives what changes inside. `Rewritten` is
for a mistake that only shows inside a function, and changes a piece of its code. Either is refused, with the name that
is sought, where the code is no longer so.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol


class Mutant(Protocol):
    """A mistake in the function `name` of `owner`, a class or module; `behaviour` says what it does wrong."""

    @property
    def behaviour(self) -> str: ...

    @property
    def owner(self) -> Any: ...

    @property
    def name(self) -> str: ...

    def mutated(self, original: Callable[..., Any]) -> Any:
        """The function with the mistake."""
        ...


@dataclass(frozen=True)
class Replaced:
    """`wrong` is called in the place of the function: with the right one, and what that is called with."""

    behaviour: str
    owner: Any
    name: str
    wrong: Callable[..., Any]

    def __str__(self) -> str:
        return self.behaviour

    def mutated(self, original: Callable[..., Any]) -> Any:
        def mistaken(*arguments: Any, **named: Any) -> Any:
            try:
                return self.wrong(original, *arguments, **named)
            except TypeError as error:
                if _is_of_the_call(error):
                    raise MutantLost(self, f"{self.name!r} takes other arguments: {error}") from error
                raise

        return mistaken


@dataclass(frozen=True)
class Rewritten:
    """The code `right` of the function becomes `wrong`, once. `right` is a piece of its source as `ast.unparse` writes
    it."""

    behaviour: str
    owner: Any
    name: str
    right: str
    wrong: str

    def __str__(self) -> str:
        return self.behaviour

    def mutated(self, original: Callable[..., Any]) -> Any:
        tree = ast.parse(textwrap.dedent(inspect.getsource(original)))
        text = ast.unparse(tree)
        if (times := text.count(self.right)) != 1:
            raise MutantLost(self, f"{self.right!r} occurs {times} times in:\n{text}")
        names: dict[str, Any] = {}
        exec(compile(text.replace(self.right, self.wrong), f"<{self}>", "exec"), original.__globals__, names)
        return names[self.name]


def _is_of_the_call(error: TypeError) -> bool:
    """Whether the wrong function, or from there the right one, was called with arguments that it does not take."""
    depth, trace = 0, error.__traceback__
    while trace is not None:
        depth, trace = depth + 1, trace.tb_next
    return depth <= 2


class MutantLost(SystemExit):
    """A mistake cannot be planted, for the code is no longer as it says. No engine may take it for a failed message."""

    def __init__(self, mutant: Mutant, wrong: str) -> None:
        super().__init__(f"the mistake {mutant.behaviour!r} finds nothing to change: {wrong}")


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant a mistake; the right code is back at the end."""
    original = vars(mutant.owner).get(mutant.name)
    if original is None:
        raise MutantLost(mutant, f"{mutant.owner.__name__} has no function {mutant.name!r}")
    setattr(mutant.owner, mutant.name, mutant.mutated(original))
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.name, original)
