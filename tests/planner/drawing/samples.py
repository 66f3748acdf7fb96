"""Plans to draw: a small one that never changes, one in which every text is as told, and random ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace as changed

from fluvial.dsl import Pipeline, count, session, tumbling
from fluvial.dsl.error_policy import dead_letter
from fluvial.dsl.stream import MessageStream
from fluvial.planner import Plan, plan


@dataclass(frozen=True, slots=True)
class Click:
    """A page that somebody looked at."""

    user: str
    url: str
    at: int


@dataclass(frozen=True, slots=True)
class Visit:
    """Pages in a row."""

    user: str
    pages: int


def is_page(click: Click) -> bool:
    return click.url.startswith("/")


def by_user(click: Click) -> str:
    return click.user


def by_url(click: Click) -> str:
    return click.url


def itself(click: Click) -> Click:
    return click


def to_click(_: Any) -> Click:
    return Click("somebody", "/", 0)


def to_visit(pane: Any) -> Visit:
    return Visit(pane.key, pane.value)


async def enrich(visit: Visit) -> list[Visit]:
    return [visit]


def visits() -> Plan:
    """Twelve operators in three stages, with a late stream and dead letters; as if written in pipelines/visits.py."""
    pipeline = Pipeline("visits", on_error=dead_letter())
    pages = pipeline.stream("clicks", value=Click, timestamp=lambda click: click.at).filter(is_page)
    panes = pages.partition_by(by_user, id="by-user").window(
        session(timedelta(minutes=30)), count(), id="visits", lateness=timedelta(hours=1), late_to="late-clicks"
    )
    found = panes.map(to_visit)
    found.async_flat_map(enrich, id="enrich").send_to("visits")
    found.filter(lambda visit: visit.pages > 10).send_to("long-visits")
    urls = pages.partition_by(by_url, id="by-url")
    urls.window(tumbling(timedelta(minutes=1)), count(), id="per-url").send_to("page-counts")
    made = plan(pipeline, partitions={"clicks": 8})
    moved = [changed(op, file="pipelines/visits.py", line=10 + at) for at, op in enumerate(made.operators)]
    return replace(made, operators=tuple(moved))


def circle() -> Plan:
    """A stage that reads what a later one writes, and one stream that a stage writes for itself."""
    pipeline = Pipeline("circle")
    start = pipeline.stream("clicks", value=Click)
    first = start.partition_by(by_user, id="out").map(itself)
    back = first.partition_by(by_user, id="back").map(itself)
    again = start.partition_by(by_user, id="again")
    MessageStream.merge(start, back, again).send_to("all")
    return plan(pipeline)


def worded(text: str) -> Plan:
    """The small plan with that text wherever a plan has text that its author chose."""
    made = visits()

    def name(old: str) -> str:
        return f"{old}{text}"

    operators = tuple(
        changed(
            op,
            label=name(op.label),
            value=text or None,
            key=text or None,
            file=name(op.file),
            stage=name(op.stage),
            writes=tuple(map(name, op.writes)),
            details={name(key): name(value) for key, value in op.details.items()},
        )
        for op in made.operators
    )
    stages = tuple(
        changed(stage, id=name(stage.id), inputs=_all(name, stage.inputs), outputs=_all(name, stage.outputs))
        for stage in made.stages
    )
    streams = tuple(changed(stream, name=name(stream.name), value=name(stream.value or "")) for stream in made.streams)
    stores = tuple(changed(store, stage=name(store.stage), value=name(store.value)) for store in made.stores)
    return replace(made, operators=operators, stages=stages, streams=streams, stores=stores)


def _all(name: Callable[[str], str], old: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(name, old))


HOSTILE = [
    'say "hi"',
    "a < b && c > d",
    "</title></svg><script>alert(1)</script>",
    "]]> --> end",
    "`code` **bold** __init__",
    "line one\nline two\r\nthree\ttabs",
    "x\x00\x1b[31mred\x07",
    "%%{init: {'theme': 'dark'}}%% #quot; &amp; &#65;",
    "back\\slash \\N \\l \\",
    "\u202egnihtyna \u2067",
    "שלום עולם",
    "مرحبا بالعالم",
    "👨‍👩‍👧 🇳🇱 e\u0301",
    "漢字かな交じり",
    "\ud800 lone",
    "w" * 300,
    "1. list",
    "- list",
    "${view} $title $$",
]

texts = st.sampled_from(HOSTILE) | st.text(max_size=40) | st.text(alphabet="<>&\"'`#;[](){}|\\-%*_ \n", max_size=40)


@st.composite
def plans(draw: st.DrawFn, most: int = 40) -> Plan:
    """Plans of up to `most` operators, with branches, merges, borders, circles of stages, and shared outputs."""
    pipeline = Pipeline("drawn")
    heads: list[MessageStream[Any]] = [
        pipeline.stream(f"in-{at}", value=Click) for at in range(draw(st.integers(1, 3)))
    ]
    size = draw(st.integers(0, most))
    steps = st.tuples(st.sampled_from(sorted(_STEPS)), st.integers(0, 99), st.integers(0, 99))
    for step in draw(st.lists(steps, min_size=size, max_size=size)):
        if len(pipeline.operators) + len(_open(pipeline)) + 4 > most:
            break
        kind, one, other = step
        heads.append(_STEPS[kind](heads[-1 - one % min(len(heads), 5)], heads[other % len(heads)], len(heads)))
    for head in heads:
        if head.operator.id in _open(pipeline):
            head.send_to(f"out-{draw(st.integers(0, 3))}")
    return plan(pipeline)


def _open(pipeline: Pipeline) -> list[str]:
    read = {source for operator in pipeline.operators for source in operator.inputs}
    ended = {operator.id for operator in pipeline.operators if operator.kind == "send_to"}
    return [operator.id for operator in pipeline.operators if operator.id not in read | ended]


Step = Callable[[MessageStream[Any], MessageStream[Any], int], MessageStream[Any]]


def _window(stream: MessageStream[Any], number: int, late_to: str | None) -> MessageStream[Any]:
    keyed = stream.partition_by(by_user, id=f"key-{number}", value=Click)
    panes = keyed.window(tumbling(timedelta(minutes=1)), count(), id=f"window-{number}", late_to=late_to)
    return panes.map(to_click)


def _awaited(stream: MessageStream[Any], number: int) -> MessageStream[Any]:
    return stream.map(to_visit).async_flat_map(enrich, id=f"a-rather-long-id-of-step-{number}").map(to_click)


_STEPS: dict[str, Step] = {
    "map": lambda one, *_: one.map(itself),
    "filter": lambda one, *_: one.filter(is_page),
    "async": lambda one, _, at: _awaited(one, at),
    "merge": lambda one, other, _: MessageStream.merge(one, other),
    "partition": lambda one, _, at: one.partition_by(by_user, id=f"part-{at}", value=Click),
    "window": lambda one, _, at: _window(one, at, None),
    "late": lambda one, _, at: _window(one, at, f"late-{at}"),
}
