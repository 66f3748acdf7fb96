"""The folder of Spark that Java is started from on this machine: with PySpark unpacked, so that Python starts quickly.

Java puts `pyspark.zip` of its SPARK_HOME before all else that its Python processes import. Python keeps no bytecode of
what it imports from a zip: each process would compile PySpark anew, which takes longer than all else at its start.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Mapping
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

_SAYS_MASTER = ("PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "MASTER")
"""With one of these in the environment, the master may be that of a cluster."""


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
    """A folder of links to what pip has installed; what stands for the zips are folders. None without Spark of pip's.

    It is removed as this process ends.
    """
    packed, py4j = _packed_home(), find_spec("py4j")
    if packed is None or py4j is None or py4j.origin is None:
        return None
    home = Path(tempfile.mkdtemp(prefix="fluvial-spark-home-"))
    atexit.register(partial(_remove, home, os.getpid()))
    for entry in packed.iterdir():
        if entry.name not in ("python", "__pycache__"):
            (home / entry.name).symlink_to(entry)
    for package in (packed, Path(py4j.origin).parent):
        zipped = _zip_of(package.name, packed / "python" / "lib")
        unpacked = home / "python" / "lib" / zipped.name
        unpacked.mkdir(parents=True)
        (unpacked / package.name).symlink_to(package)
    return home


def _zip_of(package: str, folder: Path) -> Path:
    (found,) = folder.glob(f"{package}*.zip")
    return found


def _remove(home: Path, owner: int) -> None:
    if os.getpid() == owner:  # and no process that was forked of it
        shutil.rmtree(home, ignore_errors=True)
