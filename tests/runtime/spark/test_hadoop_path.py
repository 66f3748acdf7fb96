"""Checkpoints on file systems of Hadoop's: the same as on a local disk."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from explained import assert_explains
from fluvial.dsl import SystemProblem
from fluvial.runtime.spark.atomic_file import make_path, remove_path, write
from fluvial.runtime.spark.hadoop_path import HadoopPath, copies_objects, unusable
from fluvial.runtime.state.checkpoint_path import CheckpointPath, children

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def local(_: "SparkSession", folder: Path) -> CheckpointPath:
    return folder


def hadoop(session: "SparkSession", folder: Path) -> CheckpointPath:
    return HadoopPath.of(session, f"file://{folder}")


@pytest.fixture(params=[local, hadoop])
def root(request: pytest.FixtureRequest, spark: "SparkSession", tmp_path: Path) -> CheckpointPath:
    make: Callable[[SparkSession, Path], CheckpointPath] = request.param
    return make(spark, tmp_path)


def test_files_are_written_read_and_removed(root: CheckpointPath) -> None:
    make_path(root / "stage" / "query")
    file = root / "stage" / "query" / "record"
    assert not file.exists()
    for data in (b"first", b"\x00\xff" * 1000):
        write(file, data)
        assert file.read_bytes() == data
    assert file.name == "record"
    assert (file.is_dir(), file.parent.is_dir()) == (False, True)
    write(root / "stage" / "query" / "other", b"caf\xc3\xa9 \xff")
    assert (root / "stage" / "query" / "other").read_text(errors="replace") == "café �"
    assert abs(file.stat().st_mtime - (root / "stage" / "query" / "other").stat().st_mtime) < 600
    remove_path(file)
    assert [one.name for one in children(root / "stage" / "query")] == ["other"]
    remove_path(root / "stage")
    assert not (root / "stage").exists()
    remove_path(root / "stage")


def test_a_kill_between_a_file_and_its_checksum_does_no_harm(spark: "SparkSession", tmp_path: Path) -> None:
    """As Hadoop leaves both where it renames one after the other."""
    hadoop_written(spark, tmp_path / "record", b"before")
    assert (tmp_path / ".record.crc").exists()
    (tmp_path / "record").write_bytes(b"after!")
    file = HadoopPath.of(spark, f"file://{tmp_path}") / "record"
    assert file.read_bytes() == b"after!"
    write(file, b"again")
    assert file.read_bytes() == b"again"


def hadoop_written(session: "SparkSession", file: Path, data: bytes) -> None:
    """Write a file by Hadoop, with its checksum."""
    inner: Any = session
    path = inner._jvm.org.apache.hadoop.fs.Path(str(file))
    stream = path.getFileSystem(inner._jsparkSession.sessionState().newHadoopConf()).create(path, True)
    stream.write(bytearray(data))
    stream.close()


def test_what_is_not_there_is_not_found(root: CheckpointPath) -> None:
    assert children(root / "none") == []
    write(root / "file", b"")
    assert children(root / "file") == []
    for act in ((root / "none").read_bytes, (root / "none").stat, (root / "none" / "deeper").stat):
        with pytest.raises(FileNotFoundError):
            act()


def test_children_come_by_name(root: CheckpointPath) -> None:
    for name in ("b", "c", "a"):
        write(root / name, name.encode())
    assert [one.name for one in children(root)] == ["a", "b", "c"]
    assert {root / "a", root / "a", root / "b"} == set(children(root)[:2])


class At(PurePosixPath):
    """A path, as Hadoop has them."""

    def getParent(self) -> "At":  # noqa: N802 - as Hadoop calls it
        return self.parent

    def getName(self) -> str:  # noqa: N802 - as Hadoop calls it
        return self.name

    def toString(self) -> str:  # noqa: N802 - as Hadoop calls it
        return str(self)


class Crash(Exception):
    """The end of a driver, or an error of the file system."""


class NeverReplacing:
    """Files in memory, by a manager of Spark's that replaces none. After `left` calls more it fails."""

    def __init__(self) -> None:
        self.files: dict[At, bytes] = {}
        self.left = float("inf")

    def call(self) -> None:
        if self.left <= 0:
            raise Crash
        self.left -= 1

    def mkdirs(self, _: At) -> None:
        self.call()

    def exists(self, path: At) -> bool:
        self.call()
        return path in self.files

    def delete(self, path: At) -> None:
        self.call()
        self.files.pop(path, None)

    def open(self, path: At) -> "Stream":
        if path not in self.files:
            raise FileNotFoundError(path)
        return Stream(self, path)

    def createAtomic(self, path: At, _: object) -> "Stream":  # noqa: N802 - as Spark calls it
        self.call()
        return Stream(self, path)


class Stream:
    """A file that is read, or written as a whole when it is closed."""

    def __init__(self, manager: NeverReplacing, path: At) -> None:
        self._manager, self._path, self._data = manager, path, b""

    def readAllBytes(self) -> bytes:  # noqa: N802 - as Java calls it
        return self._manager.files[self._path]

    def write(self, data: bytearray) -> None:
        self._data = bytes(data)

    def close(self) -> None:
        if self._data:
            self._manager.call()
            self._manager.files.setdefault(self._path, self._data)


def cut_off(manager: NeverReplacing, file: HadoopPath, data: bytes, calls: int) -> None:
    manager.left = calls
    with suppress(Crash):
        write(file, data)
    manager.left = float("inf")


@pytest.mark.parametrize("calls", range(12))
@pytest.mark.parametrize("more", range(12))
def test_a_write_that_is_cut_off_loses_no_file_where_none_is_replaced(calls: int, more: int) -> None:
    manager = NeverReplacing()
    file = HadoopPath(manager, lambda folder, name: At(folder, name), At("/query/times"), replaces=False)
    write(file, b"old")
    cut_off(manager, file, b"new", calls)
    assert file.exists()
    before = file.read_bytes()
    assert before in (b"old", b"new")
    cut_off(manager, file, b"newer", more)
    assert file.read_bytes() in (before, b"newer")
    write(file, b"last")
    assert file.read_bytes() == b"last"
    assert [*manager.files] == [At("/query/times")]


@pytest.mark.parametrize("calls", range(12))
def test_nothing_is_left_of_a_file_that_is_removed_after_a_write_was_cut_off(calls: int) -> None:
    manager = NeverReplacing()
    file = HadoopPath(manager, lambda folder, name: At(folder, name), At("/query/times"), replaces=False)
    write(file, b"old")
    cut_off(manager, file, b"new", calls)
    remove_path(file)
    assert not file.exists()
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


class Objects:
    """The file system of an object store, or of a disk."""

    def __init__(self, *capabilities: str) -> None:
        self._capabilities = capabilities

    def hasPathCapability(self, _: object, capability: str) -> bool:  # noqa: N802 - as Hadoop calls it
        return capability in self._capabilities


@pytest.mark.parametrize("manager", ["FileContextBasedCheckpointFileManager", "FileSystemBasedCheckpointFileManager"])
def test_a_manager_that_renames_is_reported_for_an_object_store_alone(manager: str) -> None:
    store = Objects("fs.capability.outputstream.abortable")
    assert copies_objects(manager, store, "s3a://bucket/folder")
    assert not copies_objects(manager, Objects(), "hdfs://host/folder")
    assert not copies_objects("AbortableStreamBasedCheckpointFileManager", store, "s3a://bucket/folder")


@pytest.mark.parametrize("url", ["nosuch://host/folder", "s3a://bucket/folder"])
def test_a_file_system_that_spark_does_not_have_is_reported(spark: "SparkSession", url: str) -> None:
    with pytest.raises(SystemProblem) as raised:
        HadoopPath.of(spark, url)
    assert_explains(raised.value, f"Spark cannot use {url}", None, "a file system that Spark reaches", "spark.hadoop")


def test_a_folder_that_cannot_be_written_is_reported(spark: "SparkSession", tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemProblem, match="Spark cannot use file:"):
        write(HadoopPath.of(spark, f"file://{tmp_path}/file/folder") / "record", b"")


@pytest.mark.parametrize(
    ("name", "text", "remedy"),
    [
        ("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "refused", "safemode get"),
        ("org.apache.hadoop.ipc.RemoteException", "Cannot complete /x. Name node is in safe mode.", "safemode get"),
        ("org.apache.hadoop.security.AccessControlException", "refused", "let the user"),
        ("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "refused", "raise the quota"),
    ],
)
def test_what_a_file_system_refuses_for_now_is_reported_with_what_ends_that(name: str, text: str, remedy: str) -> None:
    error = unusable("hdfs://host/folder", name, f"{text}\n\tat org.apache.hadoop")
    wrong = f"Spark cannot use hdfs://host/folder: {name.rpartition('.')[2]}: {text}"
    assert_explains(error, wrong, None, "a folder that takes", remedy)
    assert "state_dir; give" not in str(error)
