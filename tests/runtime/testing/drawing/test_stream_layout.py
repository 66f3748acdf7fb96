"""The layout by streams: lanes, lines from messages to what came of them, and room for each."""

from fluvial.runtime.testing.drawing.frame import Options
from fluvial.runtime.testing.drawing.stream_layout import by_stream
from tests.runtime.testing.drawing.runs import shares, windows

OPTIONS = Options(streams=("numbers", "shares", "shares-dead-letters"), label=lambda value: str(value)[:9])


def test_each_partition_has_a_lane_inputs_first() -> None:
    lanes = [(row.title, row.key, row.soft) for row in by_stream(shares(), OPTIONS).rows]
    assert lanes == [
        ("numbers", "0", False),
        ("numbers", "1", False),
        ("shares", "0", True),
        ("shares", "1", True),
        ("shares-dead-letters", "", True),
    ]


def test_messages_show_what_became_of_them() -> None:
    looks = {mark.label: mark.look for mark in by_stream(shares(), OPTIONS).marks}
    assert looks == {"4": "sent", "3": "made", "0": "failed", "b'0'": "made", "20": "idle"}


def test_lines_lead_from_messages_to_what_came_of_them() -> None:
    figure = by_stream(shares(), OPTIONS)
    marks = {mark.label: mark for mark in figure.marks}
    assert [(link.x, link.to_x) for link in figure.links] == [
        (marks["4"].x, marks["3"].x),
        (marks["0"].x, marks["b'0'"].x),
    ]
    assert all(link.y < link.to_y for link in figure.links)


def test_labels_of_a_lane_do_not_overlap() -> None:
    figure = by_stream(windows(), Options(streams=("in", "out"), label=lambda _: "a long label for all"))
    heights = [mark.y for mark in figure.marks]
    assert len(set(heights)) > 2


def test_messages_of_one_lane_that_have_room_share_a_line() -> None:
    figure = by_stream(shares(), OPTIONS)
    assert len({mark.y for mark in figure.marks if mark.label in ("4", "20")}) == 1
