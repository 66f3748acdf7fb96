"""A store of objects on loopback with the interface of S3, and what Spark needs to keep checkpoints on it."""

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from kafka.broker import free_ports
from kafka.broker_jars import ROOT, SHORT_LIVED, BrokerProblem, Jars, java, lacking
from waiting import wait_until

POMS = ROOT / "tests" / "s3"
SERVER = Jars(POMS / "pom.xml", ROOT / ".kafka" / "s3-jars")
CLIENT = Jars(POMS / "spark" / "pom.xml", ROOT / ".kafka" / "s3a-jars")
SECONDS_TO_START = 120.0
BUCKET = "states"
MANAGER = "org.apache.spark.internal.io.cloud.AbortableStreamBasedCheckpointFileManager"
_KEY, _SECRET = "fluvial", "of the tests"
_QUIET = """<configuration>
  <appender name="out" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%msg%n</pattern></encoder>
  </appender>
  <logger name="org.gaul.s3proxy.S3ProxyHandler" level="DEBUG"/>
  <root level="WARN"><appender-ref ref="out"/></root>
</configuration>
"""
"""A line for each request."""


class ObjectStore:
    """A server that keeps each object as a file of a folder: started again on it, it has the same objects and
    address. There is one bucket, at `url`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.objects = folder / "objects"
        self.output = folder / "output.txt"
        (self._port,) = free_ports(1)
        self.url = f"s3a://{BUCKET}"

    @property
    def settings(self) -> dict[str, str]:
        """What Spark must be told to keep checkpoints there."""
        return {
            "spark.sql.streaming.checkpointFileManagerClass": MANAGER,
            "spark.hadoop.fs.s3a.endpoint": f"http://127.0.0.1:{self._port}",
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": _KEY,
            "spark.hadoop.fs.s3a.secret.key": _SECRET,
        }

    def start(self) -> None:
        """Start it, and return when it answers."""
        properties, quiet = self._folder / "s3.properties", self._folder / "logback.xml"
        self.objects.joinpath(BUCKET).mkdir(parents=True, exist_ok=True)
        told = {
            "s3proxy.endpoint": f"http://127.0.0.1:{self._port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": _KEY,
            "s3proxy.credential": _SECRET,
            "jclouds.provider": "filesystem-nio2",
            "jclouds.identity": "unused",
            "jclouds.credential": "unused",
            "jclouds.filesystem.basedir": str(self.objects),
        }
        properties.write_text("".join(f"{name}={value}\n" for name, value in told.items()))
        quiet.write_text(_QUIET)
        options = [*SHORT_LIVED.split(), f"-Dlogback.configurationFile={quiet}"]
        server = ["org.gaul.s3proxy.Main", "--properties", str(properties)]
        with self.output.open("ab") as output:
            command = [java(), *options, "-cp", f"{SERVER.folder}/*", *server]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        wait_until(lambda: self._answers() or self._process.poll() is not None, "a store", SECONDS_TO_START)
        assert self._process.poll() is None, self.output.read_text()

    def kill(self) -> None:
        """Kill it; what it has acknowledged stays."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Let it answer nothing for a while."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it answer again."""
        os.kill(self._process.pid, signal.SIGCONT)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True
        return False

    def __enter__(self) -> Self:
        if reason := lacking(SERVER):
            pytest.skip(reason)
        try:
            SERVER.fetch()
            CLIENT.fetch()
        except BrokerProblem as problem:
            pytest.skip(str(problem))
        self.start()
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
