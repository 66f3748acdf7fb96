"""A standalone cluster of Spark's on this machine: a master and workers, which bind to loopback and can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from engines.spark_home import java_options, spark_home
from kafka.broker import free_ports
from kafka.broker_jars import java
from waiting import wait_until

SECONDS_TO_START = 60.0
LOOPBACK = "127.0.0.1"
_CLASSES = "org.apache.spark.deploy"
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


class StandaloneCluster:
    """A cluster with a folder of its own. Each worker has `cores` cores; programs reach it at `master`."""

    def __init__(self, folder: Path, *, workers: int = 2, cores: int = 2) -> None:
        self._folder, self._workers, self._cores = folder, workers, cores
        (port,) = free_ports(1)
        self.master = f"spark://{LOOPBACK}:{port}"
        self._port = port
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        try:
            arguments = ("--host", LOOPBACK, "--port", str(self._port), "--webui-port", "0")
            self._start("master", f"{_CLASSES}.master.Master", *arguments)
            self._wait_for("master", "I have been elected leader")
            self.mend()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def mend(self) -> None:
        """Start each worker that does not run."""
        missing = [name for name in self.workers if name not in self._processes or self._has_ended(name)]
        for name in missing:
            address = ("--host", LOOPBACK, "--webui-port", "0", "--work-dir", str(self._folder / name))
            size = ("--cores", str(self._cores), "--memory", "2g")
            self._start(name, f"{_CLASSES}.worker.Worker", self.master, *address, *size)
        for name in missing:
            self._wait_for(name, "Successfully registered with master")

    @property
    def workers(self) -> list[str]:
        """The names of the workers."""
        return [f"worker-{number}" for number in range(self._workers)]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of a program that uses the cluster."""
        return {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable}

    def executors(self, worker: str) -> list[int]:
        """The processes of the executors of a worker."""
        return [one for one in _children(self._processes[worker].pid) if _EXECUTOR in command(one)]

    def worker_of(self, process: int) -> str:
        """The worker below which a process runs."""
        by_process = {running.pid: name for name, running in self._processes.items()}
        while process not in by_process:
            assert process > 1, "it runs below no worker of this cluster"
            process = parent(process)
        return by_process[process]

    def lose(self, worker: str) -> None:
        """Kill a worker with all that runs below it, as if its machine had lost power."""
        pid = self._processes[worker].pid
        os.kill(pid, signal.SIGSTOP)  # else it would start what is killed again
        for process in [*below(pid)]:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.kill(worker)

    def kill(self, name: str) -> None:
        """Kill a worker alone, or the master; executors of a worker see it and end."""
        self._processes[name].kill()
        self._processes[name].wait()

    def _start(self, name: str, program: str, *arguments: str) -> None:
        home = spark_home()
        assert home is not None
        # As Spark's own scripts say it; without the version its workers find no jars for executors.
        told = {**os.environ, **self.environment, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
        command = [java(), *java_options().split(), "-Xmx256m", "-cp", f"{home}/jars/*", program, *arguments]
        with self._log(name).open("wb") as log:
            self._processes[name] = subprocess.Popen(
                command, env=told, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _has_ended(self, name: str) -> bool:
        return self._processes[name].poll() is not None

    def _wait_for(self, name: str, words: str) -> None:
        def said() -> bool:
            return words in self._log(name).read_text(errors="replace")

        wait_until(lambda: said() or self._has_ended(name), f"{name} runs", SECONDS_TO_START)
        assert not self._has_ended(name), self._log(name).read_text(errors="replace")

    def _end(self) -> None:
        for name, process in reversed(self._processes.items()):
            if process.poll() is None:
                if name in self.workers:
                    self.lose(name)
                else:
                    self.kill(name)


def parent(process: int) -> int:
    """The parent of a process."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def _children(process: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if parent(int(folder.name)) == process:
                found.append(int(folder.name))
    return found


def below(process: int) -> Iterator[int]:
    """The children of a process, and theirs."""
    for child in _children(process):
        yield child
        yield from below(child)


def command(process: int) -> str:
    """The command line of a process; empty if there is none."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""
