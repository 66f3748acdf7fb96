"""Checks of stream tasks, made where the user hands them to `Pipeline.task`."""

from datetime import timedelta
from typing import Any

from .async_stream_task import AsyncStreamTask, check_async_task
from .errors import PipelineError
from .functions import check_call, is_asynchronous, is_generator
from .keyed_state import HoldsStates
from .processor import check_attributes, clock_of
from .stream_task import OF_THE_TASK, StreamTask, hooks_of
from .validation import explain, flag, millis, require


def checked_task(what: str, factory: Any) -> HoldsStates:
    """A stream task that a factory makes, refused unless it can be put to work."""
    remedy = "pass the class, or a function without arguments that makes one"
    require(callable(factory), PipelineError, f"{what} got {factory!r}", "a factory of StreamTasks", remedy)
    check_call(what, factory)
    task = factory()
    name = type(task).__name__
    remedy = "write class Mine(StreamTask[str, int, int]) with process"
    wrong = f"{what}: the factory made {task!r}"
    good = isinstance(task, StreamTask | AsyncStreamTask)
    require(good, PipelineError, wrong, "a StreamTask, or an AsyncStreamTask", remedy)
    if isinstance(task, AsyncStreamTask):
        check_async_task(what, task)
        _check_methods(what, task, hooks_of(task))
    else:
        remedy = "write def process(self, envelope, collector, coordinator)"
        has_process = type(task).process is not StreamTask.process
        require(has_process, PipelineError, f"{what}: {name} has no process", "a method process", remedy)
        _check_methods(what, task, ("process", *hooks_of(task)))
    check_attributes(what, task)
    clock = clock_of(task)
    remedy = "write a method window, and window=timedelta(...); or use process, whose class may have timers"
    wrong = f"{what}: {name}.{clock} is a ClockTimers"
    require(clock is None, PipelineError, wrong, "a StreamTask without timers", remedy)
    checked: HoldsStates = task
    return checked


def _check_methods(what: str, task: Any, methods: tuple[str, ...]) -> None:
    takes: dict[str, tuple[str, ...]] = dict.fromkeys(OF_THE_TASK, ("collector", "coordinator"))
    takes |= {"process": ("envelope", "collector", "coordinator"), "init": ("context",), "close": ()}
    for name in methods:
        method = getattr(task, name)
        wrong, remedy = f"{what}: {type(task).__name__}.{name}", "send values with collector.send(value)"
        require(not is_generator(method), PipelineError, f"{wrong} is a generator", "a plain function", remedy)
        remedy = "derive the class from AsyncStreamTask, whose process is; or make calls with async_flat_map before"
        require(not is_asynchronous(method), PipelineError, f"{wrong} is asynchronous", "a plain function", remedy)
        check_call(f"{what}: {name}", method, *takes[name], of="a method")


def check_window(what: str, task: HoldsStates, window: timedelta | None) -> int | None:
    """The time between two calls of `window`, in ms. Refused where the class has no such method, or no time stands."""
    name = type(task).__name__
    ticks = "window" in hooks_of(task)
    if window is None:
        wrong, remedy = f"{what}: {name} has a method window, and no time is given", "write window=timedelta(...)"
        require(not ticks, PipelineError, wrong, "the time between two calls", remedy)
        return None
    remedy = "write def window(self, collector, coordinator), or leave out window="
    require(ticks, PipelineError, f"{what}: window= and {name}, which has no method window", "a method window", remedy)
    return millis(f"{what}: window", window, least=1)


def check_exclusive(what: str, task: HoldsStates, exclusive: Any) -> bool:
    """Whether messages wait for what `window` sends. Refused where the class has no such method."""
    flag(f"{what}: exclusive", exclusive)
    wrong = f"{what}: exclusive=False and {type(task).__name__}, which has no method window"
    good, remedy = exclusive or "window" in hooks_of(task), "leave out exclusive=: it is for what window sends"
    require(good, PipelineError, wrong, "a method window", remedy)
    return bool(exclusive)


def check_by_key(what: str, task: HoldsStates) -> None:
    """Refuse methods of the whole task where state is by key: they would have no key at hand."""
    for name in hooks_of(task):
        if name in OF_THE_TASK:
            wrong = f'{what}: {type(task).__name__}.{name} with state="key", and no key is at hand there'
            remedy = 'write state="task"; or use process, whose timers are by key'
            raise PipelineError(explain(wrong, "process, init and close alone", remedy))
