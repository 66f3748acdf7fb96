"""Air traffic control: its rules on virtual time, and the whole with its services on each engine."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from air_traffic import TARGET, assert_each_was_told_once, communications, running_services
from examples.air_traffic_control import air_traffic_control
from examples.air_traffic_control.clients import Services
from examples.air_traffic_control.events import traffic, write
from examples.air_traffic_control.messages import Communication, Event, Item, Model, Preferences
from examples.air_traffic_control.quiet_hours import DAY, HOUR, end_of_quiet_hours
from fluvial.dsl import resource
from fluvial.runtime.testing import PipelineDriver
from programs import CLI, ENGINES

FIVE_MINUTES = timedelta(minutes=5)
NOON = 1_700_000_000_000 // DAY * DAY + 12 * HOUR


class NearServices(Services):
    """Services that know each item as one of which the member is as fond as its name says."""

    async def open(self) -> None:
        """Nothing is asked over a network."""

    async def close(self) -> None:
        """Nothing was opened."""

    async def item(self, event: Event) -> Item | None:
        return None if event.item == "gone" else Item(f"{event.kind} {event.item}", float(event.item))

    async def tell(self, communication: Communication) -> None:
        """Every member can be reached."""


@contextmanager
def control(start: int) -> Iterator[PipelineDriver]:
    with PipelineDriver(air_traffic_control(FIVE_MINUTES, resource(NearServices)), start=start) as driver:
        yield driver


def happen(driver: PipelineDriver, id: str, closeness: str = "0.9", urgent: bool = False) -> None:
    event = Event(id, "ann", "post", closeness, NOON, urgent)
    driver.send("urgent" if urgent else "events", event)


def told(driver: PipelineDriver) -> list[tuple[str, list[str]]]:
    return [(message.value.channel, message.value.events) for message in driver.read("told")]


def test_what_is_not_urgent_is_sent_together_the_most_relevant_first() -> None:
    with control(NOON) as driver:
        for id, closeness in (("a", "0.3"), ("b", "0.9"), ("a", "0.3"), ("c", "0.1"), ("d", "gone")):
            happen(driver, id, closeness)
        driver.advance(timedelta(minutes=4))
        assert told(driver) == []
        driver.advance(timedelta(minutes=1))
        assert told(driver) == [("email", ["b", "a"])]
        assert [message.value.candidate.event.id for message in driver.read("ignored")] == ["c"]


@pytest.mark.parametrize(("start", "hours"), [(NOON + 9 * HOUR, 1 / 12), (NOON + 10 * HOUR, 10), (NOON - 5 * HOUR, 1)])
def test_members_who_sleep_are_told_in_the_morning_but_for_what_is_urgent(start: int, hours: float) -> None:
    with control(start) as driver:
        happen(driver, "a")
        happen(driver, "b", urgent=True)
        assert told(driver) == [("push", ["b"])]
        driver.advance(timedelta(hours=hours) - timedelta(milliseconds=1))
        assert told(driver) == [("push", ["b"])]
        driver.advance(timedelta(milliseconds=1))
        assert told(driver) == [("push", ["b"]), ("email", ["a"])]


def test_a_member_is_told_so_many_times_a_day_at_most() -> None:
    with control(NOON) as driver:
        driver.send("preferences", Preferences(per_day=2), key="ann")
        driver.send("models", Model({"post": 1.0}), key="ann")
        for id in "abc":
            happen(driver, id)
            driver.advance(FIVE_MINUTES)
        assert told(driver) == [("push", ["a"]), ("push", ["b"])]
        happen(driver, "d", closeness="1.0")
        driver.advance(timedelta(hours=19))
        assert len(told(driver)) == 2
        driver.advance(timedelta(hours=1))
        assert told(driver)[2:] == [("push", ["d", "c"])]


@given(st.integers(0, 10 * DAY), st.integers(0, 23), st.integers(0, 23), st.integers(-12, 12))
def test_quiet_hours_end_at_their_hour(time: int, begin: int, end: int, offset: int) -> None:
    preferences = Preferences(quiet_from=begin, quiet_until=end, utc_offset=offset)
    quiet = {(begin + hours) % 24 for hours in range((end - begin) % 24)}
    after = end_of_quiet_hours(time, preferences)
    # Hour by hour until one is not quiet.
    hour = (time + offset * HOUR) // HOUR
    while hour % 24 in quiet:
        hour += 1
    assert after == max(time, (hour - offset) * HOUR)


@pytest.fixture
def services() -> Iterator[dict[str, str]]:
    with running_services(slowness=0.2) as found:
        yield found


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_each_relevant_event_reaches_its_member_once(
    script: Callable[..., str], engine: str, services: dict[str, str], tmp_path: Path
) -> None:
    made = traffic(20, 400)
    write(tmp_path, made)
    words = ["run", TARGET, "--guarantee", "exactly_once", "--engine", engine]
    words += ["--master", "local[2]", "--spark-conf", "spark.ui.enabled=false"] if engine == "spark" else []
    words += ["--input-format", "json", "--key-field", "member", "--output", f"told={tmp_path / 'told'}"]
    words += [word for name in made for word in ("--input", f"{name}={tmp_path / name}.jsonl")]
    script("-c", CLI, *words, ATC_SERVICES=msgspec.json.encode(services).decode())
    assert_each_was_told_once(services, made)
    # What is written is what was told.
    lines = (tmp_path / "told").read_bytes().splitlines()
    written = sorted(msgspec.json.decode(line, type=Communication).id for line in lines)
    assert written == sorted(communication.id for communication in communications(services))
