"""What a message of another key bucket costs, which is passed over, beside one of W1 that is kept."""

import sys
import time
from collections.abc import Iterator, Sequence
from zlib import crc32

import msgspec
from confluent_kafka import Producer
from msgspec import Struct

from benchmarks.constants import DEAR
from benchmarks.contenders import Contender
from benchmarks.elasticity.bucket_run import READ_ALONE, Course
from benchmarks.elasticity.goals import Judged, median_goal
from benchmarks.elasticity.programs import tell
from benchmarks.events import EVENTS
from benchmarks.process import running
from benchmarks.results import circumstances
from benchmarks.sampling import Noise
from benchmarks.sources import VERSION
from benchmarks.topics import Topics, produce
from fluvial.runtime.systems import open_system

SHARE = 0.1
SPLITS = (2, 4)
_LONGEST = 300.0
_LOOK = 0.1


class Passing(Struct, frozen=True, kw_only=True):
    """A container that has one of so many `buckets` of a partition: nanoseconds of processor time of its process
    for each message, be it kept or passed over, and the share of those that were kept. With 0 buckets messages were
    read, and no more."""

    buckets: int
    nanoseconds: float
    kept_share: float
    noise: float
    problem: str = ""


class Discarding(Judged, frozen=True, kw_only=True):
    """What came of it. `kept_ns` is what a message takes that is kept, `read_ns` what it takes to read one by the Kafka
    client, and `discarded_ns` what one takes that is passed over, with the reading, by the number of buckets; in each
    round."""

    messages: int
    kept_ns: list[float]
    read_ns: list[float]
    discarded_ns: dict[str, list[float]]
    runs: list[Passing]


def measured(topics: Topics, *, small: bool) -> Discarding:
    """Read all, run a container that has all, one that has a half, and one that has a quarter, in turns."""
    messages, rounds = (20_000, 1) if small else (2_000_000, 5)
    source = _loaded(topics, messages)
    runs = [_run(topics, source, messages, buckets) for _ in range(rounds) for buckets in (READ_ALONE, 1, *SPLITS)]
    return judged(messages, runs, small=small)


def _loaded(topics: Topics, messages: int) -> str:
    """The input of W1 in one partition, so that each container has one bucket of it; loads it where it is not there."""
    topic, whole = f"events-in-one-{messages}-v{VERSION}", EVENTS.whole_size(messages)
    admin = open_system(f"kafka://{topics.address}").admin()
    if topic in topics.names():
        if sum(admin.ends(topic)) == whole:
            return topic
        topics.remove([topic])
        time.sleep(1)  # the broker takes a name back when its files are gone
    tell(f"loading {whole:,} messages into {topic}")
    topics.create(topic, 1)
    producer = Producer({"bootstrap.servers": topics.address, "linger.ms": 20})
    encode = msgspec.json.Encoder().encode
    for event, _ in EVENTS.with_markers(messages):
        produce(producer, topic, event.user.encode(), encode(event), event.at, 0)
    producer.flush()
    return topic


def judged(messages: int, runs: list[Passing], *, small: bool) -> Discarding:
    """What the runs come to."""
    kept, read = ([run.nanoseconds for run in runs if run.buckets == buckets] for buckets in (1, READ_ALONE))
    discarded = {str(buckets): list(costs(runs, buckets)) for buckets in SPLITS}
    shares = {
        name: [round((one - before) / of, 4) for one, before, of in zip(ns, read, kept, strict=True)]
        for name, ns in discarded.items()
    }
    goals = [
        median_goal(
            f"to pass over a message once it was read, of what one of W1 takes that is kept, with one bucket of {name}",
            "at most",
            SHARE,
            found,
        )
        for name, found in shares.items()
    ]
    problem = "; ".join(filter(None, (run.problem for run in runs)))
    return Discarding(
        **circumstances(),
        small=small,
        noise=max(run.noise for run in runs),
        output_correct=not problem,
        problem=problem,
        goals=goals,
        messages=messages,
        kept_ns=kept,
        read_ns=read,
        discarded_ns=discarded,
        runs=runs,
    )


def costs(runs: Sequence[Passing], buckets: int) -> Iterator[float]:
    """Nanoseconds for a message that is passed over, in each round: what is left of the time of a container once a
    message that it has kept counts as much as where all are kept. So it has the time in which buckets are computed."""
    alone = [run for run in runs if run.buckets == 1]
    split = [run for run in runs if run.buckets == buckets]
    for one, part in zip(alone, split, strict=True):
        yield round((part.nanoseconds - part.kept_share * one.nanoseconds) / (1 - part.kept_share), 1)


def _run(topics: Topics, source: str, messages: int, buckets: int) -> Passing:
    noise, whole = Noise(), EVENTS.whole_size(messages)
    words = (sys.executable, "-m", "benchmarks.elasticity.bucket_run", str(buckets), str(whole))
    contender = Contender(f"one-of-{buckets}", "", "own", lambda _: words, {})
    with running(contender, "w1", topics, (source,), endless=True) as process:
        deadline = time.monotonic() + _LONGEST
        while (code := process.look()) is None and time.monotonic() < deadline:
            time.sleep(_LOOK)
        if code != 0:
            raise SystemExit(f"a container with a part of the buckets ended with {code}:\n{process.tail()}")
        others = noise.share(process.sampler)
        course = msgspec.json.decode(process.said()[-1], type=Course)
    wrong = "" if buckets == READ_ALONE else problem(course, messages, buckets)
    found = Passing(
        buckets=buckets,
        nanoseconds=round(course.nanoseconds, 1),
        kept_share=course.kept_share,
        noise=round(others, 2),
        problem=wrong,
    )
    what = "reading alone" if buckets == READ_ALONE else f"one bucket of {buckets}"
    tell(f"{what}: {found.nanoseconds:,.0f} ns a message, noise {others:.0%} {wrong}")
    return found


def problem(course: Course, messages: int, buckets: int) -> str:
    """What is wrong, if anything: a container has one bucket, keeps the messages of its keys, and
    writes those that W1 is to write."""
    last = course.last
    own = {bucket for _, bucket in last.tasks}
    if len(last.tasks) != 1:
        return f"its tasks are {last.tasks}"
    kept = written = 0
    for event, _ in EVENTS.with_markers(messages):
        if crc32(event.user.encode()) % buckets in own:
            kept += 1
            written += event.cents >= DEAR
    found, wanted = (last.kept, last.messages, last.written), (kept, EVENTS.whole_size(messages), written)
    return "" if found == wanted else f"kept, passed and written are {found}, not {wanted}"
