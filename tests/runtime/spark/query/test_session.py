"""The session that a run gets: beside those of the user, in a Spark that is there or that it starts."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

from waiting import wait_until

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext, java_gateway
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from engines import sessions
from explained import error_of
from fluvial.dsl import SystemProblem, UsageError
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.spark.query import session as sessions_of_runs
from fluvial.runtime.spark.query.java_process import _Starting, forget_ended_java
from fluvial.runtime.spark.query.session import session_for

of_spark = pytest.mark.spark
TASKS = "spark.sql.shuffle.partitions"


@pytest.fixture
def no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Let a script take the place of the one that starts Java, as if this process had no Java yet."""
    for name in ("_gateway", "_jvm", "_active_spark_context"):
        monkeypatch.setattr(SparkContext, name, None)
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(SparkSession, name, None)
    monkeypatch.setenv("PYTHONPATH", "")  # which a start of Spark sets
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    script = tmp_path / "bin" / "spark-submit"
    script.parent.mkdir()

    def put(text: str) -> Path:
        script.write_text(f"#!/bin/sh\n{text}")
        script.chmod(0o700)
        return script

    return put


@pytest.mark.timeout(60)
def test_java_that_an_interrupt_meets_in_its_start_ends_at_once(no_java: Callable[[str], Path], tmp_path: Path) -> None:
    """However long it would take to come up."""
    noted, main = tmp_path / "process", threading.main_thread().ident or 0
    no_java(f"echo $$ > {noted}.new; mv {noted}.new {noted}; exec sleep 600")

    def interrupt() -> None:
        wait_until(noted.exists, "Java has begun")
        signal.pthread_kill(main, signal.SIGINT)

    module: Any = java_gateway
    popen = module.Popen
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt), session_for(None):
            pytest.fail("there is no Java")
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)
    assert module.Popen is popen


def test_java_that_is_given_up_before_it_is_there_ends_as_soon_as_it_is() -> None:
    starting = _Starting()
    starting.give_up()
    assert starting.popen(["sleep", "600"], start_new_session=True).wait() == -signal.SIGKILL


def test_what_java_says_goes_to_a_file(no_java: Callable[[str], Path]) -> None:
    no_java("echo no Java in sight >&2; exit 1")
    error = error_of(lambda: session_for(None).__enter__(), SystemProblem)
    assert str(error).startswith("Spark does not start: ")
    (name,) = re.findall(r"see what it said in (\S+\.log); Spark needs Java 17", str(error))
    assert Path(name).read_text() == "no Java in sight\n"
    Path(name).unlink()


def test_while_java_starts_whoever_makes_a_session_waits_and_standard_error_is_left_alone(
    no_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_java("exit 1")
    locks: list[Any] = [SparkSession.Builder._lock, SparkContext._lock]
    free, errors = [], []

    def look(*_: Any) -> Any:
        with ThreadPoolExecutor(1) as thread:  # locks of the same thread are free to it
            free.extend(thread.submit(lambda: [lock.acquire(blocking=False) for lock in locks]).result())
        errors.append(os.fstat(2))
        raise OSError("no Java")

    before = os.fstat(2)
    monkeypatch.setattr(java_gateway, "launch_gateway", look)
    error = error_of(lambda: session_for(None).__enter__(), SystemProblem)
    Path(re.findall(r"\S+\.log", str(error))[0]).unlink()
    assert free == [False, False]
    assert errors == [before]


def test_a_session_that_the_user_makes_meanwhile_is_used_and_not_stopped(
    no_java: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_java("exit 1")
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    theirs: Any = SimpleNamespace(sparkContext=SimpleNamespace(master="local[1]", _jsc=java))  # has no `stop`

    def none_at_first() -> None:
        found = iter([None, theirs])

        def active() -> Any:
            if (session := next(found)) is None:
                raise PySparkRuntimeError("none yet")
            return session

        monkeypatch.setattr(SparkSession, "active", active)

    for master in (None, "local[1]"):
        none_at_first()
        with sessions_of_runs._context(master) as session:
            assert session is theirs
    none_at_first()
    error = error_of(lambda: sessions_of_runs._context("local[2]").__enter__(), UsageError)
    assert "where this process has a session of 'local[1]'" in str(error)


class Gateway:
    """The way to a Java: to one that has ended, where there is an error, or that has a process which has."""

    def __init__(self, process: subprocess.Popen[bytes] | None = None, error: Exception | None = None) -> None:
        self.proc, self.error, self.served = process, error, True

    @property
    def jvm(self) -> Any:
        if self.error is not None:
            raise self.error
        return MagicMock()

    def shutdown_callback_server(self, *, raise_exception: bool) -> None:
        self.served = raise_exception


def a_process(command: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([command], stdin=subprocess.PIPE)
    if command == "true":
        process.wait()
    return process


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("error", [None, ConnectionRefusedError(111, "refused"), Py4JNetworkError("no answer")])
def test_a_java_that_has_ended_is_forgotten(error: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    process = a_process("true" if error is None else "cat")  # or it lives, and does not answer
    gateway = Gateway(process, error)
    context = SimpleNamespace(_jsc=MagicMock(), stop=MagicMock())
    monkeypatch.setattr(SparkContext, "_gateway", gateway)
    monkeypatch.setattr(SparkContext, "_active_spark_context", context)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", object())
    assert forget_ended_java()
    left = (SparkContext._gateway, SparkContext._jvm, SparkSession._instantiatedSession, SparkSession._activeSession)
    assert (*left, gateway.served, context._jsc) == (None, None, None, None, False, None)
    context.stop.assert_called_once_with()  # its own threads end
    assert process.wait() == 0  # told to end, if it lives
    assert not forget_ended_java()


@pytest.mark.usefixtures("no_java")
def test_a_java_that_answers_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_process("cat") as process:
        for gateway in (Gateway(process), Gateway()):
            monkeypatch.setattr(SparkContext, "_gateway", gateway)
            assert not forget_ended_java()
            assert SparkContext._gateway is gateway


@of_spark
@pytest.mark.timeout(300)
def test_runs_at_the_same_time_have_their_own_settings_and_change_none_of_the_users(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "7")
    try:
        before = spark.conf.getAll
        with session_for(spark) as one, session_for(spark) as other:
            one.conf.set(TASKS, "3")
            other.conf.set(TASKS, "5")
            assert [session.conf.get(TASKS) for session in (one, other, spark)] == ["3", "5", "2"]
            assert one.conf.get("spark.sql.streaming.minBatchesToRetain") == "7"
        assert spark.conf.getAll == before
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


@of_spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_starts_a_spark_and_finds_those_that_are_there(tmp_path: Path) -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    inherited = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}  # that of the tests
    found = subprocess.run(
        [sys.executable, sessions.__file__, str(tmp_path)],
        env={**inherited, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(Path(sessions.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    seen = [json.loads(line) for line in found.stdout.splitlines()]
    assert seen == [
        [True, True, True],
        [["3", "5"], ["theirs", "FATAL", "false", "local[2]"], 3, True, True, True],
        ["the session handed in as spark= is stopped", {"out": 1}],
        [3, False, {"out": 1}],
    ], found.stderr
