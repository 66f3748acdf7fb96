"""Facts: the details of a node, which a page shows when a reader points at it."""

import linecache
from collections.abc import Iterable

from ...dsl.origin import Origin
from ..plan import Plan, PlannedOperator, PlannedStage, PlannedStore, PlannedStream
from ..shown_operators import in_sight
from ..task_assignment import tasks_in
from .characters import clean

Facts = tuple[tuple[str, str], ...]


def types(key: str | None, value: str) -> str:
    """The types of messages: `Click`, or `str → Click` where they have a key."""
    return value if key is None else f"{key} → {value}"


def about_operator(plan: Plan, operator: PlannedOperator, store: PlannedStore | None) -> Facts:
    """The identity, options, state and source line of an operator."""
    store_facts = [] if store is None else [("store", types(store.key, store.value)), ("changelog", store.changelog)]
    return _facts(
        ("operator", operator.label),
        ("id", operator.id),
        ("kind", operator.kind),
        ("role", operator.role),
        ("stage", plan.stage(operator.stage).name),
        ("key", operator.key),
        ("value", operator.value),
        *operator.details.items(),
        ("writes", ", ".join(operator.writes)),
        *store_facts,
        ("at", location(operator.file, operator.line)),
        ("source line", text_at(operator.file, operator.line)),
    )


def about_stream(plan: Plan, stream: PlannedStream) -> Facts:
    """The kind, partitions, types, writers and readers of a stream."""
    return _facts(
        ("stream", stream.name),
        ("kind", stream.kind),
        ("partitions", str(stream.partitions)),
        ("key", stream.key),
        ("value", stream.value),
        ("written by", _labels(plan, stream.written_by)),
        ("read by", _labels(plan, stream.read_by)),
    )


def about_stage(plan: Plan, stage: PlannedStage) -> Facts:
    """The tasks, streams, operators and stores of a stage."""
    return _facts(
        ("stage", stage.name),
        ("tasks", _tasks(stage)),
        ("reads", ", ".join(stage.inputs)),
        ("operators", ", ".join(operator.label for operator in in_sight(plan) if operator.stage == stage.id)),
        ("writes", ", ".join(stage.outputs)),
        *[("changelog", store.changelog) for store in plan.stores if store.stage == stage.id],
    )


def _tasks(stage: PlannedStage) -> str:
    tasks = tasks_in(stage)
    return f"{len(tasks)}: {' to '.join(dict.fromkeys((tasks[0].name, tasks[-1].name)))}"


def _labels(plan: Plan, ids: Iterable[str]) -> str:
    return ", ".join(plan.operator(id).label for id in ids)


def _facts(*facts: tuple[str, str | None]) -> Facts:
    return tuple((clean(name), clean(text)) for name, text in facts if text)


def location(file: str, line: int) -> str:
    """`file:line`, relative to the working folder where the file lies below it."""
    try:
        return str(Origin(file, line))
    except OSError:  # the working folder is gone
        return f"{file}:{line}"


def text_at(file: str, line: int) -> str:
    """That line of the file without its indentation; empty where the file is not there or cannot be read."""
    try:
        linecache.checkcache(file)
        return linecache.getline(file, line).strip()
    except (OSError, ValueError):  # names that no file system takes, such as those with a NUL
        return ""
