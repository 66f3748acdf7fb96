"""Shipping a plan to Spark's workers: pickled once, unpickled and compiled once a worker process."""

import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pyspark.cloudpickle

from ....dsl.errors import SystemProblem, UnsupportedError
from ....dsl.pipeline import Pipeline
from ....dsl.validation import explain
from ....planner.plan import Plan
from ...kernel.compiler.program import Program, Remotes, compile_stage
from ...kernel.state_cache import Size
from ...kernel.time.stage_input import TimeSource
from ...user_modules import installed_folders, is_hidden, own_paths
from ..query.atomic_file import write
from . import pickling as structs
from .levels import Levels


@dataclass(frozen=True, slots=True)
class ShippedPlan:
    """A plan and its levels as bytes, or the file of them; `digest` tells workers whether they have it already. `paths`
    are the folders where modules are looked for, besides those of installed ones."""

    digest: str
    data: bytes
    file: str = ""
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanBundle:
    """What is in a shipped plan. `cache` is what a bucket may hold decoded besides what has changed. `resets` says how
    often the state of an operator was removed: buckets whose count is less remove theirs."""

    plan: Plan
    levels: Levels
    buckets: int
    cache: Size
    resets: Mapping[str, int] = field(default_factory=dict)

    def program(self, stage: str, remotes: Remotes | None = None) -> Program:
        """A stage, compiled: at level 0 sources tell their own time, further on the engine does."""
        clock: TimeSource = "source" if self.levels.of_stage[stage] == 0 else "given"
        clocks: dict[str, TimeSource] = dict.fromkeys(self.plan.stage(stage).inputs, clock)
        return compile_stage(self.plan, stage, clocks, trailers=False, remotes=remotes)


def pack(bundle: PlanBundle) -> ShippedPlan:
    """Pickle a plan. Functions of modules that workers may not find go along with their code."""
    pipeline = bundle.plan.pipeline
    try:
        with by_value(pipeline):
            data = structs.dumps(bundle)
    except Exception as error:
        wrong = f"pipeline {pipeline.name!r} cannot be sent to Spark's workers: {error}"
        remedy = "make what your functions use (clients, locks, files) inside the functions"
        raise UnsupportedError(explain(wrong, "functions that can be pickled", remedy, pipeline.origin)) from error
    return ShippedPlan(hashlib.sha256(data).hexdigest(), data, paths=tuple(own_paths()))


def write_shipped_plan(shipped: ShippedPlan, folder: Path) -> ShippedPlan:
    """The same plan, with its bytes in a folder that workers see: Spark sends large ones as broadcasts, which not
    all processes that need them can load."""
    file = folder / "shipment"
    write(file, shipped.data)
    return replace(shipped, data=b"", file=str(file.absolute()))


def _read(shipped: ShippedPlan) -> bytes:
    if not shipped.file:
        return shipped.data
    try:
        data = Path(shipped.file).read_bytes()
    except OSError as error:
        raise SystemProblem(
            f"a Spark worker cannot read {shipped.file}: {error}\n"
            "  expected: a folder that every worker sees\n  to do: set state_dir to one, on a disk that they share"
        ) from error
    if hashlib.sha256(data).hexdigest() != shipped.digest:
        raise SystemProblem(
            f"{shipped.file} has changed since the run began\n"
            "  expected: one run of a pipeline at a time\n  to do: stop the other run, and start again"
        )
    return data


@contextmanager
def by_value(pipeline: Pipeline) -> Iterator[None]:
    """Meanwhile, the modules that the pipeline's functions come from are pickled with their code, unless installed."""
    modules = list(_own_modules(pipeline))
    for module in modules:
        _forget_decoders(module)
    sent = [module for module in modules if module.__name__ != "__main__"]
    for module in sent:
        _cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in sent:
            _cloudpickle.unregister_pickle_by_value(module)


_cloudpickle: Any = pyspark.cloudpickle  # has no types
_CACHE = "__msgspec_cache__"
_UNPACKED: dict[str, tuple[PlanBundle, dict[str, Program]]] = {}


def unpack(shipped: ShippedPlan) -> tuple[PlanBundle, dict[str, Program]]:
    """The plan in this worker process, and its programs as far as they are compiled."""
    found = _UNPACKED.get(shipped.digest)
    if found is None:
        # Behind all others: a module of the user's must not take the place of one of Python's in this process.
        sys.path.extend(path for path in shipped.paths if path not in sys.path)
        found = _UNPACKED[shipped.digest] = (_cloudpickle.loads(_read(shipped)), {})
    return found


def program(shipped: ShippedPlan, stage: str) -> Program:
    """A compiled stage, from this process's memory if it was needed before."""
    bundle, programs = unpack(shipped)
    if stage not in programs:
        shared = next((found.remotes for found in programs.values()), None)
        programs[stage] = bundle.program(stage, shared)
    return programs[stage]


def _own_modules(pipeline: Pipeline) -> Iterator[ModuleType]:
    """The user's modules that the pipeline's functions come from, or that workers do not find by their names: not
    installed, not part of Python. What protoc has made is left out, for its classes go along as what they are made of.
    """
    names = {
        name
        for operator in pipeline.operators
        for field in operator.__dataclass_fields__
        for name in _modules_of(getattr(operator, field))
    }
    names |= {name for name, module in sys.modules.items() if is_hidden(name, module)}
    for name in sorted(names):
        module = sys.modules.get(name)
        if module is not None and not _installed(module) and not structs.is_generated(module):
            yield module


def _modules_of(value: Any) -> Iterator[str]:
    """The modules of a function, a class, or the functions in one of our records."""
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
    """Drop what msgspec has noted on the module's classes: it cannot be pickled, and is made anew where needed."""
    for _, found in inspect.getmembers(module, inspect.isclass):
        if _CACHE in vars(found):
            delattr(found, _CACHE)
