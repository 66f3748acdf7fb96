"""Processors in one stage: states, side outputs, and that a call counts whole or not at all."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from engines.stages import feed, program_of, task_of
from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    ListState,
    Message,
    MessageError,
    Pipeline,
    SystemProblem,
    Tag,
    Timer,
    UsageError,
    ValueState,
    dead_letter,
    skip,
)
from fluvial.planner.task_assignment import StageTasks
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.task_options import TaskOptions
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer, with_trailer
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.testing import PipelineDriver
from generators.everything import Everything, driver, one, sent, values


@pytest.mark.parametrize("commits", [False, True])
def test_what_is_read_is_the_reader_s_own(commits: bool) -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[str]:
        if it.names.value is None:
            it.names.value = [message.value]
            it.map["a"] = [1]
        names = it.names.value
        assert names is not None
        names.append("lost")
        it.map["a"].append(2)
        yield f"{it.names.value} {it.map['a']}"

    assert sent(code, ("k", "x", 0), ("k", "y", 1), commits=commits) == ["['x'] [1]", "['x'] [1]"]


@pytest.mark.parametrize("commits", [False, True])
def test_a_mapping_has_the_methods_of_a_dictionary(commits: bool) -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[str]:
        names = it.map
        if message.value == "first":
            names.update({"b": [2], "a": [1], "c": [3]})
            assert names.setdefault("a", [9]) == [1]
            assert names.pop("c") == [3]
            assert "c" not in names
            assert names.get("c") is None
        elif message.value == "clear":
            names.clear()
            names["z"] = [26]
        with pytest.raises(KeyError):
            del names["nobody"]
        yield f"{dict(names)} {len(names)} {sorted(names)}"

    found = sent(code, ("k", "first", 0), ("k", "next", 1), ("k", "clear", 2), ("l", "other", 3), commits=commits)
    both = "{'a': [1], 'b': [2]} 2 ['a', 'b']"
    assert found == [both, both, "{'z': [26]} 1 ['z']", "{} 0 []"]


@pytest.mark.parametrize("commits", [False, True])
def test_a_list_grows_in_pieces_and_goes_as_a_whole(commits: bool) -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[str]:
        match message.value:
            case "fill":
                it.items.extend(str(number) for number in range(150))
            case "large":
                it.items.extend(["x" * 9_000] * 4)
            case "halve":
                it.items.assign(item for item in it.items if item in ("1", "149"))
            case "clear":
                it.items.clear()
            case _:
                pass
        it.items.append(".")
        last = [*it.items][-2:]
        yield f"{len(it.items)} {len(list(it.items))} {[item[:3] for item in last]}"

    commands = [("k", command, time) for time, command in enumerate(("fill", "", "large", "halve", "clear"))]
    assert sent(code, *commands, commits=commits) == [
        "151 151 ['149', '.']",
        "152 152 ['.', '.']",
        "157 157 ['xxx', '.']",
        "3 3 ['149', '.']",
        "1 1 ['.']",
    ]


def test_appending_writes_little_however_long_the_list_is() -> None:
    task = task_of(one(lambda it, message, _: it.items.append(message.value)))
    sizes = []
    for time in range(300):
        feed(task, "in", (b"k", b"ten bytes!", time, ()))
        sizes.append(sum(len(value or b"") for _, _, value in task.state.changes()))
        task.state.mark_committed(1 << 30)
    assert max(sizes) < 64 * 12 + 20


def test_many_names_of_a_map_are_kept_in_pieces_of_some() -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> None:
        it.map[message.value] = [1]

    task = task_of(one(code))
    feed(task, "in", *((b"k", b"%d" % number, 0, ()) for number in range(500)))
    task.state.mark_committed(1 << 30)
    feed(task, "in", (b"k", b"another", 1, ()))
    assert sum(len(value or b"") for _, _, value in task.state.changes()) < 1000


def test_a_serde_keeps_values_its_way() -> None:
    def code(it: Everything, _: Message[str], __: Context[str]) -> Iterator[str]:
        it.hexed.value = (it.hexed.value or 0) + 200
        yield str(it.hexed.value)

    task = task_of(one(code))
    feed(task, "in", (b"k", b"", 0, ()))
    assert b"c8" in [value for _, _, value in task.state.changes()]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (lambda it: setattr(it.number, "value", "x"), "state 'number' holds int, not str"),
        (lambda it: setattr(it.number, "value", True), "state 'number' holds int, not bool"),
        (lambda it: setattr(it.number, "value", 2**64), "does not fit 64 bits"),
        (lambda it: setattr(it.names, "value", [1]), "Expected `str`, got `int`"),
        (lambda it: setattr(it.short, "value", "\ud800"), "surrogates not allowed"),
        (lambda it: it.items.append(3), "state 'items' holds str, not int"),
        (lambda it: it.map.__setitem__(3, [1]), "a key is as declared, key_type=str, not int"),
        (lambda it: it.map.__setitem__("a", None), "None is no value"),
        (lambda it: it.map.get(None), "None is no key"),
        (lambda it: setattr(it, "number", 3), "is a state, and was assigned 3"),
    ],
)
def test_what_could_not_be_read_again_is_refused(code: Callable[[Any], None], told: str) -> None:
    with pytest.raises(MessageError, match=told):
        sent(lambda it, _, __: code(it), ("k", "", 0))


def test_a_failure_takes_back_all_that_its_call_did() -> None:
    def code(it: Everything, message: Message[str], context: Context[str]) -> Iterator[Any]:
        yield f"{it.number.value} {list(it.items)} {dict(it.map)}"
        yield it.aside("told")
        it.number.value += 1
        it.items.append(message.value)
        it.map[message.value] = [1]
        context.timers.set(message.value, message.timestamp + 10)
        if message.value == "bad":
            raise ValueError(message.value)

    with driver(code, lambda _, timer, __: [timer.name], dead_letter()) as made:
        for time, value in enumerate(("good", "bad", "last")):
            made.send("in", value, key="k", timestamp=time)
        made.end()
        assert values(made) == ["0 [] {}", "1 ['good'] {'good': [1]}", "good", "last"]
        assert values(made, "aside") == ["told"] * 2
        assert [letter.value for letter in made.dead_letters] == [b"bad"]


def test_a_timer_that_fails_is_gone_and_leaves_nothing() -> None:
    def on_timer(it: Everything, timer: Timer, context: Context[str]) -> Iterator[str]:
        it.number.value += 10
        context.timers.set("more", timer.time + 1)
        yield "lost"
        if timer.name == "bad":
            raise ValueError("no")

    def code(it: Everything, message: Message[str], context: Context[str]) -> Iterator[str]:
        context.timers.set(message.value, message.timestamp + 5)
        yield str(it.number.value)

    with driver(code, on_timer, dead_letter()) as made:
        made.send("in", "bad", key="k", timestamp=0)
        made.send("in", "x", key="other", timestamp=20)
        made.send("in", "later", key="k", timestamp=21)
        assert values(made) == ["0", "0", "0"]
        headers = dict(made.dead_letters[0].headers)
        assert (headers["fluvial-timer"], headers["fluvial-time"], headers["fluvial-firing"]) == (b"bad", b"5", b"it")


def test_a_timer_that_fails_ends_the_run_and_is_reported() -> None:
    def on_timer(*_: Any) -> None:
        raise ValueError("no")

    def code(_: Everything, message: Message[str], context: Context[str]) -> None:
        context.timers.set("quiet", message.timestamp + 5)

    with driver(code, on_timer) as made:
        made.send("in", "x", key="k", timestamp=0)
        with pytest.raises(
            MessageError, match=r"process it failed on timer 'quiet' of key 'k', set to 5: ValueError: no"
        ):
            made.end()


def test_what_fails_behind_a_processor_fails_alone() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())

    def code(it: Everything, _: Message[str], __: Context[str]) -> Iterator[str]:
        it.number.value += 1
        yield str(it.number.value)
        yield "x"

    pipeline.stream("in", key=str, value=str).process(Everything(code), id="it").map(int).send_to("out")
    with PipelineDriver(pipeline) as made:
        for time in (0, 1):
            made.send("in", "", key="k", timestamp=time)
        assert values(made) == [1, 2]
        assert [(letter.key, letter.value) for letter in made.dead_letters] == [(b"k", None)] * 2
        assert made.report().failed == {"map-3": 2}


def test_a_message_that_fails_elsewhere_leaves_the_processor_as_it_was() -> None:
    """It reaches two stateful operators; the second refuses it."""
    pipeline = Pipeline("p", on_error=skip())

    def code(it: Everything, message: Message[str], context: Context[str]) -> Iterator[str]:
        it.number.value += 1
        it.passing[len(message.value)] = message.value
        it.items.append(message.value)
        context.timers.set("t", message.timestamp + 5)
        yield f"{it.number.value} {dict(it.passing)} {list(it.items)}"

    def refuse(_: Everything, message: Message[str], __: Context[str]) -> None:
        if message.value == "bad":
            raise ValueError

    words = pipeline.stream("in", key=str, value=str)
    words.process(Everything(code, lambda _, timer, __: [str(timer.time)]), id="first").send_to("out", value=str)
    words.process(Everything(refuse), id="second").send_to("other", value=str)
    with PipelineDriver(pipeline) as made:
        for time, value in enumerate(("a", "bad", "b")):
            made.send("in", value, key="k", timestamp=time)
            if time == 0:
                made.commit()
        made.end()
        assert values(made) == ["1 {1: 'a'} ['a']", "2 {1: 'b'} ['a', 'b']", "7"]


def test_messages_without_key_are_refused() -> None:
    task = task_of(one(lambda *_: None, skip()))
    feed(task, "in", (None, b"x", 0, ()))
    assert task.failures.counts == {"it": 1}


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ("text", r"returns values to emit, such as \['text'\], not 'text'"),
        ([Tag("nobody", str)("x")], "is no tag of Everything, which has aside"),
        (3, "'int' object is not iterable"),
    ],
)
def test_what_cannot_be_emitted_is_refused(found: Any, told: str) -> None:
    with pytest.raises(MessageError, match=told):
        sent(lambda *_: found, ("k", "", 0))


def test_states_are_of_use_while_something_is_handled() -> None:
    held: list[Any] = []

    def code(it: Everything, _: Message[str], context: Context[str]) -> None:
        held.extend([it.number, it.items, it.map, context.timers])

    sent(code, ("k", "", 0))
    number, items, names, timers = held
    for use in (lambda: number.value, lambda: list(items), lambda: dict(names), lambda: timers.set("a", 1)):
        with pytest.raises(UsageError, match="is used outside of on_message and on_timer"):
            use()
    with pytest.raises(UsageError, match="state 'number' is used outside"):
        _ = Everything(code).number


def test_each_task_works_on_a_copy() -> None:
    class Counting(KeyedProcessor[str, str, int]):
        def __init__(self) -> None:
            self.seen = 0

        def on_message(self, message: Message[str], context: Context[str]) -> Iterable[int]:  # noqa: ARG002
            self.seen += 1
            yield self.seen

    processor = Counting()
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).process(processor, id="it").send_to("out")
    with PipelineDriver(pipeline, partitions={"in": 2}) as made:
        for partition in (0, 1, 1):
            made.send("in", "", key="k", partition=partition)
        assert sorted(values(made)) == [1, 1, 2]
    assert processor.seen == 0


def test_state_of_another_type_is_reported() -> None:
    class Before(KeyedProcessor[str, str, str]):
        kept = ValueState(list[str])

        def on_message(self, message: Message[str], context: Context[str]) -> None:  # noqa: ARG002
            self.kept.value = [message.value]

    class After(KeyedProcessor[str, str, str]):
        kept = ValueState(dict[str, str])

        def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
            yield str(self.kept.value)

    store = MemoryStore()
    for processor in (Before(), After()):
        pipeline = Pipeline("p")
        pipeline.stream("in", key=str, value=str).process(processor, id="it").send_to("out")
        task = StageTask(program_of(pipeline), store)
        if isinstance(processor, After):
            with pytest.raises(SystemProblem, match="the state of 'it' cannot be read"):
                feed(task, "in", (b"k", b"x", 0, ()))
        else:
            feed(task, "in", (b"k", b"x", 0, ()))
            store.write(task.state.changes())


@pytest.mark.parametrize(
    ("before", "after", "item", "expected"),
    [
        (int, int | None, 1, "[1, 1]"),
        (int, float, 1, "[1.0, 1.0]"),
        (int, float | None, 1, "[1.0, 1.0]"),
        (str, Any, "a", "['a', 'a']"),
        (Literal["a"], str, "a", "['a', 'a']"),
        (bytes, bytes, b"a", "[b'a', b'a']"),
    ],
    ids=str,
)
def test_a_list_may_get_a_wider_type(before: Any, after: Any, item: Any, expected: str) -> None:
    def listing(kind: Any) -> Pipeline:
        class Listing(KeyedProcessor[str, str, str]):
            items = ListState(kind)

            def on_message(self, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG002
                self.items.append(item)
                yield str(list(self.items))

        pipeline = Pipeline("p")
        pipeline.stream("in", key=str, value=str).process(Listing(), id="it").send_to("out")
        return pipeline

    store = MemoryStore()
    for kind in (before, after):
        task = StageTask(program_of(listing(kind)), store)
        (messages,) = feed(task, "in", (b"k", b"x", 0, ())).values()
        store.write(task.state.changes())
    assert [message[1] for message in messages] == [expected.encode()]


def test_side_outputs_are_counted_apart() -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[Any]:
        yield it.aside(message.value)
        if message.value == "both":
            yield message.value

    pipeline = Pipeline("p")
    out = pipeline.stream("in", key=str, value=str).process(Everything(code), id="it")
    out.send_to("out", value=str)
    out.tagged(Everything.aside).send_to("aside")
    out.tagged(Everything.aside).map(str.upper).send_to("loud")
    task = task_of(pipeline)
    made = feed(task, "in", *((b"k", value, 0, ()) for value in (b"both", b"one", b"two")))
    assert {id: len(records) for id, records in made.items()} == {"send_to-3": 1, "send_to-5": 3, "send_to-7": 3}
    assert task.input_counts == {
        "stream-1": 3, "it": 3, "send_to-3": 1, "side-4": 3, "send_to-5": 3, "map-6": 3, "send_to-7": 3
    }  # fmt: skip


def test_a_side_output_may_be_all_that_is_read() -> None:
    pipeline = Pipeline("p")
    out = pipeline.stream("in", key=str, value=str).process(Everything(lambda it, _, __: [it.aside("x"), "y"]), id="it")
    out.tagged(Everything.aside).send_to("aside")
    with PipelineDriver(pipeline) as made:
        made.send("in", "", key="k")
        assert values(made, "aside") == ["x"]


def test_what_a_timer_alone_changes_at_the_end_is_kept() -> None:
    fired: list[int] = []

    def code(it: Everything, message: Message[str], context: Context[str]) -> Iterable[str]:  # noqa: ARG001
        context.timers.set("t", 1000)
        return [f"{it.number.value}"]

    def on_timer(it: Everything, timer: Timer, context: Context[str]) -> None:  # noqa: ARG001
        fired.append(timer.time)
        it.number.value += 1

    with driver(code, on_timer) as run:
        run.send("in", "", key="k", timestamp=10)
        run.end()
        run.restart()
        run.send("in", "", key="k", timestamp=20)
        assert (values(run), fired) == (["0", "1"], [1000])


def test_a_timer_with_two_alarms_rings_once_at_the_end() -> None:
    fired: list[int] = []

    def code(it: Everything, message: Message[str], context: Context[str]) -> None:  # noqa: ARG001
        context.timers.set("t", int(message.value or 0))

    def on_timer(it: Everything, timer: Timer, context: Context[str]) -> None:  # noqa: ARG001
        fired.append(timer.time)
        context.timers.set("t", timer.time)

    with driver(code, on_timer) as run:
        run.send("in", "100000", key="k", timestamp=10)
        run.send("in", "5000", key="k", timestamp=20)
        run.end()
        assert fired == [5000]


def test_at_the_end_timers_fire_in_their_order_though_some_were_set_to_later_hours() -> None:
    hour, fired = 3_600_000, list[int]()

    def code(it: Everything, message: Message[str], context: Context[str]) -> None:  # noqa: ARG001
        context.timers.set("t", int(message.value or 0))

    def on_timer(it: Everything, timer: Timer, context: Context[str]) -> None:  # noqa: ARG001
        fired.append(timer.time)
        context.timers.set("next", timer.time + 10 * hour)

    with driver(code, on_timer) as run:
        for key, time in (("a", hour), ("b", 2 * hour), ("a", 3 * hour), ("c", 1000), ("d", 40 * hour)):
            run.send("in", str(time), key=key, timestamp=0)
        run.end()
        assert fired == [1000, 2 * hour, 3 * hour, 40 * hour]


def test_a_message_behind_the_end_of_its_input_meets_the_time_before_it() -> None:
    # As one is that its producer, which died, has written again.
    met: list[int] = []

    class Meeting(KeyedProcessor[str, str, str]):
        def on_message(self, message: Message[str], context: Context[str]) -> None:
            met.append(context.watermark)
            context.timers.set("t", message.timestamp + 5)

        def on_timer(self, timer: Timer, context: Context[str]) -> None:  # noqa: ARG002
            met.append(timer.time)

    pipeline = Pipeline("p")
    by_key = pipeline.stream("in", value=str).partition_by(lambda _: "k", id="b", key_type=str, value=str)
    by_key.process(Meeting(), id="it").send_to("out", value=str)
    program, store = program_of(pipeline, 1), MemoryStore()
    behind_one = TaskOptions(producers={"p-b": StageTasks(1)})
    message = with_trailer((b"k", b"x", 200, ()), pack_trailer(0, 90))
    task = StageTask(program, store, empty=True, options=behind_one)
    feed(task, "p-b", message, control_record(ControlMessage("r", 0, 0, 1, 100, ended=True), 100))
    feed(task, "p-b", message)
    assert met == [90, 205, 100]
    store.write(task.state.changes())
    later = StageTask(program, store, position=replace(task.position(), ended={}), options=behind_one)
    feed(later, "p-b", with_trailer((b"j", b"x", 900, ()), pack_trailer(0, 800)))
    assert met == [90, 205, 100, 205, 800]


def test_a_side_output_that_nobody_reads_is_left_out() -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[Any]:
        yield it.aside("told")
        yield message.value

    with PipelineDriver(one(code)) as alone:
        alone.send("in", "x", key="k")
        assert values(alone) == ["x"]


@pytest.mark.parametrize("commits", [False, True])
def test_what_is_not_there_can_be_cleared(commits: bool) -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[str]:
        if message.value == "clear":
            it.number.clear()
            it.map["a"] = [1]
            del it.map["a"]
        yield f"{it.number.value} {dict(it.map)}"

    assert sent(code, ("k", "clear", 0), ("k", "look", 1), commits=commits) == ["0 {}", "0 {}"]


class Unanswered(KeyedProcessor[str, str, str]):
    clock = ClockTimers()

    def on_message(self, message: Message[str], context: Context[str]) -> list[str]:
        (self.clock if message.value == "clock" else context.timers).set("quiet", 5)
        return []


@pytest.mark.parametrize("kind", ["clock", "event"])
def test_a_timer_that_nothing_answers_is_an_error_of_the_message(kind: str) -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    pipeline.stream("in", key=str, value=str).process(Unanswered(), id="p1").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", kind, key="k")
        (letter,) = driver.dead_letters
    wrong = dict(letter.headers)["fluvial-error"].decode()
    assert wrong.startswith("TypeError: timer 'quiet' is set, and the processor has no method on_timer(")


@pytest.mark.parametrize("commits", [False, True])
def test_an_entry_that_an_earlier_message_has_set_can_be_deleted(commits: bool) -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[str]:
        if message.value == "set":
            it.map.update({"a": [1], "b": [2]})
        elif message.value == "delete":
            del it.map["a"]
        yield f"{dict(it.map)}"

    shown = sent(code, ("k", "set", 0), ("k", "delete", 1), ("k", "look", 2), commits=commits)
    assert shown == ["{'a': [1], 'b': [2]}", "{'b': [2]}", "{'b': [2]}"]
