"""Batch jobs on a server of Spark Connect; what needs Java in the process of the run is refused by name."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from engines import on_connect
from fluvial.runtime.preflight.requirements import missing
from waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

pytest.importorskip("pyspark", reason="the engine needs pyspark")
pytest.importorskip("grpc", reason="Spark Connect needs grpcio")
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The URL of a server on a free port of this machine."""
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    conf = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.warehouse.dir": str(tmp_path),
    }
    (home,) = find_spec("pyspark").submodule_search_locations  # type: ignore[union-attr, misc]
    submit = str(Path(home, "bin", "spark-submit"))
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [submit, "--master", "local[2]", *options, "--class", SERVER, "spark-internal"]
    log, environment = tmp_path / "server.log", os.environ | {"PYSPARK_PYTHON": sys.executable}
    with (
        log.open("wb") as file,
        subprocess.Popen(command, stdout=file, stderr=file, cwd=tmp_path, env=environment) as process,
    ):
        try:
            wait_until(lambda: _answers(port) or process.poll() is not None, "a server of Spark Connect")
            assert process.poll() is None, log.read_text()
            yield f"sc://127.0.0.1:{port}"
        finally:
            process.terminate()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def test_a_batch_job_runs_on_a_server_and_streaming_queries_are_refused(server: str) -> None:
    command = [sys.executable, on_connect.__file__, server]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "counts": [20] * 15,
        "users": 300,
        "read": 300,
        "summed": 300,
        "tasks": [["done", "None"], ["running", "None"]],
        "streams": True,
        "streaming": "UnsupportedError: inputs: 'clicks' is a streaming DataFrame of Spark Connect, by which a run "
        "cannot tell Spark's tasks the time of each batch",
        "system": "UsageError: spark=<pyspark.sql.connect.session.SparkSession object>",
    }
