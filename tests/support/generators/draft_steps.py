"""How steps of one input are drawn: what is done to each message, borders, processors and outputs."""

from fluvial.dsl.operators import Order
from generators import case_functions as given
from generators.case_keys import FAILING_KEYS, KEYS
from generators.described_steps import (
    Async,
    Border,
    Broadcast,
    Deduplicate,
    Filter,
    FlatMap,
    Map,
    Messages,
    Process,
    Send,
    Split,
)
from generators.draft import MOST_COPIES, Draft, Node

MOST_TASKS = 4
"""No stage of a random case has more tasks, on any engine."""


def anywhere(_draft: Draft, _: int) -> bool:
    return True


def map_values(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    draft.add(Map(of, draft.name(node, given.MAPS, given.FAILING_MAPS), draft.small()), node)


def filter_values(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    draft.add(Filter(of, draft.name(node, given.FILTERS, given.FAILING_FILTERS), draft.small()), node)


def flat_map(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    name, number, copies = _results(draft, node)
    draft.add(FlatMap(of, name, number), node, copies=copies)


def _results(draft: Draft, node: Node) -> tuple[str, int, int]:
    """A flat_map's function, its number, and how many copies it may make of what enters the pipeline."""
    name = draft.name(node, given.FLAT_MAPS, given.FAILING_FLAT_MAPS)
    most = MOST_COPIES // node.copies
    number = draft.pick(number for number in (1, 2, 3, 1, 0) if given.expansion(number) <= most)
    return name, number, node.copies * given.expansion(number)


def may_call(draft: Draft, number: int) -> bool:
    return not draft.late or (draft.is_line(number) and draft.nodes[number].stage not in draft.exact)


def async_flat_map(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    name, number, copies = _results(draft, node)
    order: Order = "input" if draft.late else draft.pick(("key", "input", "none"))
    in_flight = draft.pick((100, 1, 2))
    batch = 0 if draft.late else draft.pick(size for size in (0, 1, 2, 5) if size <= in_flight)
    call = Async(of, name, number, order, draft.flag(), in_flight, draft.flag(), batch)
    draft.add_call(call, node, copies=copies)


def map_messages(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    # What time let emit, made earlier, may be late or not, as an engine steps through time.
    backward = draft.late and not node.timed
    names = {**given.MESSAGES, **(given.BACKWARD_MESSAGES if backward else {})}
    draft.add(Messages(of, draft.name(node, names, given.FAILING_MESSAGES), draft.small()), node, key=None, moved=True)


def may_cross(draft: Draft, _: int) -> bool:
    return draft.borders > 0


def border(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    key = draft.pick(KEYS)
    failing = FAILING_KEYS if key == "str" else ()
    step = Border(of, key, draft.name(node, KEYS[key], failing), draft.small(), draft.flag())
    draft.add(step, node, key=key, stage=draft.new_stage(node), windowed_here=False, joined_here=False)


def may_broadcast(draft: Draft, number: int) -> bool:
    return "broadcasts" in draft.extras and draft.borders > 0 and _copies(draft, number) <= MOST_COPIES


def _copies(draft: Draft, number: int) -> int:
    # What is read in one order has one task in each stage.
    return draft.nodes[number].copies * (1 if draft.late else MOST_TASKS)


def broadcast(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    changes = {"key": None, "copies": _copies(draft, of), "windowed_here": False, "joined_here": False}
    draft.add(Broadcast(of, draft.flag()), node, stage=draft.new_stage(node), **changes)


def may_split(draft: Draft, _: int) -> bool:
    return "processors" in draft.extras


def split(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    fns = tuple(draft.name(node, given.FILTERS, given.FAILING_FILTERS) for _ in range(draft.pick((1, 1, 2))))
    draft.add(Split(of, fns, draft.small()), node)


def may_process(draft: Draft, number: int) -> bool:
    node = draft.nodes[number]
    keeps = node.key is not None and not node.dated
    return "processors" in draft.extras and keeps and node.copies <= MOST_COPIES // 4


def process(draft: Draft, of: int) -> None:
    node, late = draft.nodes[of], draft.late
    # What depends on the order of arrival, and what on the steps of time, wants the one order that mode late has.
    processor = draft.pick(("watching", "running", "sorting") if late and not node.timed else ("sorting",))
    # Behind a border time may skip steps, where messages were filtered out before.
    processor = "watching exactly" if processor == "watching" and draft.is_crossed(node) else processor
    watching = processor.startswith("watching")
    times = 4 if watching else 2 if processor == "running" else 1
    timed = node.timed or processor != "running"
    sorts = processor == "sorting"
    # Which of those that are late are handled together, is a matter of the steps of time.
    fails = draft.may_fail(node) and not (sorts and late) and draft.pick((False, False, True))
    aside = draft.pick((None, f"aside-{len(draft.nodes)}"))
    step = Process(of, processor, draft.small(), fails, aside)
    dated = node.dated or watching or (sorts and late)
    draft.add(step, node, copies=node.copies * times, timed=timed, dated=dated, joined_here=True, moved=True)


def may_deduplicate(draft: Draft, number: int) -> bool:
    node = draft.nodes[number]
    # Which of two duplicates comes first wants the one order that mode late has, or no duplicates but equal ones.
    keeps = node.key is not None and not node.dated and not node.timed and (draft.late or not node.moved)
    return "duplicates" in draft.extras and keeps


def deduplicate(draft: Draft, of: int) -> None:
    node, within = draft.nodes[of], draft.pick((10, 1, 5, 50))
    if draft.late:
        by = draft.pick((None, *(name for names in KEYS.values() for name in names)))
        by = draft.name(node, (by,), FAILING_KEYS) if by is not None else None
        draft.add(Deduplicate(of, within, by, draft.small()), node, joined_here=True)
    else:
        draft.add(Deduplicate(of, within, "whole", bare=True), node, key=None, joined_here=True)


def send(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    key = draft.pick((None, *KEYS))
    names = {} if key is None else KEYS[key]
    failing = FAILING_KEYS if key == "str" else ()
    name = "" if key is None else draft.name(node, names, failing)
    # A function that makes keys of events has nothing to say of other values.
    form = "event" if key is not None else draft.pick(("event", *given.FORMS))
    step = Send(of, draft.pick(("sent", "also-sent")), key, name, form, draft.small(), draft.flag())
    draft.add_end(step, node)
