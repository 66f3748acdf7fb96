"""The services around the example of air traffic control, and what is to come of its events."""

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from examples.air_traffic_control.messages import Communication, Event
from examples.air_traffic_control.servers import item_of, stands
from programs import serving

TARGET = "examples.air_traffic_control:pipeline"


@contextmanager
def running_services(slowness: float) -> Iterator[dict[str, str]]:
    """The services as a process of its own; their addresses."""
    words = ("-m", "examples.air_traffic_control.servers", "--ports", "0", "--slowness", f"{slowness}")
    with serving(*words) as line:
        yield msgspec.json.decode(line, type=dict[str, str])


def communications(services: dict[str, str]) -> list[Communication]:
    """What members have got."""
    with urllib.request.urlopen(f"{services['delivery']}/communications") as answer:
        return msgspec.json.decode(answer.read(), type=list[Communication])


def relevant(made: dict[str, list[dict[str, Any]]]) -> set[str]:
    """The events that are to be told: those that stand, and are urgent or of enough interest."""
    weights = {row["member"]: row["weights"] for row in made["models"]}
    found = set()
    for event in msgspec.convert([*made["events"], *made["urgent"]], list[Event]):
        closeness = item_of(event.kind, event.item, event.member).closeness
        score = closeness * weights.get(event.member, {}).get(event.kind, 0.5)
        if stands(event.item) and (event.urgent or score >= 0.1):
            found.add(event.id)
    return found


def assert_each_was_told_once(services: dict[str, str], made: dict[str, list[dict[str, Any]]]) -> None:
    """Each relevant event has reached its member, in one communication."""
    events = [event for communication in communications(services) for event in communication.events]
    assert set(events) == relevant(made)
    assert len(events) == len(set(events))
