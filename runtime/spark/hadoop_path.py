"""Files on the file systems that Spark knows by Hadoop: hdfs, s3a, abfs, dbfs and others.

They are read and written through Spark's own manager of checkpoint files, with the access that Spark has. On HDFS it
writes each file at one stroke, by renaming it. On an object store it does so if Spark is given the manager that ends an
upload or gives it up.
"""

import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain

_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager$"

_BY_RENAMING = ("FileContextBasedCheckpointFileManager", "FileSystemBasedCheckpointFileManager")
"""Spark's managers of checkpoint files for file systems that rename a file at one stroke."""
_GIVES_UP = "fs.capability.outputstream.abortable"
"""What the file system of an object store can do: give up a file that it has begun to write."""
_COPIES = (
    "%s is on an object store, where Spark renames a file by removing the old one and copying: a crash meanwhile may "
    "lose a file of the checkpoint, and each batch takes three times the requests. Set "
    "spark.sql.streaming.checkpointFileManagerClass to "
    "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager, of the package spark-hadoop-cloud"
)
_SETTING = "spark.sql.streaming.checkpointFileManagerClass"
_NEVER_REPLACES = "FileSystemBasedCheckpointFileManager"
"""The manager that Spark falls back to. If a file of a name exists, it keeps that file in place of the new one, without
an error."""
_SECOND = ".new"
"""What the name of a second file ends with. It has the data while the first one is not there: removed before its
successor, as by that manager, or by a file system that copies what it renames."""
_LOOKS = 7
"""How often a reader looks in both places before a file counts as missing. Where files are written without a pause,
three times were too few, for 2 of 2,000 reads."""
_ON_LOCAL_DISKS: Mapping[str, str] = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
    _SETTING: f"org.apache.spark.sql.execution.streaming.checkpointing.{_NEVER_REPLACES}",
}
"""How files on a local disk are written: at one stroke. Hadoop's usual way keeps a checksum in a file beside each, and
renames the file before its checksum: a kill between both would leave a file that nobody can read."""
_NO_RIGHT = "let the user that Spark runs as read and write there; for state, state_dir may be another folder"
_REFUSALS: Mapping[str, str] = {
    "SafeModeException|Name node is in safe mode": (
        "wait until HDFS has left safe mode: hdfs dfsadmin -safemode get tells; then start again"
    ),
    "AccessControlException|Permission denied: user=": _NO_RIGHT,
    "AccessDeniedException": _NO_RIGHT,
    "QuotaExceededException|quota of .* is exceeded": "raise the quota of the folder, or make room; then start again",
}
"""What to do where Hadoop refuses a read or a write, by the class of its error or by its text. Spark tells one or the
other."""

_log = logging.getLogger(__name__)


def copies_objects(manager: str, system: Any, path: Any) -> bool:
    """Whether Spark's manager of this name writes files of `system` by copying them: where it renames, and the file
    system is an object store, which could give up a file instead."""
    return manager in _BY_RENAMING and bool(system.hasPathCapability(path, _GIVES_UP))


@dataclass(frozen=True, slots=True)
class HadoopStatus:
    """What is known of a file: when it was written, in seconds since epoch."""

    st_mtime: float


class HadoopPath:
    """A `CheckpointPath` on a file system of Hadoop's. Raises SystemProblem if the file system cannot be used."""

    def __init__(self, files: Any, make: Any, path: Any, *, replaces: bool) -> None:
        """`files` is Spark's manager, `make` Hadoop's class of paths. Without `replaces` an old file is gone
        before the new one is there."""
        self._files, self._make, self._path, self._replaces = files, make, path, replaces

    @classmethod
    def of(cls, session: SparkSession, url: str) -> "HadoopPath":
        """The folder of a URL. Raises SystemProblem for a file system that Spark does not know or reach."""
        jvm, inner = cast("Any", session._jvm), cast("Any", session._jsparkSession)
        with _explained(url):
            path = jvm.org.apache.hadoop.fs.Path(url)
            hadoop = inner.sessionState().newHadoopConf()
            system = path.getFileSystem(hadoop)
            path = system.makeQualified(path)
            scheme = path.toUri().getScheme()
            for name, value in _ON_LOCAL_DISKS.items() if scheme == "file" else ():
                hadoop.set(name, value)
            manager = jvm.org.apache.spark.util.Utils.classForName(_MANAGER, True, False).getField("MODULE$").get(None)
            files = manager.create(path, hadoop)
            name = files.getClass().getSimpleName()
            copies = copies_objects(name, system, path)
            # On a local disk a renamed file replaces the old one, whatever the manager thinks.
            replaces = not copies and (name != _NEVER_REPLACES or scheme == "file")
            if copies:
                _log.warning(_COPIES, url)
            return cls(files, jvm.org.apache.hadoop.fs.Path, path, replaces=replaces)

    def __str__(self) -> str:
        return str(self._path.toString())

    def __repr__(self) -> str:
        return f"HadoopPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HadoopPath) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def _of(self, path: Any) -> "HadoopPath":
        return HadoopPath(self._files, self._make, path, replaces=self._replaces)

    @property
    def name(self) -> str:
        """The last part of its name."""
        return str(self._path.getName())

    @property
    def parent(self) -> "HadoopPath":
        """The folder that has it."""
        return self._of(self._path.getParent())

    def __truediv__(self, name: str, /) -> "HadoopPath":
        return self._of(self._make(self._path, name))

    def absolute(self) -> "HadoopPath":
        """The same: its name begins with the file system."""
        return self

    def exists(self) -> bool:
        """Whether there is one."""
        with _explained(str(self)):
            return any(self._files.exists(path) for path in self._places)

    def is_dir(self) -> bool:
        """Whether it is a folder."""
        return any(status.isDirectory() for status in self._beside() if status.getPath().getName() == self.name)

    def iterdir(self) -> Iterator["HadoopPath"]:
        """What a folder has. Raises FileNotFoundError if there is none, NotADirectoryError for a file."""
        paths = [self._of(status.getPath()) for status in self._statuses(self._path)]
        if paths == [self]:  # a listing of a file has the file
            raise NotADirectoryError(str(self))
        return iter(paths)

    def read_bytes(self) -> bytes:
        """What a file holds. Raises FileNotFoundError if there is no file."""
        for path in self._places if self._replaces else self._places * _LOOKS:
            with suppress(FileNotFoundError), _explained(str(self)):
                stream = self._files.open(path)
                try:
                    return bytes(stream.readAllBytes())
                finally:
                    stream.close()
        raise FileNotFoundError(str(self))

    def read_text(self, *, errors: str) -> str:
        """What a file holds, as text of UTF-8."""
        return self.read_bytes().decode(errors=errors)

    def stat(self) -> HadoopStatus:
        """What is known of a file. Raises FileNotFoundError if there is no file."""
        for status in self._beside():
            if status.getPath().getName() == self.name:
                return HadoopStatus(status.getModificationTime() / 1000)
        raise FileNotFoundError(str(self))

    def write_atomically(self, data: bytes) -> None:
        """Write a file, in place of one that is there. Its folder is made if there is none."""
        with _explained(str(self)):
            self._files.mkdirs(self._path.getParent())
            if not self._replaces and self._files.exists(self._path):  # else the second one may have the data
                self._put(self._second, data)
            self._put(self._path, data)
            if not self._replaces:
                self._files.delete(self._second)

    def _put(self, path: Any, data: bytes) -> None:
        if not self._replaces:
            self._files.delete(path)
        stream = self._files.createAtomic(path, True)
        try:
            stream.write(bytearray(data))
        except BaseException:
            stream.cancel()
            raise
        stream.close()

    @property
    def _second(self) -> Any:
        return self._make(self._path.getParent(), self.name + _SECOND)

    @property
    def _places(self) -> tuple[Any, ...]:
        """Where to look for the data of a file, in turn, and again: another process may put the file into one place and
        remove it from the other meanwhile."""
        return (self._path,) if self._replaces else (self._path, self._second, self._path)

    def make(self) -> None:
        """Make a folder, and those above it."""
        with _explained(str(self)):
            self._files.mkdirs(self._path)

    def remove(self) -> None:
        """Remove a file, or a folder with all that it has; nothing happens where there is none."""
        with _explained(str(self)):
            if not self._replaces:
                self._files.delete(self._second)
            self._files.delete(self._path)

    def _beside(self) -> list[Any]:
        try:
            return self._statuses(self._path.getParent())
        except FileNotFoundError:
            return []

    def _statuses(self, folder: Any) -> list[Any]:
        with _explained(str(self)):
            return list(self._files.list(folder))


@contextmanager
def _explained(path: str) -> Iterator[None]:
    """Raise the error of a file system as FileNotFoundError or SystemProblem."""
    try:
        yield
    except Py4JJavaError as error:
        java: Any = error.java_exception
        name, text = java.getClass().getName(), java.getMessage()
        if name == "java.io.FileNotFoundException":
            raise FileNotFoundError(path) from None
        raise unusable(path, name, str(text or name)) from error


def unusable(path: object, name: str, text: str) -> SystemProblem:
    """The error of a file system that does not do what a run needs: `name` is the class of the error in Java, `text`
    its message."""
    wrong = f"Spark cannot use {path}: {name.rpartition('.')[2]}: {text.splitlines()[0]}"
    remedy = refusal_remedy(f"{name}: {text}")
    if remedy is not None:
        return SystemProblem(explain(wrong, "a folder that takes what is written there", remedy, path))
    remedy = "correct state_dir; give Spark the file system's package by spark.jars.packages, and its access by "
    remedy += "spark.hadoop.* settings"
    return SystemProblem(explain(wrong, "a folder on a file system that Spark reaches", remedy, path))


def refusal_remedy(text: str) -> str | None:
    """What to do about a refusal of Hadoop's that this text tells; None if it tells none."""
    return next((remedy for said, remedy in _REFUSALS.items() if re.search(said, text)), None)
