"""What a pipeline keeps in the midst of its input, in files: a log with its stores, or the streams of a system whose
state has changelogs.

`python -m generators.kept_before_elasticity FOLDER` writes the files that are in `tests/local_engine/kept`, with the
version of the library that it finds: see the README there.
"""

import lzma
import os
import signal
import sys
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import msgspec

from engines.sending import ProducingSystem, stores_of
from engines.several import at_each_turn
from engines.targets import outputs_of, write
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.stores.store_keys import prefix_of
from fluvial.runtime.local.stores.task_stores import store_for
from fluvial.runtime.systems import LogSystem, System
from generators.before_elasticity import KINDS, PORTIONS, STREAM_PARTITIONS, feed, pipeline_before, settings_of

AMID = 100
"""How many messages are read of the second portion before a run stops."""


def begun(system: System, settings: Settings) -> None:
    """Process a portion, and stop in the midst of the next: what it has written between stages is unread."""

    def stop_there(progress: Progress) -> None:
        if progress.phase == "running" and progress.read >= AMID:
            os.kill(os.getpid(), signal.SIGTERM)

    feed(system, 0)
    run(pipeline_before(), system=system, settings=settings, until="caught-up")
    feed(system, 1)
    with at_each_turn():
        run(pipeline_before(), system=system, settings=settings, progress=stop_there)


Entries = dict[str, str]


def state_of(system: System, settings: Settings) -> Entries:
    """The state of a pipeline whose tasks are not split, as stores or changelogs have it: by operator, partition, and
    key."""
    made = checked_plan(pipeline_before(), system, settings)
    found: Entries = {}
    for kept in made.stores:
        for number in range(made.stage(kept.stage).tasks):
            entries: dict[bytes, bytes | None]
            if isinstance(system, ProducingSystem):
                records = system._memory.partition(kept.changelog, number)
                entries = {record[0] or b"": record[1] for record in records}
            else:
                with closing(store_for(made, f"{kept.stage}/{number}", system, settings)) as store:
                    entries = dict(store.scan(prefix_of(kept.operator)))
            found |= {
                f"{kept.operator}/{number}: {text_of(key)}": cast("str", text_of(value))
                for key, value in entries.items()
                if value is not None
            }
    return found


def text_of(data: bytes | None) -> str | None:
    """Bytes as a text, of a character each."""
    return None if data is None else data.decode("latin-1")


def bytes_of(text: str | None) -> bytes | None:
    """The bytes of such a text."""
    return None if text is None else text.encode("latin-1")


class Kept(msgspec.Struct):
    """What a pipeline has kept and written: its state, its checkpoints by task, its outputs by stream, and the forms of
    keys in its changelogs."""

    state: Entries
    checkpoints: dict[str, Any]
    outputs: dict[str, list[tuple[str | None, str | None, int]]]
    forms: dict[str, set[str]]


def goes_on(system: System, runs: Sequence[Settings]) -> Kept:
    """Process what is left of a portion, and a portion in each further run, with the settings of each; then end. State
    and checkpoints are those of before the end."""
    with stores_of(system):
        for number, settings in enumerate(runs, 1):
            if number > 1:
                feed(system, number)
            run(pipeline_before(), system=system, settings=settings, until="caught-up")
        state, checkpoints = state_of(system, runs[-1]), system.admin().checkpoints("kept")
        run(pipeline_before(), system=system, settings=runs[-1], until="end")
    outputs = outputs_of(system, {stream for stream, _ in STREAM_PARTITIONS}, "kept")
    return Kept(
        state,
        {task: msgspec.json.decode(data) for task, data in checkpoints.items()},
        {name: [(text_of(key), text_of(value), time) for key, value, time, _ in outputs[name]] for name in outputs},
        forms_of(system) if isinstance(system, ProducingSystem) else {},
    )


def forms_of(system: ProducingSystem) -> dict[str, set[str]]:
    """The marks with which the keys of changelogs begin, by stream."""
    return {
        name: {(text_of(key) or "")[:1] for part in system._memory.partitions(name) for key, _, _, _ in part}
        for name in system.admin().streams()
        if name.endswith("-changelog")
    }


class Line(msgspec.Struct, array_like=True):
    """A record of a stream; without `value` and `time` it says that there is the partition."""

    stream: str
    partition: int
    key: str | None = None
    value: str | None = None
    time: int | None = None
    headers: list[tuple[str, str]] = []


def lines_of(system: ProducingSystem) -> Iterator[bytes]:
    """All streams of a system, a line of JSON for each record."""
    for stream, partitions in sorted(system.admin().streams().items()):
        yield from (msgspec.json.encode(Line(stream, number)) for number in range(partitions))
        for number in range(partitions):
            for key, value, time, headers in system._memory.partition(stream, number):
                named = [(name, cast("str", text_of(header))) for name, header in headers]
                yield msgspec.json.encode(Line(stream, number, text_of(key), text_of(value), time, named))


def system_of(lines: Iterable[bytes]) -> ProducingSystem:
    """A system with these streams."""
    system = ProducingSystem()
    found: dict[str, list[list[Record]]] = {}
    for line in (msgspec.json.decode(line, type=Line) for line in lines):
        if line.time is None:
            found.setdefault(line.stream, []).append([])
            continue
        headers = tuple((name, bytes_of(header) or b"") for name, header in line.headers)
        record = bytes_of(line.key), bytes_of(line.value), line.time, headers
        found[line.stream][line.partition].append(record)
    write(system, found)
    return system


def write_files(folder: Path) -> None:
    """Write what a run keeps that has stopped in the midst of its input, and what it keeps and has written later."""
    for name in KINDS:
        with TemporaryDirectory() as temporary:
            system, settings = _empty(name, Path(temporary)), settings_of(name)
            with stores_of(system):
                begun(system, settings)
            if isinstance(system, ProducingSystem):
                with lzma.open(folder / f"{name}.jsonl.xz", "wb") as file:
                    file.writelines(line + b"\n" for line in lines_of(system))
            else:
                with tarfile.open(folder / f"{name}.tar.xz", "w:xz") as archive:
                    archive.add(Path(temporary) / "log", "log", filter=_anonymous)
            later = goes_on(system, [settings] * (PORTIONS - 1))
            with lzma.open(folder / f"{name}-later.json.xz", "wb") as file:
                file.write(msgspec.json.encode(later))


def _empty(kind: str, folder: Path) -> System:
    return LogSystem(folder / "log", fsync=False) if kind == "log" else ProducingSystem()


def opened(files: Path, kind: str, folder: Path) -> System:
    """A system with what was kept of a kind; a log is in the folder."""
    if kind != "log":
        with lzma.open(files / f"{kind}.jsonl.xz") as lines:
            return system_of(lines)
    with tarfile.open(files / f"{kind}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return LogSystem(folder / "log", fsync=False)


def kept_later(files: Path, kind: str) -> Kept:
    """What the version that has written the files kept and wrote as it went on."""
    with lzma.open(files / f"{kind}-later.json.xz") as file:
        return msgspec.json.decode(file.read(), type=Kept)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if member.name.endswith("/LOG") else member  # RocksDB's messages


if __name__ == "__main__":
    write_files(Path(sys.argv[1]))
