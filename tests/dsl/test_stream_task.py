"""Stream tasks as they are declared: what is refused, and where."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains
from fluvial.dsl import ClockTimers, Collector, Envelope, Pipeline, PipelineError, StreamTask, Tag, TaskCoordinator
from fluvial.dsl.stream_task import hooks_of
from fluvial.dsl.task_checks import checked_task

SECOND = timedelta(seconds=1)


class Pass(StreamTask[Any, str, str]):
    """Sends what it is given."""

    shout = Tag("shout", str)

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send(envelope.value)


class Ticking(Pass):
    """Has a method for the clock."""

    def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        """Do nothing."""


class Lazy(StreamTask[Any, str, str]):
    """Handles nothing."""


class Waiting(Pass):
    """Waits for something."""

    async def process(self, *_: Any) -> None:  # type: ignore[override]
        """Do nothing."""


class Yielding(Pass):
    """Gives values back."""

    def process(self, envelope: Any, collector: Any, coordinator: Any) -> Any:
        yield envelope, collector, coordinator


class Short(Pass):
    """Takes too little."""

    def process(self, envelope: Any) -> None:  # type: ignore[override]
        """Do nothing."""


class Clocked(Pass):
    """Has timers."""

    clock = ClockTimers()


@pytest.mark.parametrize(
    ("factory", "wrong", "remedy"),
    [
        (Pass(), "got <", "pass the class"),
        (lambda: 3, "the factory made 3", "write class Mine"),
        (Lazy, "Lazy has no process", "write def process"),
        (Waiting, "Waiting.process is asynchronous", "async_flat_map"),
        (Yielding, "Yielding.process is a generator", "collector.send"),
        (Short, "which cannot be called with 3 arguments", "let it take"),
        (Clocked, "Clocked.clock is a ClockTimers", "write a method window"),
    ],
)
def test_what_is_no_stream_task_is_refused(factory: Any, wrong: str, remedy: str) -> None:
    with pytest.raises(PipelineError) as raised:
        checked_task("task 'x'", factory)
    assert_explains(raised.value, wrong, None, "", remedy)


def add(pipeline: Pipeline, factory: Any = Pass, **options: Any) -> Any:
    keyed = pipeline.stream("words", key=str, value=str)
    return pipeline.task(factory, options.pop("inputs", keyed), id="x", **options)


def with_plain_input(pipeline: Pipeline) -> Any:
    return pipeline.task(Pass, pipeline.stream("words", value=str), id="x", state="key")  # type: ignore[call-overload]


def of_another(pipeline: Pipeline) -> Any:
    del pipeline
    return add(Pipeline("p"), inputs=[Pipeline("q").stream("words", value=str)])


@pytest.mark.parametrize(
    ("write", "wrong", "remedy"),
    [
        (lambda p: add(p, Ticking), 'Ticking.window with state="key"', 'write state="task"'),
        (lambda p: add(p, Ticking, state="task"), "has a method window, and no time is given", "window=timedelta"),
        (lambda p: add(p, window=SECOND, state="task"), "which has no method window", "write def window"),
        (lambda p: add(p, Ticking, window=0, state="task"), "window is 0", "timedelta"),
        (lambda p: add(p, state="none"), "state='none'", 'state="key"'),
        (lambda p: add(p, inputs=[]), "inputs=[]", "pass one"),
        (lambda p: add(p, inputs=["words"]), "inputs= has 'words'", "Pipeline"),
        (lambda p: add(p).tagged(Tag("whisper", str)), "which is no tag of Pass", "declare it"),
        (with_plain_input, 'state="key"', "partition_by"),
        (of_another, "inputs= has MessageStream", "one Pipeline"),
    ],
)
def test_wrong_arguments_are_refused(write: Callable[[Pipeline], Any], wrong: str, remedy: str) -> None:
    with pytest.raises(PipelineError) as raised:
        write(Pipeline("p"))
    assert_explains(raised.value, wrong, None, "", remedy)


def test_a_stream_is_no_input_twice() -> None:
    words = Pipeline("p").stream("words", value=str)
    with pytest.raises(PipelineError, match="a stream is twice among inputs="):
        _pipeline_of(words).task(Pass, [words, words], id="x")


def _pipeline_of(stream: Any) -> Pipeline:
    pipeline = Pipeline(stream._graph.name)
    pipeline._graph = stream._graph
    return pipeline


def test_methods_are_found_by_their_names() -> None:
    assert hooks_of(Pass()) == ()
    assert hooks_of(Ticking()) == ("window",)
