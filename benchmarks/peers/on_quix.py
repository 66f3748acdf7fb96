"""The workloads on Quix Streams, with its own settings: changelogs on, at least once."""

import time

from quixstreams import Application
from quixstreams.dataframe.windows import Count, Sum

from benchmarks.constants import DEAR, GAP, LOOKUP, MINUTE, OUT_OF_ORDER, WITHIN
from benchmarks.job import Job, Seen

job = Job.given()
seen = Seen(job)
app = Application(
    broker_address=job.address,
    consumer_group=job.name,
    auto_offset_reset="earliest",
    state_dir=job.folder,
    loglevel="WARNING",
)
sources = [app.topic(topic, value_deserializer="json", key_deserializer="str") for topic in job.inputs]
out = app.topic(job.output, value_serializer="json", key_serializer="str")


def note(event):
    """Let everything pass."""
    seen.add()
    return True


def is_dear(event):
    """Keep about half."""
    seen.add()
    return event["cents"] >= DEAR


def with_minute(event):
    """The event with its minute."""
    event["minute"] = event["at"] // MINUTE
    return event


def count_page(event, state):
    """How often the page has been seen by now."""
    count = state.get("count", 0) + 1
    state.set("count", count)
    return {"page": event["page"], "count": count}


def to_total(value, key, timestamp, headers):
    """What a window says."""
    return {"user": key, "start": value["start"], "count": value["count"], "cents": value["cents"]}


def look_up(event):
    """It has no asynchronous calls: one after the other."""
    seen.add()
    time.sleep(LOOKUP)
    return {"seq": event["seq"], "score": len(event["page"])}


def totals(windows):
    """Count and sum per window."""
    found = windows.agg(count=Count(), cents=Sum("cents")).final(closing_strategy="partition")
    return found.apply(to_total, metadata=True)


def w1(events):
    return events.filter(is_dear).apply(with_minute)


def w2(events):
    return totals(events.filter(note).tumbling_window(MINUTE, grace_ms=OUT_OF_ORDER))


def w3(events):
    return events.filter(note).group_by("page").apply(count_page, stateful=True)


def w4(events):
    return totals(events.filter(note).session_window(GAP, grace_ms=OUT_OF_ORDER))


def w5(events):
    return events.apply(look_up)


def settle(order, payment):
    """An order with its payment."""
    return {"order": order["order"], "amount": order["amount"], "paid": payment["paid"], "user": order["user"]}


def w6(orders, payments):
    return orders.filter(note).join_interval(
        payments.filter(note), on_merge=settle, grace_ms=WITHIN + OUT_OF_ORDER, backward_ms=0, forward_ms=WITHIN
    )


workloads = {"W1": w1, "W2": w2, "W3": w3, "W4": w4, "W5": w5, "W6": w6}
flow = workloads[job.workload](*map(app.dataframe, sources))
flow.to_topic(out)
app.run()
