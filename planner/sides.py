"""The streams and operators that feed each side of a join. A changed pipeline must not swap the sides: kept rows of one
side would be read as rows of the other."""

from collections.abc import Iterable, Mapping

from ..dsl import operators as ops
from ..dsl.pipeline import Pipeline

OWN, FROM, THROUGH = "own", "from", "through"


def side_facts(pipeline: Pipeline, join: ops.JoinStreams) -> dict[str, str]:
    """What feeds each side of a join: the streams and ids that its messages pass. To tell sides apart that share these,
    also the tables and lookups on the way, and the functions and branches."""
    facts = {}
    for side, source in zip(("left", "right"), join.inputs, strict=True):
        before = list(_before(pipeline, source))
        passed = _before(pipeline, source, beside=False)
        facts[f"{side} {OWN}"] = _names(one for one in passed if not one.looks_up)
        facts[f"{side} {FROM}"] = _names(before)
        facts[f"{side} {THROUGH}"] = _listed(filter(None, (one.way for one in before)))
    return facts


def swapped(stored: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    """A difference as a line of text if something fed only one side and now feeds only the other; else None.

    Streams may be renamed or added, so a new name is no difference.
    """
    stored = _with_own(stored, wanted)
    # From what tells sides apart best to what is asked only where they share all the rest.
    for how in (OWN, FROM, THROUGH):
        before, now = _alone(stored, how), _alone(wanted, how)
        for side, other in (("left", "right"), ("right", "left")):
            crossed = sorted(before[other] & now[side])
            if crossed:
                return f"sides: {', '.join(map(repr, crossed))} fed the {other} one, and feeds the {side} one"
        if now["left"] or now["right"]:
            return None  # the sides are told apart by their streams and ids
    return None


def _with_own(stored: Mapping[str, str], wanted: Mapping[str, str]) -> Mapping[str, str]:
    """The kept facts. Facts of an earlier version counted tables and lookups as streams; these are removed."""
    if f"left {OWN}" in stored:
        return stored
    sides = ("left", "right")
    beside = set().union(*(_listed_in(wanted, side, FROM) - _listed_in(wanted, side, OWN) for side in sides))
    return {**stored, **{f"{side} {OWN}": _listed(_listed_in(stored, side, FROM) - beside) for side in sides}}


def _alone(facts: Mapping[str, str], how: str) -> dict[str, set[str]]:
    """The names that only one side has, by side."""
    left, right = (_listed_in(facts, side, how) for side in ("left", "right"))
    return {"left": left - right, "right": right - left}


def _listed_in(facts: Mapping[str, str], side: str, how: str) -> set[str]:
    return set(filter(None, facts.get(f"{side} {how}", "").split(", ")))


def _before(pipeline: Pipeline, id: str, *, beside: bool = True) -> Iterable[ops.Operator]:
    """An operator and all operators before it; without `beside`, only those that messages come through."""
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
