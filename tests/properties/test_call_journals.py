"""Calls with a journal, under random completions, commits, crashes and scales: none whose results are durable is made
again, and what is written stays what the calls gave."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.targets import PATIENT
from fluvial.dsl import Batch, Message, Pipeline, count, tumbling
from fluvial.dsl.errors import UsageError
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

MANY = settings(max_examples=examples(80), deadline=None, suppress_health_check=PATIENT)
STEPS = ("go on", "advance", "commit", "crash", "crash", "rescale")
SHAPES = ("plain", "batch", "behind a border", "twice", "before state", "behind a window")


class Service:
    """A service that is paid for each call. `durable` are the requests whose results were in a journal at the last
    crash."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.durable: set[str] = set()

    async def ask(self, item: str) -> list[str]:
        assert item not in self.durable, f"{item} is paid twice"
        self.calls.append(item)
        await asyncio.sleep(int(item.rpartition(" ")[2]) % 4)
        return [f"{item}!"]

    async def ask_all(self, items: list[str]) -> list[list[str]]:
        return [await self.ask(item) for item in items]


def build(shape: str, order: Any, service: Service) -> Pipeline:
    pipeline = Pipeline("p")
    items = pipeline.stream("in", key=str, value=str)
    if shape == "batch":
        batch = Batch(size=3, delay=timedelta(seconds=1))
        items.async_flat_map(service.ask_all, id="call", batch=batch, order=order, journal=True).send_to("out")
        return pipeline
    if shape == "behind a border":
        items = items.partition_by(lambda item: item.partition(" ")[0], id="by-key", key_type=str)
    if shape == "behind a window":
        panes = items.window(tumbling(timedelta(seconds=10)), count(), id="counts")
        panes.map(lambda pane: f"{pane.key} {pane.value} {pane.window.start // 1000}").async_flat_map(
            service.ask, id="call", order=order, journal=True
        ).send_to("out")
        return pipeline
    asked = items.async_flat_map(service.ask, id="call", order=order, journal=True)
    if shape == "twice":
        asked = asked.map(lambda item: f"again {item[:-1]}").async_flat_map(
            service.ask, id="again", order=order, journal=True
        )
    if shape == "before state":
        asked.window(tumbling(timedelta(seconds=10)), count(), id="counts").send_to("counts")
    asked.send_to("out")
    return pipeline


def durable_in(driver: PipelineDriver) -> set[str]:
    """The requests whose results are in a journal."""
    system = driver._system
    found = set[str]()
    for stream, partitions in system.admin().streams().items():
        if stream.endswith("-journal"):
            consumer = system.consumer()
            consumer.assign({(stream, number): 0 for number in range(partitions)})
            for batch in consumer.poll():
                for record in batch.records:
                    found |= {one.decode()[:-1] for one in msgspec.msgpack.decode((record[1] or b"")[2:])}
    return found


def drawn_results(data: st.DataObject) -> Callable[[Any], Any]:
    return lambda calls: data.draw(st.sampled_from([*range(len(calls)), None]), label="next call to end")


def take(driver: PipelineDriver, step: str, service: Service, data: st.DataObject) -> None:
    match step:
        case "advance":
            driver.advance(timedelta(milliseconds=data.draw(st.sampled_from((5, 700, 2000)))))
        case "commit":
            driver.commit()
        case "crash":
            driver.crash()
            service.durable = durable_in(driver)
            driver.restart()
        case "rescale":
            driver.advance(timedelta(seconds=30))
            elasticity = data.draw(st.sampled_from((1, 2, 4)), label="elasticity")
            service.durable = durable_in(driver)
            try:
                driver.rescale(elasticity)
            except UsageError:  # calls are in flight, which a drawn order holds back
                driver.restart()
        case _:
            assert step == "go on"


@MANY
@given(
    st.sampled_from(SHAPES),
    st.sampled_from(("key", "input", "none")),
    st.sampled_from(("at_least_once", "exactly_once")),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(STEPS)), max_size=14),
    st.data(),
)
def test_no_call_with_durable_results_is_made_again(
    shape: str, order: str, guarantee: Guarantee, sent: list[tuple[str, str]], data: st.DataObject
) -> None:
    service = Service()
    results = None if shape in ("batch", "behind a window") else drawn_results(data)
    with PipelineDriver(
        build(shape, order, service),
        partitions=2,
        settings=Settings(guarantee=guarantee),
        async_results=results,
        commits="timed",
    ) as driver:
        for number, (key, step) in enumerate(sent):
            driver.send("in", f"{key} {number}", key=key, timestamp=number * 3000)
            take(driver, step, service, data)
        driver.end()
        found = driver.read("out")
    check(found, sent, shape, order, guarantee)


def check(found: list[Message[Any]], sent: list[tuple[str, str]], shape: str, order: str, guarantee: str) -> None:
    """Compare outputs with what the service answers to each message."""
    values = [message.value for message in found]
    if shape == "behind a window":
        counts = Counter((key, number * 3 // 10 * 10) for number, (key, _) in enumerate(sent))
        wanted = [f"{key} {count} {start}!" for (key, start), count in counts.items()]
    else:
        again = "again " if shape == "twice" else ""
        wanted = [f"{again}{key} {number}!" for number, (key, _) in enumerate(sent)]
    missing = Counter(wanted) - Counter(values)
    assert not missing
    if guarantee == "exactly_once":
        assert Counter(values) == Counter(wanted)
        if order != "none" and shape not in ("behind a border", "behind a window"):
            for key in "abc":
                of_key = [value for value in values if value.removeprefix("again ").startswith(key)]
                numbers = [int(value[:-1].rpartition(" ")[2]) for value in of_key]
                assert numbers == sorted(numbers)
