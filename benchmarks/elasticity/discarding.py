"""What a message of another key bucket costs, which is passed over, beside one of W1 that is kept.

All messages of one input are of key buckets that the container does not have, so that none of their cost is taken for
that of a message that is kept.
"""

import sys
import time
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
    for each message. One that has all has kept them all, others have passed over all; with 0 buckets they were
    read, and no more."""

    buckets: int
    nanoseconds: float
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
    """Read all, run a container that keeps all, and those that pass over all, in turns."""
    messages, rounds = (20_000, 1) if small else (2_000_000, 5)
    source = _loaded(topics, messages)
    runs = [_run(topics, source, messages, buckets) for _ in range(rounds) for buckets in (READ_ALONE, 1, *SPLITS)]
    return judged(messages, runs, small=small)


def foreign_key(user: str) -> bytes:
    """The name of a user with something behind it, so that it is in none of the first of two buckets, or of four."""
    key = user.encode()
    while crc32(key) % 2 == 0:
        key += b"."
    return key


def _loaded(topics: Topics, messages: int) -> str:
    """The input of W1 in one partition, with other keys, so that the container with the first bucket of several keeps
    none of it; loads it where it is not there."""
    topic, whole = f"events-of-others-{messages}-v{VERSION}", EVENTS.whole_size(messages)
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
        produce(producer, topic, foreign_key(event.user), encode(event), event.at, 0)
    producer.flush()
    return topic


def judged(messages: int, runs: list[Passing], *, small: bool) -> Discarding:
    """What the runs come to."""
    by_buckets = {
        buckets: [run.nanoseconds for run in runs if run.buckets == buckets] for buckets in (READ_ALONE, 1, *SPLITS)
    }
    kept, read = by_buckets[1], by_buckets[READ_ALONE]
    discarded = {str(buckets): by_buckets[buckets] for buckets in SPLITS}
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
        noise=round(others, 2),
        problem=wrong,
    )
    what = "reading alone" if buckets == READ_ALONE else f"one bucket of {buckets}"
    tell(f"{what}: {found.nanoseconds:,.0f} ns a message, noise {others:.0%} {wrong}")
    return found


def problem(course: Course, messages: int, buckets: int) -> str:
    """What is wrong, if anything: a container has the first bucket, and keeps and writes what W1 is to write, or
    nothing."""
    last = course.last
    if last.tasks != [(0, 0)]:
        return f"its tasks are {last.tasks}"
    whole = EVENTS.whole_size(messages)
    all_written = sum(event.cents >= DEAR for event, _ in EVENTS.with_markers(messages))
    kept, written = (whole, all_written) if buckets == 1 else (0, 0)
    found, wanted = (last.kept, last.messages, last.written), (kept, whole, written)
    return "" if found == wanted else f"kept, passed and written are {found}, not {wanted}"
