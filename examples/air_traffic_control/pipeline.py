"""The pipeline: events by member, what services know of them, relevance, decisions, deliveries."""

import os
from datetime import timedelta

from fluvial.dsl import KeyedStream, Pipeline, Resource, dead_letter

from .clients import PATIENT, Services, ask, services, tell
from .decisions import Decisions
from .messages import Candidate, Communication, Event, Model, Preferences, Ranked, Wanted

MAX_IN_FLIGHT = 200
"""Calls of a task at once."""
TIMEOUT = timedelta(seconds=2)


def rank(candidate: Candidate, model: Model | None) -> Ranked:
    """A candidate as the model of its member sees it; most members have none yet."""
    model = model or Model()
    score = model.score(candidate)
    return Ranked(candidate, score, too_low=score < model.least)


def prefer(ranked: Ranked, preferences: Preferences | None) -> Wanted:
    """What the member wants goes along with each event."""
    return Wanted(ranked, preferences or Preferences())


def air_traffic_control(gather: timedelta, client: Resource[Services] = services) -> Pipeline:
    """The pipeline. What is not urgent waits for `gather`, so that what belongs together is told together."""
    made = Pipeline("air-traffic-control", on_error=dead_letter())
    models = made.table("models", key=str, value=Model)
    preferences = made.table("preferences", key=str, value=Preferences)

    def by_member(stream: str, priority: int) -> KeyedStream[str, Event]:
        events = made.stream(stream, value=Event, timestamp=lambda event: event.at, idle_after=timedelta(minutes=10))
        return events.partition_by(
            lambda event: event.member, id=f"{stream}-by-member", key_type=str, priority=priority
        )

    decided = (
        by_member("urgent", 1)
        .merge(by_member("events", 0))
        .deduplicate(timedelta(hours=6), by=lambda event: event.id, by_type=str, id="once")
        .async_flat_map(ask, id="ask", resource=client, retry=PATIENT, timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT)
        .join(models, rank, id="rank", how="left")
        .join(preferences, prefer, id="prefer", how="left")
        .process(Decisions(gather), id="decide")
    )
    decided.tagged(Decisions.ignored).send_to("ignored")
    # What is decided crosses a border before it is told: under exactly_once it is decided once, whatever dies.
    urgent, usual = decided.split(lambda communication: communication.urgent)

    def told(decisions: KeyedStream[str, Communication], id: str, priority: int) -> KeyedStream[str, Communication]:
        return decisions.partition_by(lambda one: one.member, id=id, key_type=str, priority=priority)

    (
        told(urgent, "urgent-decided", 1)
        .merge(told(usual, "decided", 0))
        .async_flat_map(tell, id="tell", resource=client, retry=PATIENT, timeout=TIMEOUT, max_in_flight=MAX_IN_FLIGHT)
        .send_to("told")
    )
    return made


pipeline = air_traffic_control(timedelta(seconds=float(os.environ.get("ATC_GATHER_SECONDS", "300"))))
