"""Inputs that are deleted and made anew, or get more partitions, between runs and while one goes on."""

import logging
import time
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

import pytest
from msgspec.structs import replace

from engines.sending import ProducingAdmin, ProducingSystem, stores_of
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem, UnsupportedError, UsageError, count, tumbling
from fluvial.planner import Settings, plan
from fluvial.runtime import reset, run
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.checkpoints.checkpoint import decode, encode
from fluvial.runtime.local.coordination import exclusion
from fluvial.runtime.preflight import input_streams
from fluvial.runtime.preflight.input_streams import InputStreamMonitor
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import StreamDescription
from fluvial.runtime.systems.errors import OffsetOutside, offset_outside
from generators.counters import Counter


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "ANSWER_SECONDS", 0.05)


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return pipeline


def counting() -> Pipeline:
    """Its second stage reads the stream "p-by", and keeps state."""
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str)
    keyed.window(tumbling(timedelta(days=1)), count(), id="n").map(lambda pane: pane.value).send_to("out")
    return pipeline


def numbering() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).process(Counter(), id="n").send_to("out")
    return pipeline


def add(system: ProducingSystem, *texts: str) -> None:
    write(system, {"in": [[(b"k", text.encode(), 0, ()) for text in texts]]})


def written(system: ProducingSystem) -> Sequence[bytes | None]:
    return [record[1] for record in contents(system, "out")]


def remake(system: ProducingSystem, stream: str) -> None:
    system.admin().remove(stream)
    system.admin().create(stream, 1)


def test_an_input_that_was_made_anew_is_refused_before_anything_is_written() -> None:
    system = ProducingSystem()
    add(system, "a", "b")
    run(copying(), system=system, until="end")
    remake(system, "in")
    add(system, "x", "y", "z")
    kept = system.admin().checkpoints("p")
    error = error_of(lambda: run(copying(), system=system, until="end"), SystemProblem)
    wrong = "the stream 'in' of memory: is not the one that pipeline 'p' has read: it was deleted and created again"
    assert_explains(
        error, wrong, copying, "the stream that the stored offsets belong to", "--stream in --keep-offsets", 2
    )
    assert (written(system), system.admin().checkpoints("p")) == ([b"a", b"b"], kept)


@pytest.mark.parametrize("stream", ["in", "p-by"])
def test_so_is_a_stream_between_stages_and_the_input_of_one_that_keeps_state(stream: str) -> None:
    system = ProducingSystem()
    with stores_of(system):
        add(system, "a")
        run(counting(), system=system, until="end")
        remake(system, stream)
        with pytest.raises(SystemProblem, match=f"the stream '{stream}' of memory: is not the one"):
            run(counting(), system=system, until="end")


def test_a_stream_between_stages_that_is_gone_is_not_made_again() -> None:
    system = ProducingSystem()
    with stores_of(system):
        add(system, "a")
        run(counting(), system=system, until="end")
        system.admin().remove("p-by")
        with pytest.raises(SystemProblem, match="the stream 'p-by' of memory: is not the one"):
            run(counting(), system=system, until="end")
    assert system.admin().partitions("p-by") is None


def forget_identities(system: ProducingSystem) -> None:
    """Leave the checkpoints that a version without them would have left."""
    kept = {task: decode(data, task) for task, data in system.admin().checkpoints("p").items()}
    old = {task: encode(replace(found, identities={})) for task, found in kept.items()}
    system.producer().begin().commit("p", old)


def test_checkpoints_of_a_version_that_kept_no_ids_are_adopted_by_the_next_run() -> None:
    system = ProducingSystem()
    add(system, "a")
    run(copying(), system=system, until="end")
    forget_identities(system)
    run(copying(), system=system, until="end")
    assert decode(system.admin().checkpoints("p")["in/0"], "in/0").identities == {"in": "in/0"}


class _Described(ProducingSystem):
    """A system that describes its streams as it is told to."""

    def __init__(self, describe: Callable[[Collection[str]], dict[str, StreamDescription]]) -> None:
        super().__init__()
        self.describe = describe

    def admin(self) -> ProducingAdmin:
        return _DescribedAdmin(self, self.describe)


class _DescribedAdmin(ProducingAdmin):
    def __init__(self, system: ProducingSystem, describe: Callable[..., dict[str, StreamDescription]]) -> None:
        super().__init__(system)
        self._describe = describe

    def describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        return self._describe(streams)


def test_a_system_that_tells_no_ids_is_taken_at_its_word() -> None:
    system = _Described(lambda streams: {name: StreamDescription("", 1) for name in streams})
    add(system, "a")
    run(copying(), system=system, until="end")
    add(system, "b")
    assert run(copying(), system=system, until="end").read == {"in": 1}


def test_a_new_stream_is_read_from_its_start_after_a_reset_and_state_is_kept() -> None:
    system = ProducingSystem()
    with stores_of(system):
        add(system, "a", "a")
        run(numbering(), system=system, until="end")
        remake(system, "in")
        add(system, "a", "a", "a")
        assert [str(step) for step in reset(numbering(), inputs=["in"], system=system)] == ["offset of in in in/0"]
        run(numbering(), system=system, until="end")
    assert written(system) == [b"1", b"2", b"3", b"4", b"5"]


def test_a_stream_that_holds_the_same_messages_is_gone_on_with() -> None:
    system = ProducingSystem()
    add(system, "a", "b")
    run(copying(), system=system, until="end")
    remake(system, "in")
    add(system, "a", "b", "c")
    reset(copying(), inputs=["in"], keep_offsets=True, system=system)
    run(copying(), system=system, until="end")
    assert written(system) == [b"a", b"b", b"c"]


def test_what_cannot_be_reset_is_refused() -> None:
    with pytest.raises(UsageError, match="pipeline 'p' does not read a stream 'out'"):
        reset(copying(), inputs=["out"], system=ProducingSystem())
    with pytest.raises(UnsupportedError, match="where topics may be deleted and created again"):
        reset(copying(), inputs=["in"], system=MemorySystem())
    with pytest.raises(UsageError, match="keep_offsets=True without inputs="):
        reset(copying(), keep_offsets=True, system=ProducingSystem())
    with pytest.raises(UsageError, match="states= together with inputs="):
        reset(copying(), states=["n"], inputs=["in"], system=ProducingSystem())


def watching(system: ProducingSystem, *, ends: bool = False, engine: str = "local") -> InputStreamMonitor:
    planned = plan(copying(), partitions={"in": 1})
    return InputStreamMonitor(planned, system, Settings(), ["in"], engine=engine, ends=ends)


def look(watch: InputStreamMonitor) -> None:
    """Have it check, and wait for the answer."""
    watch._next = 0.0
    watch.check()
    assert watch._thread is not None
    watch._thread.join()
    watch._next = time.monotonic() + 3600
    watch.check()


def test_a_stream_that_is_made_anew_while_it_is_read_ends_the_run() -> None:
    system = ProducingSystem()
    add(system, "a")
    watch = watching(system)
    look(watch)
    remake(system, "in")
    with pytest.raises(SystemProblem, match="the stream 'in' of memory: is not the one"):
        look(watch)


def test_an_offset_that_a_new_stream_does_not_have_is_reported_as_that() -> None:
    system = ProducingSystem()
    add(system, "a", "b")
    watch = watching(system)
    gone = offset_outside("in", 0, 2, 0, 1, "memory:")
    with pytest.raises(OffsetOutside, match="offset 2 lies outside"), watch.offsets_explained():
        raise gone
    remake(system, "in")
    told = pytest.raises(SystemProblem, match="the stream 'in' of memory: is not the one")
    with told as raised, watch.offsets_explained():
        raise gone
    assert raised.value.__cause__ is gone


def test_a_stream_that_is_away_or_a_system_that_is_says_nothing() -> None:
    def away(_: Collection[str]) -> dict[str, StreamDescription]:
        raise SystemProblem("out of reach")

    system = _Described(lambda _: {"in": StreamDescription("in/0", 1)})
    add(system, "a")
    watch = watching(system)
    system.describe = lambda _: {}
    system.admin().remove("in")
    look(watch)
    system.describe = away
    look(watch)


def test_partitions_more_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    system = ProducingSystem()
    add(system, "a")
    watch = watching(system)
    system._memory.streams["in"].append([])
    with caplog.at_level(logging.WARNING, input_streams.LOGGER):
        look(watch)
        look(watch)
    (warning,) = caplog.messages
    assert "the stream 'in' of memory: has 2 partitions now: this run reads the 1 that it had" in warning
    assert watch.warnings == {"partitions of in": warning}


def test_on_spark_no_new_run_is_promised_that_reads_them() -> None:
    system = ProducingSystem()
    add(system, "a")
    watch = watching(system, engine="spark")
    system._memory.streams["in"].append([])
    look(watch)
    warning = watch.warnings["partitions of in"]
    assert "a new run reads all partitions" not in warning
    assert "--engine spark" in warning


def test_a_run_that_ends_by_itself_leaves_new_partitions_to_the_next() -> None:
    system = ProducingSystem()
    add(system, "a")
    watch = watching(system, ends=True)
    system._memory.streams["in"].append([])
    look(watch)
    assert watch.warnings == {}


def test_a_partition_that_an_input_was_given_is_read_from_its_start_wherever_others_begin() -> None:
    system, latest = ProducingSystem(), Settings(offset_default="latest")
    add(system, "a")
    run(copying(), system=system, settings=latest, until="end")
    system._memory.streams["in"].append([])
    write(system, {"in": [[], [(b"k", b"b", 0, ())]]})
    run(copying(), system=system, settings=latest, until="end")
    assert written(system) == [b"b"]


def test_a_container_that_is_started_again_has_the_tasks_of_its_run_and_reads_all_partitions() -> None:
    system = ProducingSystem()
    add(system, "a")
    system._memory.streams["in"].append([])
    plans = [checked_plan(copying(), system, Settings(), partitions) for partitions in (None, {"in": 1})]
    assert [(made.stages[0].tasks, made.stream("in").partitions) for made in plans] == [(2, 2), (1, 2)]
