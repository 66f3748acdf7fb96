"""Checkpoints on file systems of Hadoop's: the same as on a local disk."""

from collections.abc import Callable
from pathlib import Path
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


class Objects:
    """The file system of an object store, or of a disk."""

    def __init__(self, *capabilities: str) -> None:
        self._capabilities = capabilities

    def hasPathCapability(self, _: object, capability: str) -> bool:  # noqa: N802 - as Hadoop calls it
        return capability in self._capabilities


@pytest.mark.parametrize("manager", ["FileContextBasedCheckpointFileManager", "FileSystemBasedCheckpointFileManager"])
def test_a_manager_that_renames_is_told_of_an_object_store_alone(manager: str) -> None:
    store = Objects("fs.capability.outputstream.abortable")
    assert copies_objects(manager, store, "s3a://bucket/folder")
    assert not copies_objects(manager, Objects(), "hdfs://host/folder")
    assert not copies_objects("AbortableStreamBasedCheckpointFileManager", store, "s3a://bucket/folder")


@pytest.mark.parametrize("url", ["nosuch://host/folder", "s3a://bucket/folder"])
def test_a_file_system_that_spark_does_not_have_is_told(spark: "SparkSession", url: str) -> None:
    with pytest.raises(SystemProblem) as raised:
        HadoopPath.of(spark, url)
    assert_explains(raised.value, f"Spark cannot use {url}", None, "a file system that Spark reaches", "spark.hadoop")


def test_a_folder_that_cannot_be_written_is_told(spark: "SparkSession", tmp_path: Path) -> None:
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
def test_what_a_file_system_refuses_for_now_is_told_with_what_ends_that(name: str, text: str, remedy: str) -> None:
    error = unusable("hdfs://host/folder", name, f"{text}\n\tat org.apache.hadoop")
    wrong = f"Spark cannot use hdfs://host/folder: {name.rpartition('.')[2]}: {text}"
    assert_explains(error, wrong, None, "a folder that takes", remedy)
    assert "state_dir; give" not in str(error)
