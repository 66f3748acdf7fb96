"""Which streams and operators feed the sides of a join: rows that are kept of one side are none of the other's."""

from collections.abc import Iterable, Mapping

from ..dsl import operators as ops
from ..dsl.pipeline import Pipeline

OWN, FROM, THROUGH = "own", "from", "through"


def side_facts(pipeline: Pipeline, join: ops.JoinStreams) -> dict[str, str]:
    """What each side of a join is fed by: the streams and ids that its messages have passed; for sides that share them
    also the tables and lookups beside these, and then the functions and branches."""
    facts = {}
    for side, source in zip(("left", "right"), join.inputs, strict=True):
        before = list(_before(pipeline, source))
        passed = _before(pipeline, source, beside=False)
        facts[f"{side} {OWN}"] = _names(one for one in passed if not one.looks_up)
        facts[f"{side} {FROM}"] = _names(before)
        facts[f"{side} {THROUGH}"] = _listed(filter(None, (one.way for one in before)))
    return facts


def swapped(kept: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """What has fed one side alone and now feeds the other alone, as the line of a difference; None if nothing does.

    Streams may be renamed, and others may come: a name that was not there before says nothing.
    """
    kept = _with_own(kept, wanted)
    for how in (OWN, FROM, THROUGH):
        before, now = _alone(kept, how), _alone(wanted, how)
        for side, other in (("left", "right"), ("right", "left")):
            crossed = sorted(before[other] & now[side])
            if crossed:
                return f"sides: {', '.join(map(repr, crossed))} fed the {other} one, and feeds the {side} one"
        if now["left"] or now["right"]:
            return None  # the sides are told apart by their streams and ids
    return None


def _with_own(kept: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
    """The kept facts; those of a version that told tables and lookups as streams, without what these are now."""
    if f"left {OWN}" in kept:
        return kept
    sides = ("left", "right")
    beside = set().union(*(_listed_in(wanted, side, FROM) - _listed_in(wanted, side, OWN) for side in sides))
    return {**kept, **{f"{side} {OWN}": _listed(_listed_in(kept, side, FROM) - beside) for side in sides}}


def _alone(facts: Mapping[str, str], how: str) -> dict[str, set[str]]:
    """What each side has that the other has not."""
    left, right = (_listed_in(facts, side, how) for side in ("left", "right"))
    return {"left": left - right, "right": right - left}


def _listed_in(facts: Mapping[str, str], side: str, how: str) -> set[str]:
    return set(filter(None, facts.get(f"{side} {how}", "").split(", ")))


def _before(pipeline: Pipeline, id: str, *, beside: bool = True) -> Iterable[ops.Operator]:
    """An operator and all that it is fed by, or without what is looked up `beside` the messages."""
    met: set[str] = set()
    waiting = [id]
    while waiting:
        one = waiting.pop()
        if one not in met:
            met.add(one)
            operator = pipeline.operator(one)
            waiting += operator.inputs if beside else operator.fed_by
            yield operator


def _names(operators: Iterable[ops.Operator]) -> str:
    return _listed(filter(None, (one.name for one in operators)))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))
