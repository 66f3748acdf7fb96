"""`fluvial drain`: its arguments, and what it prints."""

import sys

from ..pipeline_drain import drain
from ..pipeline_loader import load_pipeline
from ..process.signals import unwinding
from . import arguments as words
from .option_values import group_by_of, named_system, parsed_duration
from .printing import print_json
from .settings_file import settings_with


def drain_verb(
    target: words.Target,
    system: words.DrainedSystem,
    group_by: words.PlanGroupBy = None,
    kafka_conf: words.KafkaConf = None,
    dry_run: words.DrainDryRun = False,
    timeout: words.DrainTimeout = "10min",
    as_json: words.Json = False,
) -> None:
    """Let a pipeline that runs end, with nothing left inside: it reads what its inputs hold now, fires its windows and
    timers, commits, and ends with exit code 0. The next run goes on from there.

    Where that takes longer than --timeout the run goes on to its end all the same.

    fluvial drain visits.py --system kafka://localhost:9092
    """
    with unwinding():
        ends = drain(
            load_pipeline(target),
            system=named_system(system, kafka_conf),
            group_by=settings_with(group_by=group_by_of(group_by or [])).group_by,
            dry_run=dry_run,
            timeout=parsed_duration("--timeout", timeout),
            say=lambda line: print(line, file=sys.stderr, flush=True),
        )
    if as_json:
        print_json({"drained": not dry_run, "ends": ends})
        return
    for stream, offsets in ends.items():
        for partition, offset in enumerate(offsets):
            print(f"{'would end' if dry_run else 'ended'} {stream}/{partition} at offset {offset}")
