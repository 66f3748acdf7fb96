"""The page of the API's rules: what it says of signatures and of Samza's spellings is true of every verb."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

from fluvial.dsl import KeyedStream, MessageStream, Pipeline, ProcessedStream, Table
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "reference" / "api-style.md").read_text(encoding="utf-8")
ALIASES = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|$", PAGE, re.MULTILINE))
"""Samza's spelling of each verb that has one."""
CLASSES = (Pipeline, MessageStream, KeyedStream, ProcessedStream, Table)
VERBS = {
    f"{kind.__name__}.{name}": verb
    for kind in CLASSES
    for name, verb in vars(kind).items()
    if inspect.isfunction(verb) and not name.startswith("_")
}
NEED_IDS = {"async_flat_map", "partition_by", "broadcast", "window", "join", "process", "sink"}


def parameters(verb: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a method, without `self`."""
    return list(inspect.signature(verb).parameters.values())[1:]


@pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
def test_a_verb_takes_at_most_two_arguments_by_position(verb: Callable[..., Any]) -> None:
    positional = [one for one in parameters(verb) if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert len(positional) <= 2


@pytest.mark.parametrize("name", sorted(NEED_IDS))
def test_what_keeps_state_or_names_something_must_be_given_an_id(name: str) -> None:
    verbs = [verb for full, verb in VERBS.items() if full.endswith(f".{name}")]
    assert verbs
    for verb in verbs:
        (id,) = [one for one in parameters(verb) if one.name == "id"]
        assert (id.default, id.kind) == (inspect.Parameter.empty, inspect.Parameter.KEYWORD_ONLY)


def test_samzas_spellings_are_those_of_the_page() -> None:
    spelled = {name: verb for name, verb in vars(MessageStream).items() if re.search("[A-Z]", name.strip("_"))}
    assert spelled == {samza: vars(MessageStream)[name] for name, samza in ALIASES.items()}
