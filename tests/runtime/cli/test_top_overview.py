"""A run at a glance: what its containers tell, added up."""

import io

from rich.console import Console

from fluvial.runtime.cli.top_overview import Overview, overview
from fluvial.runtime.cli.top_screen import MOST_HOT, screen
from fluvial.runtime.report import Histogram, HotKey, Progress, Sample


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


def printed(seen: Overview, width: int = 120) -> list[str]:
    out = Console(file=io.StringIO(), width=width)
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


def split(id: str, seconds: float, processed: dict[str, float], *keys: HotKey, lag: float = 0) -> Progress:
    """A container that has these key buckets of partition 0 of clicks, and what each has processed."""
    facts = [
        sample
        for bucket, number in processed.items()
        for place in [("clicks", f"clicks/0-{bucket}-4", "clicks", "0")]
        for sample in (
            Sample("messages_processed", number, place),
            Sample("messages_queued", 10, place),
            Sample("lag_messages", lag, place),
        )
    ]
    names = {"pipeline": "visits", "engine": "local", "container": id}
    return Progress(phase="running", seconds=seconds, read=0, written=0, facts=(*facts,), hot_keys=keys, **names)  # type: ignore[arg-type]


ADA = HotKey("clicks/0-1-4", "clicks", '"ada"', 0.834)
LONG = HotKey("clicks/0-2-4", "clicks", f'"{"a name of many words " * 2}"', 0.21)


def two_containers() -> Overview:
    before = [split("0", 10, {"0": 1000, "1": 1000}), split("1", 10, {"2": 1000, "3": 1000})]
    now = [split("0", 20, {"0": 2000, "1": 8000}, ADA, lag=7), split("1", 20, {"2": 2000, "3": 2000}, LONG, lag=9)]
    return overview(now, before)


def test_key_buckets_have_their_share_since_the_look_before_the_hottest_first() -> None:
    seen = two_containers()
    assert [(row.task, row.container, row.share, row.per_second) for row in seen.key_buckets] == [
        ("clicks/0-1-4", "0", 0.7, 700),
        ("clicks/0-0-4", "0", 0.1, 100),
        ("clicks/0-2-4", "1", 0.1, 100),
        ("clicks/0-3-4", "1", 0.1, 100),
    ]
    assert seen.hot_keys == (ADA, LONG)


def test_a_partition_that_many_key_buckets_read_counts_once() -> None:
    (clicks,) = two_containers().inputs
    assert (clicks.partitions, clicks.lag, clicks.processed) == (1, 9, 14_000)


def test_key_buckets_that_have_nothing_to_do_have_no_share() -> None:
    idle = [split("0", 10, {"0": 0, "1": 0})]
    assert [row.share for row in overview(idle).key_buckets] == [None, None]


def test_people_see_the_hottest_key_buckets_and_keys_also_on_a_narrow_screen() -> None:
    wide, narrow = printed(two_containers()), printed(two_containers(), width=64)
    buckets = [
        "key bucket    container  share  per second  queued  lag",
        "clicks/0-1-4          0    70%         700      10    7",
        "clicks/0-0-4          0    10%         100      10    7",
        "clicks/0-2-4          1    10%         100      10    9",
        "clicks/0-3-4          1    10%         100      10    9",
    ]
    assert [line for line in wide if line.startswith(("key bucket", "clicks/"))] == buckets
    assert [line for line in narrow if line.startswith(("key bucket", "clicks/"))] == buckets
    assert wide[-3:] == [
        "hot key                                       stream  key bucket    share",
        '"ada"                                         clicks  clicks/0-1-4    83%',
        '"a name of many words a name of many words "  clicks  clicks/0-2-4    21%',
    ]
    assert narrow[-4:] == [
        "hot key                            stream  key bucket    share",
        '"ada"                              clicks  clicks/0-1-4    83%',
        '"a name of many words a name of    clicks  clicks/0-2-4    21%',
        'many words "',
    ]


def test_of_many_key_buckets_and_keys_the_hottest_are_shown() -> None:
    keys = [HotKey("clicks/0-1-4", "clicks", f'"{number}"', number / 100) for number in range(30)]
    lines = printed(overview([split("0", 10, {str(bucket): bucket for bucket in range(30)}, *keys)]))
    buckets = lines.index("key bucket (10 of 30)  container  share  per second  queued  lag")
    assert [line.split()[0] for line in lines[buckets + 1 :][:MOST_HOT]] == [
        f"clicks/0-{29 - at}-4" for at in range(10)
    ]
    assert [line.split()[0] for line in lines[-MOST_HOT:]] == [f'"{29 - at}"' for at in range(10)]


def test_without_elasticity_there_are_no_key_buckets() -> None:
    seen = overview([container("0", 10, 1000)])
    assert (seen.key_buckets, seen.hot_keys) == ((), ())


def test_what_limits_let_begin_is_added_up() -> None:
    def limited(id: str, used: float, waiting: float) -> Progress:
        return container(
            id,
            10,
            1000,
            Sample("limit_waiting_calls", waiting, ("model",)),
            Sample("limit_holds", 1, ("model",)),
            Sample("limit_used", used, ("model", "calls")),
            Sample("limit_used", 100 * used, ("model", "tokens")),
            Sample("limit_waiting_calls", 0, ("other",)),
            Sample("limit_used", 7, ("other", "calls")),
        )

    seen = overview([limited("0", 20, 3), limited("1", 40, 2)])
    assert [(row.limit, row.amount, row.used, row.per_second, row.waiting, row.at_limit) for row in seen.limits] == [
        ("model", "calls", 60, 6, 5, 2),
        ("model", "tokens", 6000, 600, 5, 2),
        ("other", "calls", 14, 1.4, 0, 0),
    ]
    assert any("model" in line and "tokens" in line and "6,000" in line for line in printed(seen))
    assert not overview([container("0", 10, 1000)]).limits


def test_breakers_are_shown_with_the_containers_in_which_calls_rest() -> None:
    def broken(id: str, rests: int) -> Progress:
        more = (Sample("breaker_open", rests, ("service",)), Sample("breaker_openings", 3 + rests, ("service",)))
        return container(id, 10, 1000, *more)

    seen = overview([broken("0", 0), broken("1", 1)])
    assert [(row.breaker, row.open, row.openings) for row in seen.breakers] == [("service", 1, 7)]
    assert any(line.split() == ["service", "1", "7"] for line in printed(seen))
    assert not overview([container("0", 10, 1000)]).breakers
