"""Ships a plan, or a pipeline, to Spark's workers: it is pickled once, and each worker process unpickles it once."""

import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyspark.cloudpickle
from pyspark import SparkFiles

from ....dsl.errors import SystemProblem, UnsupportedError
from ....dsl.pipeline import Pipeline
from ....dsl.validation import explain
from ....planner.plan import Plan
from ...kernel.code.program import Clients, Program, RemoteTableClients
from ...kernel.compiler.compiler import compile_stage
from ...kernel.state_cache import Size
from ...kernel.time.stage_input import TimeSource
from ...process.user_modules import installed_folders, is_hidden, own_paths, prefer_own_modules, refuse_taken
from ...size_limit import SizeLimit
from ..atomic_file import write
from ..key_buckets import KeyBuckets
from . import pickling
from .levels import Levels
from .output_columns import OutputColumns
from .shipped_plan import ShippedPlan

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class PlanBundle:
    """All that workers need to know of a query.

    `cache` limits the unchanged state that a bucket keeps decoded. `resets` counts how often an operator's state was
    removed: a bucket with a lower count removes its state of that operator. `limits` are those of the records that
    leave the query, by stream. A client that a worker opens must be open within `open_within`. Messages of the streams
    in `frames` become rows of DataFrames, with these columns. Those of the streams in `by_time` come in no order from
    their producers, and are processed by time. Those of the streams `without_offsets` are rows of DataFrames. Limits of
    calls are divided by the number of `tasks` that a pass has at most.
    """

    plan: Plan
    levels: Levels
    buckets: KeyBuckets
    cache: Size
    resets: Mapping[str, int] = field(default_factory=dict)
    keeps_at_end: bool = True
    limits: Mapping[str, SizeLimit] = field(default_factory=dict)
    open_within: timedelta = timedelta(minutes=5)
    frames: Mapping[str, OutputColumns] = field(default_factory=dict)
    by_time: frozenset[str] = frozenset()
    without_offsets: frozenset[str] = frozenset()
    tasks: int = 1

    def program(self, stage: str, remotes: RemoteTableClients | None = None, clients: Clients | None = None) -> Program:
        """A stage, compiled. At level 0 the messages of a source have their own times; at later levels producers report
        watermarks."""
        clock: TimeSource = "source" if self.levels.of_stage[stage] == 0 else "given"
        clocks: dict[str, TimeSource] = dict.fromkeys(self.plan.stage(stage).inputs, clock)
        return compile_stage(
            self.plan,
            stage,
            clocks,
            trailers=False,
            remotes=remotes,
            limits=self.limits,
            clients=clients,
            by_time=self.by_time,
            without_offsets=self.without_offsets,
        )


def pack(bundle: PlanBundle) -> ShippedPlan:
    """Pickle a plan. Functions of modules that workers may not have are pickled with their code."""
    return _packed(bundle, bundle.plan.pipeline)


def pack_pipeline(pipeline: Pipeline) -> ShippedPlan:
    """Pickle a pipeline without a plan, for a process that makes its own."""
    return _packed(pipeline, pipeline)


def _packed(value: object, pipeline: Pipeline) -> ShippedPlan:
    refuse_taken(_own_modules(pipeline), own_paths())
    try:
        with by_value(pipeline):
            data = _made_by() + pickling.dumps(value)
    except Exception as error:
        wrong = f"pipeline {pipeline.name!r} cannot be sent to Spark's workers: {error}"
        remedy = "hand clients to functions by resource(factory); make locks and files inside the functions"
        raise UnsupportedError(explain(wrong, "functions that can be pickled", remedy, pipeline.origin)) from error
    return ShippedPlan(hashlib.sha256(data).hexdigest(), data, paths=tuple(own_paths()))


def add_shipped_plan(shipped: ShippedPlan, session: "SparkSession") -> ShippedPlan:
    """Let Spark bring the bytes of a plan to all its Python processes as a file, and return the plan with the name of
    that file. Spark would send large bytes as a broadcast, which not all of these processes can load."""
    context: Any = session.sparkContext
    # Spark removes this folder when it stops; until then a new executor may ask for the file.
    local = Path(context._temp_dir, f"fluvial-{shipped.digest}")
    if not local.exists():
        write(local, shipped.data)
    context.addFile(str(local))
    return replace(shipped, data=b"", file=local.name)


def _read(shipped: ShippedPlan) -> bytes:
    if not shipped.file:
        return shipped.data
    file = SparkFiles.get(shipped.file)
    try:
        data = Path(file).read_bytes()
    except OSError as error:
        wrong = f"a Spark worker cannot read {file}: {error}"
        remedy = "see whether its disk is full, and the log of the executor"
        raise SystemProblem(explain(wrong, "the file that Spark has brought it", remedy, file)) from error
    if hashlib.sha256(data).hexdigest() != shipped.digest:
        wrong, remedy = f"{file} is not as Spark was given it", "start again; look after the disk of the worker"
        raise SystemProblem(explain(wrong, "the file that Spark has brought", remedy, file))
    return data


@contextmanager
def by_value(pipeline: Pipeline) -> Iterator[None]:
    """Within this context the modules of the pipeline's functions are pickled with their code, unless installed."""
    modules = list(_own_modules(pipeline))
    for module in modules:
        _forget_decoders(module)
    registered = [module for module in modules if module.__name__ != "__main__"]
    for module in registered:
        _cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in registered:
            _cloudpickle.unregister_pickle_by_value(module)


_cloudpickle: Any = pyspark.cloudpickle  # has no types
_CACHE = "__msgspec_cache__"
_UNPACKED: dict[str, tuple[PlanBundle, dict[str, Program]]] = {}


def unpack(shipped: ShippedPlan) -> tuple[PlanBundle, dict[str, Program]]:
    """The plan in this worker process, and the programs that are compiled so far, by stage."""
    unpacked = _UNPACKED.get(shipped.digest)
    if unpacked is None:
        unpacked = _UNPACKED[shipped.digest] = (_unpacked(shipped), {})
    return unpacked


def unpack_pipeline(shipped: ShippedPlan) -> Pipeline:
    """The pipeline that `pack_pipeline` has pickled, in another process. Raises UnsupportedError if what its functions
    need is not there."""
    try:
        pipeline: Pipeline = _unpacked(shipped)
    except (ImportError, AttributeError) as error:
        wrong = f"the pipeline cannot be loaded here: {error}"
        remedy = "install what it imports on every worker, or bring it there with spark.submit.pyFiles"
        raise UnsupportedError(explain(wrong, "the modules that it imports", remedy, sys.prefix)) from error
    return pipeline


def _unpacked(shipped: ShippedPlan) -> Any:
    # At the end of the path: a module of the user's must not hide one of Python's in this process.
    sys.path.extend(path for path in shipped.paths if path not in sys.path)
    prefer_own_modules(shipped.paths)
    return _cloudpickle.loads(_pickled(_read(shipped)))


def _made_by() -> bytes:
    """The line in front of a pickled plan: by which version it was made."""
    return f"fluvial {version('fluvial')}\n".encode()


def _pickled(data: bytes) -> bytes:
    """The pickle behind the line of its version. Raises SystemProblem if this process has another version."""
    line, end, pickled = data.partition(b"\n")
    if line + end != _made_by():
        here, there = (version.decode(errors="replace").strip() for version in (_made_by(), line))
        wrong = f"a Python process of Spark's has {here}, and the run was started with {there}"
        remedy = "install the same version on the driver and on every worker"
        raise SystemProblem(explain(wrong, "one version of Fluvial", remedy, sys.prefix))
    return pickled


def forget(digest: str) -> None:
    """Remove a plan from this worker process. If it comes again, it is unpickled again."""
    _UNPACKED.pop(digest, None)


def program(shipped: ShippedPlan, stage: str, clients: Clients) -> Program:
    """A compiled stage, whose functions are given `clients`. This process compiles it at the first call."""
    bundle, programs = unpack(shipped)
    if stage not in programs:
        shared = next((program.remotes for program in programs.values()), None)
        programs[stage] = bundle.program(stage, shared, clients)
    return programs[stage]


def _own_modules(pipeline: Pipeline) -> Iterator[ModuleType]:
    """The user's modules that the pipeline's functions come from, or that workers cannot import by name. Modules that
    are installed or part of Python are left out; so are modules that protoc has generated, whose classes are pickled as
    their descriptions."""
    names = {
        name
        for operator in pipeline.operators
        for field in operator.__dataclass_fields__
        for name in _modules_of(getattr(operator, field))
    }
    names |= {name for name, module in sys.modules.items() if is_hidden(name, module)}
    for name in sorted(names):
        module = sys.modules.get(name)
        if module is not None and not _installed(module) and not pickling.is_generated(module):
            yield module


def _modules_of(value: Any) -> Iterator[str]:
    """The modules of a function, of a class, or of the functions in a record of Fluvial's."""
    if getattr(type(value), "__module__", "").startswith("fluvial.") and hasattr(value, "__dataclass_fields__"):
        for field in value.__dataclass_fields__:
            yield from _modules_of(getattr(value, field))
        return
    name = getattr(value, "__module__", None) or type(value).__module__
    if isinstance(name, str) and not name.startswith("fluvial."):
        yield name


def _installed(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return module.__name__ != "__main__" and (file is None or file.startswith(installed_folders()))


def _forget_decoders(module: ModuleType) -> None:
    """Remove msgspec's caches from the module's classes. They cannot be pickled, and msgspec makes them again."""
    for _, kind in inspect.getmembers(module, inspect.isclass):
        if _CACHE in vars(kind):
            delattr(kind, _CACHE)
