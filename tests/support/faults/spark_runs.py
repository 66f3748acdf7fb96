"""Runs on Spark and Kafka in a process of their own, which can be killed."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from engines import visits_on_spark
from fluvial.planner.settings import Guarantee
from kafka.broker_jars import connector_jars


@contextmanager
def running(name: str, servers: str, state_dir: str, guarantee: Guarantee) -> Iterator["subprocess.Popen[bytes]"]:
    """A run with a session of its own; at the end it is killed, and its Java process along with it."""
    with begun([name, servers, state_dir, guarantee], connector_jars(), {}) as process:
        yield process
        assert process.poll() in (None, 0), process.communicate()[1].decode()


@contextmanager
def begun(
    words: Sequence[str], jars: Sequence[str], settings: Mapping[str, str], program: str = visits_on_spark.__file__
) -> Iterator["subprocess.Popen[bytes]"]:
    """A process of a program with these arguments, and a Spark with these jars and settings; at the end it is killed if
    it has not ended."""
    conf = " ".join(f"--conf {shlex.quote(f'{name}={value}')}" for name, value in settings.items())
    told = {"PYSPARK_SUBMIT_ARGS": f"--jars {','.join(jars)} {conf} pyspark-shell", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, program, *words]
    process = subprocess.Popen(
        command, env={**os.environ, **told}, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
