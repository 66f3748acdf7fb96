"""The Spark that tests start: the one that pip has installed, unpacked, with two jars that save work.

Spark writes each file of a checkpoint by Hadoop, which starts a process of `chmod` for it and processes of `readlink`
to rename it: half of what a small batch costs. Java can do both by itself.

And for each store of state it makes a configuration of Hadoop anew, of files of 460 kB that mostly describe themselves,
which are looked for in 260 jars: a sixth of what a small batch costs then. The first jar has them without descriptions.
"""

import re
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

from fluvial.runtime.spark.query.spark_home import unpacked_home
from kafka.broker_jars import ROOT, SHORT_LIVED, BrokerProblem, Jars, lacking

FILES = Jars(ROOT / "tests" / "spark_home" / "pom.xml", ROOT / ".kafka" / "spark-files")
HOME = ROOT / ".kafka" / "spark-home"
"""Always the same: Java goes by the names of jars where it looks whether an archive of classes is of them."""

CLASSES = HOME.with_name("spark-classes.jsa")
"""What `spark_classes` makes of it."""

_HADOOP, _FIRST = "hadoop-client-api-*.jar", "slf4j-api-*.jar"
"""The jar with the defaults of Hadoop, and the one in which Spark lets Java look before all others."""

_ABSENT = ("hdfs-default.xml", "hdfs-site.xml", "mapred-site.xml", "yarn-site.xml")
"""What Hadoop looks for, too, and finds in no jar."""

_NEEDLESS = re.compile(rb"<description>.*?</description>|<!--.*?-->|(?<=>)\s+(?=<)", re.DOTALL)

_SETTINGS = {
    "fs.file.impl": "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


def spark_home() -> Path | None:
    """What `make spark-jars` has made of the Spark that is installed; else that one, unpacked; None without one."""
    home = unpacked_home()
    return HOME if home is not None and _of(HOME) == _of(home) else home


def _of(home: Path) -> Path | None:
    """The folder of the Spark that a home is made of."""
    return (home / "bin").resolve() if (home / "bin").exists() else None


def java_options() -> str:
    """With what tests start the Java of Spark. From another home it would say that the archive is not of its jars."""
    archive = f"-XX:SharedArchiveFile={CLASSES} -Xlog:cds=off,cds+dynamic=off"
    return f"{SHORT_LIVED} {archive}" if CLASSES.exists() else SHORT_LIVED


def make() -> None:
    """Make the home, where it is not there."""
    home = unpacked_home()
    if home is None or _of(HOME) == _of(home) or lacking(FILES) is not None:
        return
    FILES.fetch()
    with TemporaryDirectory(dir=HOME.parent) as folder:
        made = Path(folder) / "home"
        shutil.copytree(home, made, symlinks=True)
        jars = (made / "jars").resolve()
        (made / "jars").unlink()
        (made / "jars").mkdir()
        for entry in (*jars.iterdir(), *map(Path, FILES.paths())):
            (made / "jars" / entry.name).symlink_to(entry)
        _add_settings(made / "jars")
        CLASSES.unlink(missing_ok=True)
        shutil.rmtree(HOME, ignore_errors=True)
        made.rename(HOME)


def _add_settings(jars: Path) -> None:
    """Lay Hadoop's settings, as it finds them among classes, into the first jar."""
    (hadoop,), (first,) = jars.glob(_HADOOP), jars.glob(_FIRST)
    original = first.resolve()
    first.unlink()
    shutil.copy(original, first)
    with ZipFile(hadoop) as defaults, ZipFile(first, "a") as jar:
        for name in defaults.namelist():
            if name.endswith("-default.xml"):
                jar.writestr(name, _NEEDLESS.sub(b"", defaults.read(name)))
        for name in _ABSENT:
            jar.writestr(name, "<configuration/>")
        jar.writestr("core-site.xml", _core_site())


def _core_site() -> str:
    """The settings that differ from Hadoop's."""
    told = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in _SETTINGS.items()
    )
    return f"<configuration>{told}</configuration>"


if __name__ == "__main__":
    try:
        make()
    except BrokerProblem as problem:
        sys.exit(str(problem))
