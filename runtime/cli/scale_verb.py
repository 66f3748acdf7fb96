"""`fluvial scale`: its arguments, and what it prints."""

import sys
from collections.abc import Sequence

from ..local.handover.scaling import TaskMove
from ..pipeline_loader import load_pipeline
from ..pipeline_scale import scale
from ..process.signals import unwinding
from . import arguments as words
from .option_values import elasticity_of, group_by_of, named_system, parsed_duration
from .printing import print_json
from .settings_file import settings_with


def scale_verb(
    target: words.Target,
    system: words.RunningSystem,
    containers: words.NewContainers = None,
    elasticity: words.NewElasticity = None,
    group_by: words.PlanGroupBy = None,
    kafka_conf: words.KafkaConf = None,
    dry_run: words.ScaleDryRun = False,
    timeout: words.ScaleTimeout = "30min",
    as_json: words.Json = False,
) -> None:
    """Change the containers of a pipeline that runs on Kafka, or its elasticity, without stopping it.

    Tasks whose container changes are restored by the new one while the old one goes on with them; the others go on
    meanwhile. With --elasticity tasks are split by key, or merged. Without success within --timeout, and after Ctrl-C
    or SIGTERM, the pipeline goes back to the containers and the tasks of before.

    fluvial scale visits.py --system kafka://localhost:9092 --containers 4 --elasticity 2
    """
    with unwinding():
        moves = scale(
            load_pipeline(target),
            containers=containers,
            elasticity=elasticity_of(elasticity or []),
            group_by=settings_with(group_by=group_by_of(group_by or [])).group_by,
            system=named_system(system, kafka_conf),
            dry_run=dry_run,
            timeout=parsed_duration("--timeout", timeout),
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
    _print(moves, dry_run=dry_run, as_json=as_json)


def _print(moves: Sequence[TaskMove], *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        print_json([{"task": move.task, "from": move.container, "to": move.to, "moved": not dry_run} for move in moves])
        return
    for move in moves:
        print(_line(move, dry_run=dry_run))
    if not moves:
        print("no task moves" if dry_run else "no task had to move")


def _line(move: TaskMove, *, dry_run: bool) -> str:
    if move.container == move.to:  # with other key buckets than before
        return f"{'would have' if dry_run else 'has'} {move.task} in container {move.to}"
    return f"{'would move' if dry_run else 'moved'} {move.task} from container {move.container} to {move.to}"
