"""Scenes of deduplicate: payments that a shop sends again."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from docs.pictures.playing import MINUTE, Sent, played
from fluvial.dsl import Message, Pipeline
from fluvial.runtime.testing import draw_run

_WITHIN = timedelta(minutes=10)


def _number(payment: str) -> str:
    return payment


def deduplicated() -> str:
    """A payment that comes again within ten minutes is left out; what is further behind time is too late."""
    pipeline = Pipeline("payments")
    payments = pipeline.stream("payments", key=str, value=str)
    payments.deduplicate(_WITHIN, by=_number, id="once").send_to("once")
    sent: list[Sent] = [
        ("payments", "ann", "p1", 2 * MINUTE),
        ("payments", "bob", "p2", 4 * MINUTE),
        ("payments", "ann", "p1", 6 * MINUTE),
        ("payments", "ann", "p3", 9 * MINUTE),
        ("payments", "ann", "p1", 12 * MINUTE),
        ("payments", "bob", "p2", 17 * MINUTE),
        ("payments", "bob", "p4", 8 * MINUTE),
        ("payments", "ann", "p1", 5 * MINUTE),
    ]
    recording = played(pipeline, sent)
    passed = {(one.message.key, one.message.timestamp) for step in recording.steps for one in step.made}

    def near(payment: Message[str]) -> tuple[int, int]:
        span = _WITHIN // timedelta(milliseconds=1) if (payment.key, payment.timestamp) in passed else 0
        return payment.timestamp, payment.timestamp + span

    return draw_run(recording, intervals={"payments": near}, interval_legend="in which the same payment is a duplicate")


SCENES: Mapping[str, Callable[[], str]] = {"deduplicate": deduplicated}
