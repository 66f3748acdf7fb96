"""Where tasks go on whose pipeline was changed: a stage, and so its tasks, may have had another name."""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from msgspec import structs

from ...planner.plan import Plan
from ...planner.state_schema import StateSchema
from ..kernel.times import START
from .checkpoint import Checkpoint, decode
from .commits import Home

K = TypeVar("K")


def adopt(plan: Plan, homes: Iterable[Home], kept: Mapping[str, bytes]) -> dict[str, Checkpoint]:
    """The checkpoint of each task that has one, out of all that were kept under any name.

    A stream's partition belongs to one task, whatever it is called, and offsets grow: the largest that any task of
    that number has kept is the last. What is known of streams that a task no longer reads, and of operators that it no
    longer has, is carried along: where they come back, it goes on with them. Its state has taken in what was read.
    """
    decoded = {name: decode(data, name) for name, data in kept.items()}
    by_number: dict[str, list[Checkpoint]] = {}
    for name, found in decoded.items():
        by_number.setdefault(name.rpartition("/")[2], []).append(found)
    made = {}
    for home in homes:
        others = by_number.get(str(home.number), [])
        own = decoded.get(home.name, Checkpoint())
        merged = _merged(own, others, plan.stage(home.stage).inputs, home.changelogs)
        if not merged.blank:
            made[home.name] = merged
    return made


def kept_states(plan: Plan, kept: Mapping[str, bytes]) -> list[tuple[str, StateSchema]]:
    """What gives the state of operators its meaning, as (operator, record), out of all checkpoints of a pipeline.

    Checkpoints of names that a stage had before may be older than those of its name now, which count where there are
    any.
    """
    decoded = {name: decode(data, name) for name, data in kept.items()}
    found: list[tuple[str, StateSchema]] = []
    for store in plan.stores:
        records = {name: one.states[store.operator] for name, one in decoded.items() if store.operator in one.states}
        own = [record for name, record in records.items() if name.rpartition("/")[0] == store.stage]
        found += [(store.operator, record) for record in own or records.values()]
    return found


def _merged(
    own: Checkpoint, others: Collection[Checkpoint], inputs: Collection[str], operators: Collection[str]
) -> Checkpoint:
    producers: dict[str, dict[int, int]] = {**own.producers}
    for other in others:
        for stream in other.producers.keys() & inputs:
            producers[stream] = _latest([producers.get(stream, {}), other.producers[stream]], None)
    return structs.replace(
        own,
        offsets=own.offsets | _latest([other.offsets for other in others], inputs),
        highs=own.highs | _latest([other.highs for other in others], inputs),
        producers=producers,
        clock=max((other.clock for other in others), default=START) if own.blank else own.clock,
        changelogs=own.changelogs | _latest([other.changelogs for other in others], operators),
        lateness=_latest([other.lateness for other in others], operators) | own.lateness,
        out_of_order=_latest([other.out_of_order for other in others], inputs) | own.out_of_order,
        forgotten=own.forgotten | _latest([other.forgotten for other in others], operators),
        reached=own.reached | _latest([other.reached for other in others], operators),
        rung=own.rung | _latest([other.rung for other in others], operators),
        states={name: record for one in (*others, own) for name, record in one.states.items()},
    )


def _latest(told: Iterable[Mapping[K, int]], names: Collection[K] | None) -> dict[K, int]:
    found: dict[K, int] = {}
    for one in told:
        for name, value in one.items():
            if (names is None or name in names) and value > found.get(name, value - 1):
                found[name] = value
    return found
