"""A Spark that ends before a run does: the run ends with a word about it, or quietly where it was to stop anyway."""

import logging
import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from py4j.protocol import Py4JNetworkError

from engines import hosts_until_stopped, spark_until_stopped
from engines.standalone_cluster import below, command
from engines.targets import write
from fluvial.dsl import MessageError, SystemProblem
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.spark.query.java_process import (
    QueryFailed,
    java_end_explained,
    java_killed_if_it_stands_still,
    quiet_accumulators,
)
from fluvial.runtime.systems import LogSystem

LOST = [Py4JNetworkError("Error while receiving"), ConnectionRefusedError(111, "Connection refused"), EOFError()]


@pytest.mark.parametrize("error", [*LOST, QueryFailed("SparkContext was shut down\n at x.scala")])
def test_a_run_that_is_to_stop_ends_quietly(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with java_end_explained(lambda: True):
        raise error
    assert "Spark has ended before its batch did; the next run repeats it" in caplog.text
    assert "x.scala" not in caplog.text


@pytest.mark.parametrize("stopping", [True, False])
@pytest.mark.parametrize("name", [None, "py4j.clientserver"])
@pytest.mark.parametrize("file", ["/py4j/java_gateway.py", "/py4j/clientserver.py"])
def test_what_py4j_says_of_an_interrupted_call_is_left_out_while_a_run_stops(
    name: str | None, file: str, stopping: bool, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger(name)

    def log(file: str) -> None:
        logger.handle(logger.makeRecord(logger.name, logging.ERROR, file, 1, "said in %s", (file,), None))

    with java_end_explained(lambda: stopping):
        log(file)
        log("/users.py")
    assert caplog.messages == ([] if stopping else [f"said in {file}"]) + ["said in /users.py"]
    log(file)
    assert len(caplog.messages) == (2 if stopping else 3)


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize("function", ["send_command", "_call_proxy"])
def test_what_py4j_says_of_a_call_that_the_end_of_java_cuts_off_is_left_out(
    error: Exception, function: str, caplog: pytest.LogCaptureFixture
) -> None:
    logger = logging.getLogger()
    with java_end_explained(lambda: False):
        for raised in (error, ValueError("of the user's")):
            info = (type(raised), raised, None)
            file = "/py4j/java_gateway.py"
            logger.handle(logger.makeRecord("root", logging.ERROR, file, 1, "said", (), info, function))
    # What Java has called is a function of the user's, whatever it raises.
    assert len(caplog.records) == (1 if function == "send_command" else 2)


class OfAccumulators(TCPServer):
    """A server that gets nothing: its handler raises what the test says."""

    def __init__(self, error: Exception) -> None:
        def handler(*_: object) -> BaseRequestHandler:
            raise error

        super().__init__(("127.0.0.1", 0), handler)
        self.timeout = 60


@pytest.mark.parametrize(("error", "printed"), [*((error, False) for error in LOST), (ValueError("token"), True)])
def test_the_server_of_accumulators_prints_nothing_of_the_end_of_java(
    error: Exception, printed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with OfAccumulators(error) as server:
        context: Any = SimpleNamespace(_accumulatorServer=server)
        quiet_accumulators(context)
        with socket.create_connection(server.server_address):  # type: ignore[arg-type]
            server.handle_request()
    assert ("Traceback" in capsys.readouterr().err) == printed


@pytest.mark.parametrize("error", LOST)
def test_a_run_that_is_to_go_on_says_what_is_lost(error: Exception) -> None:
    told = "Spark's Java process does not answer"
    with pytest.raises(SystemProblem, match=told) as raised, java_end_explained(lambda: False):
        raise error
    assert raised.value.__suppress_context__  # the tracebacks of calls that were cut off tell no more


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.long  # the tests above and below show what is told of each error that this leads to
@pytest.mark.timeout(300)
def test_a_java_that_is_killed_under_a_run_is_reported_by_one_error(tmp_path: Path) -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    write(LogSystem(tmp_path / "log", fsync=False), {"in": [[(b"k", b"a", 1, ())]]})
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}  # that of the tests
    words = [sys.executable, spark_until_stopped.__file__, f"log:{tmp_path / 'log'}", "own"]
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    with subprocess.Popen(
        words, env=inherited | own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n"
        (java,) = [child for child in below(process.pid) if command(child).split("\0")[0].endswith("/java")]
        os.kill(java, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert err.count("Traceback") == 1, err
    assert "SystemProblem: Spark's Java process does not answer" in err


@pytest.mark.parametrize("error", [MessageError("map failed"), SystemProblem("a segment is damaged")])
def test_other_errors_are_reported_by_a_run_that_is_to_stop_too(error: Exception) -> None:
    with pytest.raises(type(error)), java_end_explained(lambda: True):
        raise error


class Sleeper:
    """A gateway to a Java process, here one that does nothing."""

    def __init__(self) -> None:
        self.proc = subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE, start_new_session=True)


@pytest.mark.parametrize("raised", [True, False])
def test_a_java_that_does_not_end_with_the_run_is_killed(
    raised: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Sleeper()
    monkeypatch.setattr("pyspark.SparkContext._gateway", gateway)
    with java_killed_if_it_stands_still(seconds=0.05):
        gateway.proc.wait(60)
        if raised:
            raise LOST[0]
    assert gateway.proc.returncode == -signal.SIGKILL
    assert f"Spark's Java process {gateway.proc.pid} did not end within 0.05 s, and was killed" in caplog.text


def test_a_java_that_ends_with_the_run_and_one_of_others_are_left_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    gateway = Sleeper()
    monkeypatch.setattr("pyspark.SparkContext._gateway", gateway)
    with java_killed_if_it_stands_still():
        pass
    with pytest.raises(Py4JNetworkError), java_killed_if_it_stands_still():
        raise LOST[0]
    assert gateway.proc.poll() is None
    gateway.proc.kill()
    gateway.proc.communicate()
    gateway.proc = None  # type: ignore[assignment]
    with java_killed_if_it_stands_still(seconds=0.0):
        pass
    assert not caplog.text


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        pytest.param(hosts_until_stopped, 0, "did not end within 10 s, and was killed", marks=pytest.mark.long),
        pytest.param(spark_until_stopped, 143, "was asked to stop and did not", marks=pytest.mark.long),
    ],
)
def test_a_run_stops_beside_a_java_that_stands_still(program: ModuleType, code: int, said: str, tmp_path: Path) -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    write(LogSystem(tmp_path / "log", fsync=False), {"in": [[(b"k", b"a", 1, ())]]})
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}  # that of the tests
    support = str(Path(spark_until_stopped.__file__).parents[1])
    path = os.pathsep.join(filter(None, [support, os.environ.get("PYTHONPATH")]))
    words = [sys.executable, str(program.__file__), f"log:{tmp_path / 'log'}", "own"]
    own = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    # Its errors go to a file, for Java keeps the pipes open.
    with (
        (tmp_path / "errors").open("w") as errors,
        subprocess.Popen(words, env=inherited | own, stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == "reading\n", (tmp_path / "errors").read_text()
        (java,) = [child for child in below(process.pid) if command(child).split("\0")[0].endswith("/java")]
        os.kill(java, signal.SIGSTOP)
        try:
            process.terminate()
            # Containers stop, jobs get 5 s and Java 10; the rest is for a machine that is busy.
            assert process.wait(timeout=45) == code, (tmp_path / "errors").read_text()
        finally:
            with suppress(ProcessLookupError):
                os.kill(java, signal.SIGKILL)
            process.kill()
    assert said in (tmp_path / "errors").read_text()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("whose", "number"),
    [
        pytest.param("own", signal.SIGINT, marks=pytest.mark.long),  # handled as the next one is
        ("own", signal.SIGTERM),
        pytest.param("theirs", signal.SIGTERM, marks=pytest.mark.long),
    ],
)
def test_a_signal_to_the_whole_group_stops_a_run_quietly(whose: str, number: int, tmp_path: Path) -> None:
    """As Ctrl-C, `timeout` and service managers send it."""
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    write(LogSystem(tmp_path / "log", fsync=False), {"in": [[(b"k", b"a", 1, ())]]})
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}  # that of the tests
    process = subprocess.Popen(
        [sys.executable, spark_until_stopped.__file__, f"log:{tmp_path / 'log'}", whose],
        env={**inherited, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None
        first = process.stdout.readline()
        os.killpg(process.pid, number)
        out, err = process.communicate()
    assert (process.returncode, first, "wrote {'out': 1}" in out) == (0, "reading\n", True), err
    # A Java of the user's gets the signal too: what PySpark itself says of its end is not ours.
    assert ("Traceback" if whose == "own" else "fluvial/runtime/") not in err
