"""The folder of Spark that Java is started from on this machine: with PySpark unpacked, so that Python starts quickly.

Java puts `pyspark.zip` of its SPARK_HOME before all else that its Python processes import. Python keeps no bytecode of
what it imports from a zip: each process would compile PySpark anew, which takes longer than all else at its start.
"""

import atexit
import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

from ....dsl.validation import explain

_PREFIX = "fluvial-spark-home-"
_HELD = "in-use"
"""The file in such a folder that its process has locked."""
_SAYS_MASTER = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "MASTER")
"""With one of these in the environment, the master may be that of a cluster."""
_log = logging.getLogger(__name__)


def home_for(master: str | None, environment: Mapping[str, str]) -> Path | None:
    """The SPARK_HOME to start Java with, which lasts as long as this process.

    None leaves it to PySpark: the user has a Spark of their own, or a cluster may take `pyspark.zip` from it.
    """
    packed = _packed_home()
    if "SPARK_HOME" in environment or packed is None:
        return None
    if master is None and (any(name in environment for name in _SAYS_MASTER) or (packed / "conf").exists()):
        return None
    return unpacked_home() if (master or "local").startswith("local") else None


def _packed_home() -> Path | None:
    """The folder of PySpark, if pip has installed Spark in it."""
    spec = find_spec("pyspark")
    home = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    return home if home is not None and (home / "python" / "lib" / "pyspark.zip").is_file() else None


@cache
def unpacked_home() -> Path | None:
    """A folder of links to what pip has installed; what stands for the zips are folders. None without Spark of pip's,
    and where the folder for temporary files takes none, which is warned of.

    It is removed as this process ends. Those of processes that were killed are removed here.
    """
    packed, py4j = _packed_home(), find_spec("py4j")
    if packed is None or py4j is None or py4j.origin is None:
        return None
    _remove_abandoned(Path(tempfile.gettempdir()))
    home: Path | None = None
    try:
        home = Path(tempfile.mkdtemp(prefix=_PREFIX))
        _hold(home)
        _fill(home, packed, Path(py4j.origin).parent)
    except OSError as error:
        if home is not None:
            shutil.rmtree(home, ignore_errors=True)
        wrong = f"PySpark cannot be unpacked, so each Python process of Spark starts more slowly: {error}"
        remedy = "make room there, or set TMPDIR to another folder"
        _log.warning(explain(wrong, "a folder for temporary files that can be written", remedy))
        return None
    atexit.register(partial(_remove, home, os.getpid()))
    return home


def _fill(home: Path, packed: Path, py4j: Path) -> None:
    for entry in packed.iterdir():
        if entry.name not in ("python", "__pycache__"):
            (home / entry.name).symlink_to(entry)
    for package in (packed, py4j):
        zipped = _zip_of(package.name, packed / "python" / "lib")
        unpacked = home / "python" / "lib" / zipped.name
        unpacked.mkdir(parents=True)
        (unpacked / package.name).symlink_to(package)


def _hold(home: Path) -> None:
    """Lock a file in a folder for as long as this process lives, or one that is forked of it."""
    # A lock, and no process id: a process of another container may share the folder.
    descriptor = os.open(home / "making", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    (home / "making").rename(home / _HELD)  # nobody sees it before it is locked


def _remove_abandoned(folder: Path) -> None:
    """Remove the folders of this user whose processes are gone."""
    for home in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another process removes it; or file locks do not work there
            if home.lstat().st_uid != os.geteuid():
                continue
            descriptor = os.open(home / _HELD, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(home)
            finally:
                os.close(descriptor)


def _zip_of(package: str, folder: Path) -> Path:
    (zip_file,) = folder.glob(f"{package}*.zip")
    return zip_file


def _remove(home: Path, owner: int) -> None:
    if os.getpid() == owner:  # and no process that was forked of it
        shutil.rmtree(home, ignore_errors=True)
