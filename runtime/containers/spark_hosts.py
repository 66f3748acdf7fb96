"""Spark as the cluster that containers run on."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from ...dsl.errors import SystemProblem
from ...dsl.pipeline import Pipeline
from ...dsl.validation import explain
from ...planner.settings import Settings
from ..spark.lowering.packaging import pack_pipeline
from ..spark.lowering.shipped_plan import ShippedPlan
from ..spark.task_jobs import task_jobs
from .child_process import ChildConfig
from .cluster_task import run_order
from .remote_children import RemoteChildren
from .running_child import Say, Starting


@contextmanager
def spark_hosts(spark: Any, argument: str, pipeline: Pipeline, settings: Settings, say: Say) -> Iterator[Starting]:
    """Let containers run on a cluster of Spark's, while the context is open. `spark` is a session or the URL of a
    master, which the user has given as `argument`. A core must be there for each within `settings.stall_timeout`.

    Raises UnsupportedError for a pipeline that cannot be sent to workers, and an error for a Spark that cannot be used.
    """
    shipped = pack_pipeline(pipeline)
    with task_jobs(spark, argument, run_order) as (jobs, address):  # pragma: no cover - starts Spark
        patience = settings.stall_timeout.total_seconds()
        fit = partial(fitted, shipped, Path.cwd())
        with listening(address.host, address.port) as listener:
            yield RemoteChildren(jobs, listener, address.known_as, patience, say, fitted=fit).serving()


def listening(host: str, port: int) -> socket.socket:
    """A socket to which tasks can connect. Raises SystemProblem if this machine has no such address, or another process
    uses the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        wrong = f"the driver cannot listen for its containers at {host}:{port}: {error}"
        expected = "an address of this machine, and a port that is free"
        remedy = "correct spark.driver.bindAddress, or else spark.driver.host; or spark.fluvial.port"
        raise SystemProblem(explain(wrong, expected, remedy)) from error


def fitted(shipped: ShippedPlan, folder: Path, config: ChildConfig) -> ChildConfig:
    """What a child on another machine is to run: the pipeline comes along, and paths of a log are whole, since its
    current folder is another one than `folder`, that of this process."""
    config = replace(config, target="", shipped=shipped)
    scheme, _, directory = config.system.url.partition(":")
    if scheme != "log":
        return config
    state = config.settings.state_dir
    settings = replace(config.settings, state_dir=None if state is None else str(folder / state))
    return replace(config, system=replace(config.system, url=f"log:{folder / directory}"), settings=settings)
