"""The assignment of tasks to containers."""

from collections.abc import Mapping

from .plan import Plan

Stages = Mapping[str, int]
"""The number of tasks of each stage."""


def task_name(stage: str, number: int) -> str:
    """The name of a task, under which its checkpoints and its store are kept.

    >>> task_name("visits-by-user", 3)
    'visits-by-user/3'
    """
    return f"{stage}/{number}"


def stages_of(plan: Plan) -> Stages:
    """The number of tasks of each stage of a plan."""
    return {stage.id: stage.tasks for stage in plan.stages}


def tasks_of(stages: Stages) -> list[str]:
    """The names of all tasks, stage by stage."""
    return [task_name(stage, number) for stage, tasks in stages.items() for number in range(tasks)]


def assign(stages: Stages, containers: int, before: Mapping[str, int] | None = None) -> dict[str, int]:
    """Give each task a container, by number from 0.

    Containers get equal numbers of tasks, in all and of each stage, or numbers that differ by one. As many tasks as
    this allows stay in the container that they had `before`, where their state is. The same arguments give the same
    assignment.

    >>> assign({"clicks": 2, "by-user": 3}, 2)
    {'clicks/0': 0, 'clicks/1': 1, 'by-user/0': 0, 'by-user/1': 1, 'by-user/2': 0}
    >>> assign({"clicks": 2, "by-user": 3}, 3, before=_)
    {'clicks/0': 0, 'clicks/1': 1, 'by-user/0': 0, 'by-user/1': 1, 'by-user/2': 2}
    """
    assigned: dict[str, int] = {}
    capacities = _capacities(stages, containers, before or {})
    for stage, tasks in stages.items():
        names = [task_name(stage, number) for number in range(tasks)]
        assigned.update(_fill(names, capacities[stage], before or {}))
    return {name: assigned[name] for name in tasks_of(stages)}


def _fill(names: list[str], capacity: list[int], before: Mapping[str, int]) -> dict[str, int]:
    """Assign tasks of one stage to their containers of `before` up to their `capacity`, the rest to free containers."""
    assigned: dict[str, int] = {}
    for name in names:
        home = before.get(name)
        if home is not None and home < len(capacity) and capacity[home]:
            capacity[home] -= 1
            assigned[name] = home
    free = [place for turn in range(max(capacity)) for place, left in enumerate(capacity) if left > turn]
    assigned.update(zip((name for name in names if name not in assigned), free, strict=True))
    return assigned


def _capacities(stages: Stages, containers: int, before: Mapping[str, int]) -> dict[str, list[int]]:
    """How many tasks of each stage each container gets.

    Every container gets the integer part of its share of a stage. The remaining tasks of all stages are dealt out
    together, evenly, with at most one of a stage for a container, and first to containers where a task can then stay.
    That is a flow of minimum cost from the stages to the containers.
    """
    import networkx as nx  # noqa: PLC0415 - costs more to load than all the rest

    left = sum(tasks % containers for tasks in stages.values())
    gain = containers * (containers + left)  # for a task that stays: more than all other costs together
    flow: nx.DiGraph[object] = nx.DiGraph()
    for container in range(containers):
        flow.add_edge(container, "whole", capacity=left // containers, weight=0)
        flow.add_edge(container, "rest", capacity=1, weight=container)  # the first ones get more
    # The flow is maximal, so every container gets its integer part, and some get one more.
    flow.add_edge("whole", "end", capacity=left // containers * containers, weight=0)
    flow.add_edge("rest", "end", capacity=left % containers, weight=0)
    turn = 0
    for stage, tasks in stages.items():
        staying = [0] * containers
        for number in range(tasks):
            home = before.get(task_name(stage, number), containers)
            if home < containers:
                staying[home] += 1
        flow.add_edge("start", ("stage", stage), capacity=tasks % containers, weight=0)
        for container in range(containers):
            stays = staying[container] > tasks // containers
            wait = (container - turn) % containers  # all else being equal, they are dealt out in turn
            flow.add_edge(("stage", stage), container, capacity=1, weight=wait - gain if stays else wait)
        turn += tasks
    dealt = nx.max_flow_min_cost(flow, "start", "end") if stages else {}
    return {
        stage: [tasks // containers + dealt[("stage", stage)][container] for container in range(containers)]
        for stage, tasks in stages.items()
    }
