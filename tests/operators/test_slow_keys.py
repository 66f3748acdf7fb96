"""A key whose calls take long: what it holds up, and what it does not."""

import asyncio
from datetime import timedelta

from fluvial.dsl import Pane, Pipeline, collect, tumbling
from fluvial.runtime.testing import PipelineDriver

SLOW = 10.0
MANY = 1000


async def looked_up(value: str) -> list[str]:
    await asyncio.sleep(SLOW if value.startswith("slow") else 0.001)
    return [value]


def looking_up() -> Pipeline:
    """Two inputs of one task, in front of calls."""
    pipeline = Pipeline("slow")
    one, two = (pipeline.stream(name, key=str, value=str) for name in ("one", "two"))
    one.merge(two).async_flat_map(looked_up, id="look", max_in_flight=20).send_to("out", value=str)
    return pipeline


def send(driver: PipelineDriver, stream: str, *words: str) -> None:
    """Write words all at once, each with itself as the key, up to its digits."""
    records = [(word.rstrip("0123456789").encode(), word.encode(), 0, ()) for word in words]
    driver.records.send(stream, records)


def test_other_keys_go_on_beside_a_slow_one() -> None:
    with PipelineDriver(looking_up()) as driver:
        send(driver, "one", *(f"slow{number}" for number in range(MANY)))
        send(driver, "two", *(f"{'xyz'[number % 3]}{number}" for number in range(MANY)))
        driver.advance(timedelta(seconds=SLOW / 2))
        assert len(driver.read("out")) == MANY
        driver.end()
        values = [message.value for message in driver.read("out") if message.key == "slow"]
    assert values == [f"slow{number}" for number in range(MANY)]


def test_other_keys_of_its_partition_go_on_as_far_as_it_may_pile_up() -> None:
    with PipelineDriver(looking_up()) as driver:
        send(driver, "one", *(f"{'slow' if number % 2 else 'x'}{number}" for number in range(MANY)))
        driver.advance(timedelta(seconds=SLOW / 2))
        passed = len(driver.read("out"))
        # Half of 20 calls of the slow key run, and as many of its messages as may be in flight wait.
        assert 29 <= passed <= 31
        driver.end()
        assert len(driver.read("out")) == MANY


def test_a_slow_key_has_half_of_the_calls() -> None:
    begun: list[str] = []

    async def noted(value: str) -> list[str]:
        begun.append(value)
        return await looked_up(value)

    pipeline = Pipeline("half")
    pipeline.stream("one", key=str, value=str).async_flat_map(noted, id="look", max_in_flight=20).send_to("out")
    with PipelineDriver(pipeline) as driver:
        send(driver, "one", *(f"slow{number}" for number in range(MANY)))
        driver.advance(timedelta(seconds=SLOW / 2))
        assert len(begun) == 10


def test_panes_of_a_key_that_is_slow_wait_and_others_do_not() -> None:
    async def told(pane: Pane[str, list[str]]) -> list[str]:
        return await looked_up(pane.value[0])

    pipeline = Pipeline("panes")
    words = pipeline.stream("one", key=str, value=str)
    panes = words.window(tumbling(timedelta(milliseconds=10)), collect(), id="panes")
    panes.async_flat_map(told, id="tell", max_in_flight=2).send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        for at in range(0, 100, 10):
            for word in ("slow", "x"):
                driver.send("one", word, key=word, timestamp=at)
        driver.advance(timedelta(seconds=SLOW * 20))
        driver.end()
        values = [message.value for message in driver.read("out")]
    assert sorted(values) == ["slow"] * 10 + ["x"] * 10
