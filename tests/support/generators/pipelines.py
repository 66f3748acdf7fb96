"""Random pipelines: a strategy that draws descriptions whose results do not depend on what no engine promises."""

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from hypothesis import strategies as st

from generators import draft_meetings as meetings
from generators import draft_remotes as remotes
from generators import draft_steps as steps
from generators import draft_windows as windowing
from generators.described_steps import (
    Async,
    Border,
    Broadcast,
    Deduplicate,
    Filter,
    FlatMap,
    Join,
    Lookup,
    Map,
    Merge,
    Messages,
    Process,
    RemoteLookup,
    RemotePut,
    Send,
    Source,
    Split,
    Step,
    WindowStep,
)
from generators.descriptions import Description, Mode, OnError
from generators.draft import Draft, Extra, Limits, Windows


@st.composite
def pipelines(
    draw: st.DrawFn,
    mode: Mode | None = None,
    max_steps: int = 8,
    max_borders: int = 2,
    on_error: OnError | None = None,
    windows: Windows = "plain",
    extras: Collection[Extra] = (),
) -> Description:
    """Descriptions of one mode or either.

    "on_time": inputs are to hold nothing late. "late": they may, so that the order of arrival decides; there is one
    source, each stage reads one stream, and async calls keep the order of their stage.

    What triggers show depends on the order of arrival, so only "late" knows other `windows` than plain ones; so it is
    with joins that retain the latest rows alone, with duplicates that differ in more than their headers, and with all
    processors but those that sort. The tables that streams look rows up in have inputs that are to be there before all
    others.
    """
    assert windows == "plain" or mode != "on_time", "triggers need the one order of arrival that mode late has"
    modes: tuple[Mode, ...] = ("on_time", "late") if windows == "plain" else ("late",)
    chosen: Mode = draw(st.sampled_from(modes)) if mode is None else mode
    policies: tuple[OnError, ...] = ("fail", "fail", "skip", "dead_letter")
    policy: OnError = draw(st.sampled_from(policies)) if on_error is None else on_error
    streams = ("a", "b")[: 1 if chosen == "late" else draw(st.integers(1, 2))]
    keyed = not {"joins", "tables"}.isdisjoint(extras)
    sources = tuple(draw(_sources(stream, policy != "fail", keyed)) for stream in streams)
    draft = Draft(draw, Limits(chosen, policy != "fail", max_borders, windows, extras), sources)
    for _ in range(draw(st.integers(1, max_steps))):
        _add_step(draft)
    return Description(sources, tuple(draft.steps), policy, chosen, draft.tables, tuple(draft.remotes))


@st.composite
def _sources(draw: st.DrawFn, stream: str, failing: bool, keyed: bool) -> Source:
    times = ("record", "at", "at_if_good") if failing else ("record", "at")
    return Source(
        stream,
        key=draw(st.sampled_from(("str", "str", "str", "str", "int", None) if keyed else (None, "str", "str", "int"))),
        time=draw(st.sampled_from(times)),
        out_of_order=draw(st.sampled_from((0, 1, 5, 20))),
    )


class DrawnStep(NamedTuple):
    """A kind of step: where it may be, how it is drawn, and how many times as often as others."""

    step: type[Step]
    fits: Callable[[Draft, int], bool]
    add: Callable[[Draft, int], None]
    often: int = 1


# Windows, joins and borders are what there is most to get wrong in.
DRAWN_STEPS: Mapping[str, DrawnStep] = {
    "window": DrawnStep(WindowStep, windowing.may_window, windowing.window, 5),
    "early panes": DrawnStep(WindowStep, windowing.may_show_early, windowing.show_early, 3),
    "border": DrawnStep(Border, steps.may_cross, steps.border, 3),
    "map": DrawnStep(Map, steps.anywhere, steps.map_values),
    "filter": DrawnStep(Filter, steps.anywhere, steps.filter_values),
    "flat_map": DrawnStep(FlatMap, steps.anywhere, steps.flat_map),
    "async": DrawnStep(Async, steps.may_call, steps.async_flat_map),
    "messages": DrawnStep(Messages, steps.anywhere, steps.map_messages),
    "merge": DrawnStep(Merge, meetings.may_merge, meetings.merge),
    "join": DrawnStep(Join, meetings.may_join, meetings.join, 15),
    "lookup": DrawnStep(Lookup, meetings.may_look_up, meetings.look_up, 10),
    "split": DrawnStep(Split, steps.may_split, steps.split),
    "process": DrawnStep(Process, steps.may_process, steps.process, 15),
    "deduplicate": DrawnStep(Deduplicate, steps.may_deduplicate, steps.deduplicate, 8),
    "send": DrawnStep(Send, steps.anywhere, steps.send),
    "broadcast": DrawnStep(Broadcast, steps.may_broadcast, steps.broadcast, 8),
    "remote read": DrawnStep(RemoteLookup, remotes.may_read, remotes.read, 20),
    "remote write": DrawnStep(RemotePut, remotes.may_write, remotes.write, 15),
}


def _add_step(draft: Draft) -> None:
    """Add one step that is possible here, if any node may still be read."""
    possible = {name: found for name, kind in DRAWN_STEPS.items() if (found := _places(draft, kind))}
    if not possible:
        return
    name = draft.pick(name for name in possible for _ in range(DRAWN_STEPS[name].often))
    DRAWN_STEPS[name].add(draft, draft.pick(possible[name]))


def _places(draft: Draft, kind: DrawnStep) -> list[int]:
    return [number for number, _ in draft.open() if kind.fits(draft, number)]
