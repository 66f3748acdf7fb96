"""An archive of the classes that a broker loads: with it a broker starts with half of the work.

Java passes over an archive that another Java has made, or from other jars.
"""

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from kafka.broker import Broker
from kafka.broker_jars import CLASSES, SHORT_LIVED, lacking


def make(archive: Path) -> None:
    """Let a broker run once. At its end it writes down what it has loaded."""
    made = archive.with_suffix(".new")
    os.environ["KAFKA_OPTS"] = f"{SHORT_LIVED} -XX:ArchiveClassesAtExit={made}"
    with TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        broker.stop()
    if made.exists():
        made.rename(archive)


if __name__ == "__main__":
    if lacking() is None and not CLASSES.exists():
        make(CLASSES)
