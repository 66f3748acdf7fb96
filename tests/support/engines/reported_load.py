"""What containers report of a load that the test chooses."""

from datetime import timedelta

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Settings, plan
from fluvial.planner.plan import Plan
from fluvial.runtime import Progress
from fluvial.runtime.report import Histogram, HotKey, Sample


def planned(elasticity: int = 1) -> Plan:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(len, id="by", key_type=int)
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="w").send_to("out")
    return plan(pipeline, partitions={"in": 2}, settings=Settings(elasticity=elasticity))


def told(
    seconds: float,
    *,
    container: int = 0,
    tasks: tuple[str, ...] = ("in/0", "in/1", "p-by/0", "p-by/1"),
    per_second: float = 100.0,
    lag: float = 0.0,
    generation: int = 1,
    phase: str = "running",
    hot: tuple[HotKey, ...] = (),
) -> Progress:
    """What a container reports after so many seconds, each of whose tasks is busy for a tenth of the time."""
    facts = [
        Sample("event_loop_busy_seconds", 0.5 * seconds),
        Sample("processor_seconds", 0.25 * seconds),
        Sample("commit_seconds", Histogram((1,), 0.05 * seconds)),
        Sample("uptime_seconds", seconds),
        Sample("container_messages_read", 7, ("in", "0")),
    ]
    for task in tasks:
        stage, number = task.split("/")[0], task.split("/")[1].split("-")[0]
        labels = (stage, task, stage, number)
        facts += [
            Sample("task_busy_seconds", 0.1 * seconds, labels[:2]),
            Sample("messages_processed", per_second * seconds, labels),
            Sample("messages_queued", 10, labels),
            Sample("lag_messages", lag, labels),
            Sample("calls_in_flight", 3, (*labels[:2], "call")),
            Sample("most_calls_in_flight", 4, (*labels[:2], "call")),
        ]
    return Progress(
        phase=phase,
        seconds=seconds,
        read=0,
        written=0,
        memory=1000,
        container=str(container),
        facts=tuple(facts),
        generation=generation,
        containers=1,
        hot_keys=hot,
    )
