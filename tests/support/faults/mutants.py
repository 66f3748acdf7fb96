"""Mutants: the same code with one mistake in it, planted for a while."""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Mutant:
    """In the function `name` of `owner`, the code `right` becomes `wrong`, once. `right` is a piece of its source as
    `ast.unparse` writes it."""

    owner: Any
    name: str
    right: str
    wrong: str

    def __str__(self) -> str:
        return f"{self.owner.__name__.rpartition('.')[2]}.{self.name}: {self.wrong}"


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant a mistake; the right code is back at the end."""
    original = vars(mutant.owner)[mutant.name]
    setattr(mutant.owner, mutant.name, _mutated(original, mutant))
    try:
        yield
    finally:
        setattr(mutant.owner, mutant.name, original)


def _mutated(original: Callable[..., Any], mutant: Mutant) -> Any:
    tree = ast.parse(textwrap.dedent(inspect.getsource(original)))
    text = ast.unparse(tree)
    assert text.count(mutant.right) == 1, f"{mutant.right!r} occurs {text.count(mutant.right)} times in:\n{text}"
    names: dict[str, Any] = {}
    exec(compile(text.replace(mutant.right, mutant.wrong), f"<{mutant}>", "exec"), original.__globals__, names)
    return names[mutant.name]
