"""HDFS in one process on this machine."""

import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from kafka.broker import free_ports
from kafka.broker_jars import ROOT, SHORT_LIVED, Jars, java
from waiting import wait_until

JARS = Jars(ROOT / "tests" / "hdfs" / "pom.xml", ROOT / ".kafka" / "hdfs-jars")
PROGRAM = Path(__file__).with_name("MiniHdfs.java")
SECONDS_TO_START = 180.0


class MiniHdfs:
    """A name node and a data node, which keep their files in a folder; `url` is the root of the file system."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (self._port,) = free_ports(1)
        self.url = f"hdfs://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        JARS.fetch()
        command = [
            java(),
            *SHORT_LIVED.split(),
            "-cp",
            f"{JARS.folder}/*",
            str(PROGRAM),
            str(self._folder),
            str(self._port),
        ]
        output = (self._folder / "output.txt").open("wb")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output)
        output.close()
        wait_until(lambda: self._answers() or self._process.poll() is not None, "HDFS", SECONDS_TO_START)
        assert self._process.poll() is None, (self._folder / "output.txt").read_text()
        return self

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return (self._folder / "data" / "data1" / "current").exists()
        return False

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
