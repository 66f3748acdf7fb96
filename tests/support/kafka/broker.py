"""A real Kafka broker, alone on this machine: for tests, benchmarks, and `make broker`."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from base64 import urlsafe_b64encode
from contextlib import ExitStack, suppress
from pathlib import Path
from random import SystemRandom
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Self
from uuid import uuid4
from zlib import crc32

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewPartitions, NewTopic

from kafka.broker_jars import BROKER, CLASSES, BrokerProblem, java
from waiting import wait_until

PROPERTIES = Path(__file__).parents[2] / "kafka" / "server.properties"

FORMATTED = BROKER.folder / f"formatted-{crc32(PROPERTIES.read_bytes()):x}"
"""The data of a broker with these properties that has not started yet."""

SECONDS_TO_START = 60.0
SECONDS_TO_STOP = 30.0
CLUSTER = urlsafe_b64encode(b"fluvial-broker-1").decode().rstrip("=")
MEMORY = ("-Xms256m", "-Xmx512m")

UNDER_LOAD = ("--override", "broker.session.timeout.ms=60000")
"""Where load leaves it no time to tell that it is alive, it would take itself for dead after the 3 s of the tests."""


def free_ports(wanted: int) -> list[int]:
    """Ports of loopback that nobody listens on.

    They lie below those that systems give to connections: else, while the broker is down, a client that tries to
    reach it can be given that very port, and be connected to itself.
    """
    found: list[int] = []
    with ExitStack() as held:
        while len(found) < wanted:
            port = SystemRandom().randrange(20_000, 32_000)
            listener = held.enter_context(socket.socket())
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
    return found


class Broker:
    """A broker that keeps all it has in a folder: started again on the folder, it has the same data and address. One
    that is `loaded` may be slow to answer, and to start again after a crash. It is killed where its block ends, unless
    it was stopped in it: with the topics of many tests it takes half a minute to close them."""

    def __init__(self, folder: Path, *, loaded: bool = False) -> None:
        self.output = folder / "output.txt"
        self._more = UNDER_LOAD if loaded else ()
        self._properties = folder / "server.properties"
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where clients find it: their `bootstrap.servers`."""
        lines = self._properties.read_text().splitlines()
        listeners = next(line for line in lines if line.startswith("listeners="))
        return listeners.removeprefix("listeners=PLAINTEXT://").partition(",")[0]

    def start(self) -> None:
        """Start it, and return when it answers."""
        BROKER.fetch()
        if not (self._data / "meta.properties").exists():
            self._format()
        self._refuse_a_second()
        with self.output.open("ab") as output:
            command = self._java("kafka.Kafka", str(self._properties), *self._more)
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            self._wait_for_answer(self._process)
        except BaseException:
            self.kill()
            raise

    def come_back(self) -> None:
        """Let it run again, whether it was killed, stopped or paused."""
        if self._process is None:
            self.start()
        self.resume()

    def stop(self) -> None:
        """Let it end well; as hard as needed where it does not."""
        if self._process is not None:
            self.resume()
            self._process.terminate()
            try:
                self._process.wait(SECONDS_TO_STOP)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """Take it away without a warning, as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Let it stand still: it keeps its connections, and answers nobody."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)
            # The signal is on its way until then, and the broker answers.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Let it go on."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)

    def wait_for_answer(self) -> None:
        """Return when it answers, which it may need time for once it goes on."""
        if self._process is not None:
            self._wait_for_answer(self._process)

    def watch(self) -> None:
        """Wait for as long as it runs; that it ended by itself is a problem."""
        if self._process is not None:
            raise BrokerProblem(self._with_tail(f"the broker ended with {self._process.wait()}"))

    def make_topic(self, partitions: int = 1, **config: str) -> str:
        """A new topic, by a name that no other has; settings are written with `_` for `.`."""
        name = f"topic-{uuid4().hex[:12]}"
        settings = {setting.replace("_", "."): value for setting, value in config.items()}
        topic = NewTopic(name, partitions, replication_factor=1, config=settings)
        admin = AdminClient({"bootstrap.servers": self.address})  # held: what it was asked for ends with it
        admin.create_topics([topic])[name].result()
        # The controller answers before the broker knows the topic.

        def known() -> bool:
            return admin.list_topics(name, timeout=SECONDS_TO_START).topics[name].error is None

        wait_until(known, f"the broker knows the topic {name}", SECONDS_TO_START)
        return name

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, so many altogether."""
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_partitions([NewPartitions(name, partitions)])[name].result()

    def change(self, topic: str, **config: str) -> None:
        """Change settings of a topic; they are written with `_` for `.`."""
        entries = [
            ConfigEntry(setting.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for setting, value in config.items()
        ]
        admin = AdminClient({"bootstrap.servers": self.address})
        resource = ConfigResource("topic", topic, incremental_configs=entries)
        admin.incremental_alter_configs([resource])[resource].result()

    def settings_of(self, topic: str) -> dict[str, str]:
        """The settings of a topic."""
        admin = AdminClient({"bootstrap.servers": self.address})
        (asked,) = admin.describe_configs([ConfigResource("topic", topic)]).values()
        return {name: entry.value for name, entry in asked.result().items()}

    def remove_topics(self, *names: str) -> None:
        """Remove those of these topics that exist; returns when they are gone."""
        admin = AdminClient({"bootstrap.servers": self.address})

        def left() -> list[str]:
            return [name for name in names if name in admin.list_topics(timeout=SECONDS_TO_START).topics]

        there = left()
        for removed in (admin.delete_topics(there) if there else {}).values():
            removed.result()
        wait_until(lambda: not left(), "the topics are gone", SECONDS_TO_START)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _format(self) -> None:
        self._data.mkdir(parents=True, exist_ok=True)
        clients, controller = free_ports(2)
        filled = PROPERTIES.read_text().format(clients=clients, controller=controller, data=self._data)
        self._properties.write_text(filled)
        if FORMATTED.exists():
            shutil.copytree(FORMATTED, self._data, dirs_exist_ok=True)
            return
        words = ("kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", str(self._properties))
        with self.output.open("ab") as output:
            done = subprocess.run(self._java(*words), stdout=output, stderr=output, check=False)
        if done.returncode:
            raise BrokerProblem(self._with_tail("the broker's folder could not be formatted"))
        self._keep_formatted()

    def _keep_formatted(self) -> None:
        """Keep what it has begun with for others, whose folders are the same: to format one takes a Java of its own."""
        with TemporaryDirectory(dir=FORMATTED.parent) as folder:
            copy = shutil.copytree(self._data, Path(folder) / "data")
            with suppress(OSError):  # another broker has kept its own meanwhile
                copy.rename(FORMATTED)

    def _refuse_a_second(self) -> None:
        host, _, port = self.address.partition(":")
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have ended do not count
            try:
                probe.bind((host, int(port)))
            except OSError as error:
                raise BrokerProblem(f"{self.address} is taken: is there a broker on this folder already?") from error

    def _java(self, *words: str) -> list[str]:
        more = os.environ.get("KAFKA_OPTS", "").split()  # as Kafka's own scripts take it
        loaded = [f"-XX:SharedArchiveFile={CLASSES}"] if CLASSES.exists() else []
        return [java(), *MEMORY, *loaded, *more, "-Dlog4j2.level=INFO", "-cp", f"{BROKER.folder}/*", *words]

    def _wait_for_answer(self, process: subprocess.Popen[bytes]) -> None:
        admin = AdminClient({"bootstrap.servers": self.address, "log_level": 0, "reconnect.backoff.max.ms": 200})
        deadline = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise BrokerProblem(self._with_tail(f"the broker ended with {process.returncode} instead of answering"))
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except KafkaException:
                continue
        raise BrokerProblem(self._with_tail(f"the broker did not answer in {SECONDS_TO_START:.0f} s"))

    def _with_tail(self, wrong: str) -> str:
        tail = self.output.read_text(errors="replace").splitlines()[-40:]
        return "\n".join([f"{wrong}; the end of {self.output}:", *tail])


def serve(folder: Path) -> None:
    """A broker for a developer, until Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with Broker(folder) as broker:
        print(f"bootstrap.servers={broker.address}  (data and output in {folder}; Ctrl-C ends it)", flush=True)
        try:
            broker.watch()
        finally:
            broker.stop()


if __name__ == "__main__":
    try:
        serve(Path(sys.argv[1]).resolve())
    except KeyboardInterrupt:
        pass
    except BrokerProblem as problem:
        sys.exit(str(problem))
