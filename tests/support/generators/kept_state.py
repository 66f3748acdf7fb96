"""A run that has stopped amid its input: the pipeline, its input in two portions, and the archive of what it keeps.

`python -m generators.kept_state FOLDER` writes the archives with the version of the library that it finds: what is in
`tests/both_engines/kept` was written by an earlier one.
"""

import os
import signal
import sys
import tarfile
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from fluvial.dsl import (
    Context,
    KeyedProcessor,
    Message,
    Pipeline,
    Timer,
    ValueState,
    after_count,
    collect,
    count,
    session,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.launch import EngineName
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.partitioner import partition_for

ENGINES: tuple[EngineName, ...] = ("local", "spark")
SETTINGS = Settings(guarantee="exactly_once", intermediate_partitions=2, spark_buckets=2, spark_batch_records=100)
MINUTE = 60_000
ANYWHERE = "file:/kept/"
USERS = ("ann", "bob", "eve")

Portion = Mapping[str, list[list[Record]]]
"""Records of the partitions of each input."""


class Click(msgspec.Struct):
    user: str
    page: str


class Streak(KeyedProcessor[str, Click, str]):
    """Counts the clicks of a user, and tells of a pause of half an hour."""

    clicks = ValueState(int, 0)

    def on_message(self, message: Message[Click], context: Context[str]) -> Iterable[str]:
        self.clicks.value += 1
        context.timers.set("pause", message.timestamp + 30 * MINUTE)
        return [f"{context.key} {self.clicks.value}"]

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        return [f"{context.key} pauses at {timer.time} after {self.clicks.value}"]


def user_of(click: Click) -> str:
    return click.user


def page_of(click: Click) -> str:
    return click.page


def named(click: Click, name: str) -> str:
    return f"{name}: {click.page}"


def both(click: Click, price: int) -> str:
    return f"{click.user} {click.page} {price}"


def kept_pipeline() -> Pipeline:
    """State of each kind: windows, a window with a trigger, sessions, a join, a table, a processor."""
    hour, pipeline = timedelta(hours=1), Pipeline("kept")
    clicks = pipeline.stream("clicks", key=str, value=Click)
    users = pipeline.table("users", key=str, value=str)
    orders = pipeline.stream("orders", key=str, value=int)
    pages = clicks.partition_by(page_of, id="by-page", key_type=str)
    pages.window(tumbling(hour), count(), id="hourly").map(lambda pane: pane.value).send_to("hourly")
    early = pages.window(tumbling(hour), count(), id="early", trigger=after_count(5), accumulate=True)
    early.map(lambda pane: pane.value).send_to("early")
    visits = clicks.window(session(timedelta(minutes=20)), collect(), id="visits")
    visits.map(lambda pane: ",".join(map(page_of, pane.value))).send_to("visits")
    clicks.join(users, named, id="named").send_to("named")
    clicks.join(orders, both, within=timedelta(minutes=10), id="bought").send_to("bought")
    clicks.process(Streak(), id="streaks").send_to("streaks")
    return pipeline


def portion(number: int) -> Portion:
    """A quarter of an hour of input. Rows of the second one meet no click: when they come is not the question here."""
    begin = 1_700_000_000_000 // (60 * MINUTE) * 60 * MINUTE + number * 15 * MINUTE
    clicks = [(USERS[n % 3], Click(USERS[n % 3], f"/{n % 4}"), begin + n * 30_000) for n in range(30)]
    orders = [(USERS[n % 3], n, begin + n * 3 * MINUTE) for n in range(5)]
    users = [(user, user.title(), begin) for user in USERS] if number == 0 else [("zoe", "Zoe", begin)]
    return {
        name: _partitions([(key.encode(), msgspec.json.encode(value), time, ()) for key, value, time in rows])
        for name, rows in (("clicks", clicks), ("orders", orders))
    } | {"users": _partitions([(key.encode(), value.encode(), time, ()) for key, value, time in users])}


def _partitions(records: list[Record]) -> list[list[Record]]:
    return [[record for record in records if partition_for(record[0], 2) == number] for number in range(2)]


def feed(system: LogSystem, number: int) -> int:
    """Write a portion; returns how many records it has."""
    known, writing = set(system.admin().streams()), system.producer().begin()
    for stream, partitions in portion(number).items():
        if stream not in known:
            system.admin().create(stream, 2)
        for partition, records in enumerate(partitions):
            writing.append(stream, partition, records)
    writing.commit()
    return sum(len(records) for partitions in portion(number).values() for records in partitions)


def run_until_read(system: LogSystem, engine: EngineName, records: int) -> None:
    """Run until so many records of the inputs are processed, and stop after a commit."""

    def stop_there(progress: Progress) -> None:
        if progress.phase == "running" and progress.read >= records and progress.lag == progress.in_flight == 0:
            os.kill(os.getpid(), signal.SIGTERM)

    run(kept_pipeline(), engine=engine, system=system, settings=SETTINGS, progress=stop_there)


def write_archive(file: Path, engine: EngineName) -> None:
    """Write what a run keeps that has stopped behind the first portion."""
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder) / "log")
        run_until_read(system, engine, feed(system, 0))
        _replace_in_metadata(Path(folder), f"file:{folder}/", ANYWHERE)
        with tarfile.open(file, "w:xz") as archive:
            archive.add(Path(folder) / "log", "log", filter=_anonymous)


def open_archive(file: Path, folder: Path) -> LogSystem:
    """The log of an archive, opened in a folder."""
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    _replace_in_metadata(folder, ANYWHERE, f"file:{folder}/")
    return LogSystem(folder / "log")


def _replace_in_metadata(folder: Path, old: str, new: str) -> None:
    """Replace a path that Spark has noted: it looks for the schema of its state there, wherever the checkpoint lies."""
    for file in folder.glob("log/spark/**/_metadata/v2/0"):
        file.write_text(file.read_text().replace(old, new))
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith("/LOG") else member  # RocksDB's messages


if __name__ == "__main__":
    for each in ENGINES:
        write_archive(Path(sys.argv[1]) / f"{each}.tar.xz", each)
