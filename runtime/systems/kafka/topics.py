"""The settings of topics, by use, and checks of the settings of existing topics."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ..contract import StreamUse, StreamWarning

_LONGEST = str(2**63 - 1)
_HOUR = str(3_600_000)
_WEEK = str(7 * 24 * 3_600_000)

_TYPE = "message.timestamp.type"
_AHEAD = ("message.timestamp.after.max.ms", "message.timestamp.difference.max.ms")

_ANY_TIME: Mapping[str, str] = {
    # Stamps are event times, which may lie far from the broker's clock: it must neither refuse nor replace them.
    _TYPE: "CreateTime",
    "message.timestamp.before.max.ms": _LONGEST,
    "message.timestamp.after.max.ms": _LONGEST,
}
# Event times must neither begin a new segment at each jump, nor decide when old records are removed.
_EVENT_TIMES: Mapping[str, str] = {**_ANY_TIME, "segment.ms": _LONGEST}
_KEPT: Mapping[str, str] = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
_COMPACTED: Mapping[str, str] = {"cleanup.policy": "compact"}
_SIZE = "max.message.bytes"
# A message with its trailer is longer than it was, and one that was compressed is so where it is not: topics that take
# 1 MiB, as they do by default, could not take what other topics hold.
_LONG: Mapping[str, str] = {_SIZE: str(8 << 20)}
_LOW = 1_000_000
"""A limit below this is no default of anybody: somebody has chosen it."""


@dataclass(frozen=True, slots=True)
class TopicUse:
    """Settings of a use. `wanted` are defaults that the user may change. `needed` are always set, and checked in topics
    that exist."""

    wanted: Mapping[str, str] = field(default_factory=dict)
    needed: Mapping[str, str] = field(default_factory=dict)


USES: Mapping[StreamUse, TopicUse] = {
    "messages": TopicUse({**_EVENT_TIMES, **_KEPT, **_LONG}),
    # Messages are removed once their reader has passed them, never before.
    "intermediate": TopicUse({**_EVENT_TIMES, **_LONG}, {**_KEPT, **_ANY_TIME}),
    # A restore reads up to the offset of a checkpoint. Nothing of the time since that checkpoint may be compacted
    # away, or the restored state would lack it; the broker's clock stamps, for compaction goes by stamps.
    "changelog": TopicUse(
        {
            "min.compaction.lag.ms": _HOUR,
            "delete.retention.ms": _WEEK,  # a store that was last used before this is restored from the start
            "message.timestamp.type": "LogAppendTime",
            **_LONG,
        },
        _COMPACTED,
    ),
    # Read whole at each start: small segments are compacted soon.
    "checkpoints": TopicUse(
        {"segment.bytes": str(8 << 20), "segment.ms": _HOUR, "message.timestamp.type": "LogAppendTime"}, _COMPACTED
    ),
    # Removed once their messages are committed, never before: what is behind that is a call that would be paid again.
    "journal": TopicUse({"segment.bytes": str(64 << 20), "segment.ms": _HOUR, **_LONG}, {**_KEPT, **_ANY_TIME}),
    # Of use for seconds alone.
    "heartbeats": TopicUse(
        {
            "cleanup.policy": "delete",
            "segment.bytes": str(8 << 20),
            "segment.ms": _HOUR,
            "retention.ms": _HOUR,
            "message.timestamp.type": "LogAppendTime",
        }
    ),
}


def settings_for(use: StreamUse, given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a new topic; `given` by the user, without the replication factor."""
    return {**USES[use].wanted, **given, **USES[use].needed}


def check_settings(stream: str, use: StreamUse, settings: Mapping[str, str | None], where: str) -> None:
    """Raise SystemProblem unless a topic that exists keeps what is needed of it."""
    wrong = {
        name: (settings[name], value) for name, value in USES[use].needed.items() if settings.get(name, value) != value
    }
    if wrong:
        has = ", ".join(f"{name}={value}" for name, (value, _) in wrong.items())
        expected = ",".join(f"{name}={value}" for name, (_, value) in wrong.items())
        described = f"stream {stream!r} has {has}: as {_WHAT[use]} it would lose what is still needed"
        remedy = f"kafka-configs.sh --alter --topic {stream} --add-config {expected}, or remove the topic, which the "
        remedy += "next run then creates with these settings"
        raise SystemProblem(explain(described, expected, remedy, at=where))


def most_ahead(settings: Mapping[str, str | None]) -> int | None:
    """How far ahead of the clock of its broker a topic takes times, in ms; None where it takes any."""
    if settings.get(_TYPE) == "LogAppendTime":
        return None
    limits = [int(value) for name in _AHEAD if (value := settings.get(name)) is not None and value != _LONGEST]
    return min(limits, default=None)


def warnings_of(stream: str, settings: Mapping[str, str | None]) -> list[StreamWarning]:
    """What the settings of a topic do to the messages of an output, where readers may not expect it."""
    warnings: list[StreamWarning] = []
    alter = f"kafka-configs.sh --alter --topic {stream} --add-config"
    if "compact" in (policy := settings.get("cleanup.policy") or ""):
        warnings.append(
            StreamWarning(
                f"{stream} is compacted (cleanup.policy={policy}): of the messages of a key the last one stays, and a "
                "message without key is refused",
                f"nothing if each key is one row, of which the last counts; else {alter} cleanup.policy=delete",
            )
        )
    if settings.get(_TYPE) == "LogAppendTime":
        warnings.append(
            StreamWarning(
                f"{stream} replaces the time of each message by that of its writing ({_TYPE}=LogAppendTime)",
                f"nothing if nobody needs event times there; else {alter} {_TYPE}=CreateTime",
            )
        )
    ahead = most_ahead(settings)
    if ahead is not None:
        text = f"{stream} accepts timestamps up to {ahead} ms ahead ({_AHEAD[0]}); later ones are written in a header"
        warnings.append(StreamWarning(text))
    if (limit := settings.get(_SIZE)) is not None and int(limit) < _LOW:
        text = f"{stream} takes records of up to {limit} bytes ({_SIZE}); a larger one is an error of its message"
        warnings.append(StreamWarning(text))
    return warnings


_WHAT: Mapping[StreamUse, str] = {
    "messages": "a stream of messages",
    "intermediate": "a stream between two stages",
    "changelog": "the changelog of a store",
    "checkpoints": "the stream of a pipeline's checkpoints",
    "heartbeats": "the stream of heartbeats of containers",
    "journal": "the journal of calls",
}
