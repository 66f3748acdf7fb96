"""Runs on Spark and Kafka in a process of their own, which can be killed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from engines import visits_on_spark
from fluvial.planner.settings import Guarantee
from kafka.broker_jars import connector_jars


@contextmanager
def running(name: str, servers: str, state_dir: str, guarantee: Guarantee) -> Iterator["subprocess.Popen[bytes]"]:
    """A run with a session of its own; at the end it is killed, and its Java process along with it."""
    jars = ",".join(connector_jars())
    told = {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell", "SPARK_LOCAL_IP": "127.0.0.1"}
    command = [sys.executable, visits_on_spark.__file__, name, servers, state_dir, guarantee]
    process = subprocess.Popen(
        command, env={**os.environ, **told}, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with process:
        try:
            yield process
            assert process.poll() in (None, 0), process.communicate()[1].decode()
        finally:
            os.killpg(process.pid, signal.SIGKILL)
