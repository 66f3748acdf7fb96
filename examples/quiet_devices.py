"""Which devices have gone quiet, and which report what cannot be.

    fluvial run examples/quiet_devices.py --input-format json \\
        --input readings=readings.jsonl --output quiet=- --output impossible=impossible.jsonl

A reading is a line such as {"device": "d1", "celsius": 21.5, "at": 1700000000000}. On Spark: add `--engine spark`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, Tag, Tagged, Timer, ValueState

PATIENCE = 300_000  # ms without a reading
ABSOLUTE_ZERO = -273.15


@dataclass(frozen=True, slots=True)
class Reading:
    """What a device reports; `at` is in ms since epoch."""

    device: str
    celsius: float
    at: int


@dataclass(frozen=True, slots=True)
class Quiet:
    """A device that has not been heard of for five minutes; `since` is when it last was, `readings` how many came."""

    device: str
    since: int
    readings: int


class Watch(KeyedProcessor[str, Reading, Quiet]):
    """A timer for each device, put off by each reading. The readings of one device come in order.

    Time may not have moved on when the reading after a silence comes: that one tells, too. So it means nothing in which
    steps an engine moves time.
    """

    impossible = Tag("impossible", Reading)
    heard = ValueState(int)
    readings = ValueState(int, 0)

    def on_message(self, message: Message[Reading], context: Context[str]) -> Iterable[Quiet | Tagged[Reading]]:
        """Count the reading, and wait for the next one."""
        reading, heard = message.value, self.heard.value
        if reading.celsius < ABSOLUTE_ZERO:
            yield self.impossible(reading)
            return
        if heard is not None and message.timestamp >= heard + PATIENCE:
            yield self.quiet(context.key, heard)
        self.heard.value = message.timestamp
        self.readings.value += 1
        context.timers.set("quiet", message.timestamp + PATIENCE)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[Quiet]:
        """No reading has come in time."""
        yield self.quiet(context.key, timer.time - PATIENCE)
        self.heard.clear()

    def quiet(self, device: str, since: int) -> Quiet:
        """What is to be told; readings are counted anew."""
        told = Quiet(device, since, self.readings.value)
        self.readings.clear()
        return told


pipeline = Pipeline("quiet-devices")
watched = (
    pipeline.stream("readings", value=Reading, timestamp=lambda reading: reading.at, out_of_order=timedelta(seconds=30))
    .partition_by(lambda reading: reading.device, id="by-device", key_type=str)
    .process(Watch(), id="watch")
)
watched.send_to("quiet")
watched.tagged(Watch.impossible).send_to("impossible")
