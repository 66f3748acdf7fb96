"""A run at a glance: what its containers tell, added up."""

import io

from rich.console import Console

from fluvial.runtime.cli.top_overview import Overview, overview
from fluvial.runtime.cli.top_screen import screen
from fluvial.runtime.report import Histogram, Progress, Sample


def container(id: str, seconds: float, number: float, *facts: Sample, lag: float = 5) -> Progress:
    """A container that reads partition `id` of clicks; all that it counts is `number`."""
    task = ("clicks", f"clicks/{id}")
    place = (*task, "clicks", id)
    told = (
        Sample("messages_processed", number, place),
        Sample("messages_queued", 2, place),
        Sample("lag_messages", lag, place),
        Sample("watermark_timestamp_seconds", 1_431_857_103 + int(id), place),
        Sample("messages_written", number / 2, (*task, "visits")),
        Sample("operator_messages", number, (*task, "stream-1")),
        Sample("operator_messages", number, (*task, "window")),
        Sample("late_messages", 3, (*task, "window")),
        Sample("failed_messages", 1, (*task, "window")),
        Sample("commits", 4, task),
        Sample("commit_seconds", Histogram((0, 4), 0.02)),
        Sample("event_loop_busy_seconds", seconds / 2),
    )
    names = {"pipeline": "visits", "engine": "local", "container": id, "memory": 100 << 20, "process": 4711}
    return Progress(phase="running", seconds=seconds, read=0, written=0, in_flight=7, facts=told + facts, **names)  # type: ignore[arg-type]


def printed(seen: Overview) -> list[str]:
    out = Console(file=io.StringIO(), width=120)
    out.print(screen(seen))
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


def test_the_first_look_has_the_rates_since_the_start() -> None:
    seen = overview([container("0", 10, 1000), container("1", 20, 4000)])
    (clicks,) = seen.inputs
    assert (clicks.processed, clicks.per_second, clicks.queued, clicks.lag) == (5000, 300, 4, 10)
    assert (clicks.partitions, clicks.watermark) == (2, 1_431_857_103_000)
    assert [(row.operator, row.messages, row.late, row.failed) for row in seen.operators] == [
        ("stream-1", 5000, 0, 0),
        ("window", 5000, 6, 2),
    ]
    assert [(row.container, row.busy, row.commits, row.commit_seconds) for row in seen.containers] == [
        ("0", 0.5, 4, 0.005),
        ("1", 0.5, 4, 0.005),
    ]


def test_a_later_look_has_the_rates_since_the_one_before() -> None:
    before = [container("0", 10, 1000)]
    seen = overview([container("0", 12, 1500)], before)
    assert (seen.inputs[0].per_second, seen.outputs[0].per_second) == (250, 125)
    assert [row.per_second for row in seen.operators] == [250, 250]


def test_a_container_that_was_started_anew_counts_from_its_start() -> None:
    before = [container("0", 10, 1000), container("1", 10, 1000)]
    seen = overview([container("0", 12, 1500), container("1", 2, 100)], before)
    assert seen.inputs[0].per_second == 250 + 50


def test_two_looks_at_one_progress_have_no_rate() -> None:
    seen = overview([container("0", 10, 1000)], [container("0", 10, 1000)])
    assert seen.inputs[0].per_second == 0


def test_people_see_tables() -> None:
    assert printed(overview([container("0", 10, 1000), container("1", 20, 4000)])) == [
        "visits on local: 2 containers",
        "",
        "container  process  phase    seconds  commits  commit time  in flight  busy   memory",
        "0             4711  running       10        4       5.0 ms          7   50%  100 MiB",
        "1             4711  running       20        4       5.0 ms          7   50%  100 MiB",
        "",
        "input   partitions  processed  per second  queued  lag  watermark",
        "clicks           2      5,000         300       4   10  2015-05-17 10:05:03Z",
        "",
        "output  written  per second",
        "visits    2,500         150",
        "",
        "operator  messages  per second  late  failed",
        "stream-1     5,000         300     0       0",
        "window       5,000         300     6       2",
    ]


def test_what_is_not_known_is_left_open() -> None:
    bare = Progress(
        phase="restoring",
        seconds=0.0,
        read=0,
        written=0,
        pipeline="p",
        engine="spark",
        facts=(Sample("messages_processed", 0, ("in", "", "in", "")),),
    )
    text = printed(overview([bare]))
    assert text[0] == "p on spark: 1 container"
    assert text[3].split() == ["0", "-", "restoring", "0", "0", "-", "0", "-", "-"]
    assert text[6].split() == ["in", "1", "0", "0", "0", "-", "-"]


def test_the_tasks_of_a_batch_have_a_column_on_spark_alone() -> None:
    on_spark = Progress(phase="running", seconds=9.0, read=0, written=0, batch_tasks_done=3, batch_tasks=64)
    titles, row = printed(overview([on_spark]))[2:4]
    assert titles.split()[-1] == "tasks"
    assert row.endswith("3 of 64")
    between = Progress(phase="running", seconds=9.0, read=0, written=0, batch_tasks_done=0, batch_tasks=0)
    assert printed(overview([between]))[3].endswith(" -")
    assert printed(overview([container("0", 10, 1000)]))[2].endswith("memory")
