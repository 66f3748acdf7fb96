"""How steps are drawn that read and write remote tables."""

from generators.case_joins import FAILING_JOINS, JOINS
from generators.case_remotes import FAILING_ROWS, ROWS
from generators.described_steps import RemoteLookup, RemotePut
from generators.described_tables import RemoteRows
from generators.draft import Draft, Node
from generators.draft_steps import may_call

MOST_REMOTES = 3


def may_read(draft: Draft, number: int) -> bool:
    return "remote reads" in draft.extras and draft.nodes[number].key is not None and may_call(draft, number)


def read(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    step = RemoteLookup(
        of,
        _table(draft, node, written=False),
        draft.pick(("left", "inner")),
        draft.name(node, JOINS, FAILING_JOINS),
        draft.small(),
    )
    draft.add_call(step, node, moved=True)


def may_write(draft: Draft, number: int) -> bool:
    # Whether a message whose row is written fails elsewhere, is told too late to take the row back.
    if "remote writes" not in draft.extras or draft.failing:
        return False
    # All else that a message does waits for its row to be written, and so does time: others might overtake it.
    return draft.nodes[number].key is not None and may_call(draft, number)


def write(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    draft.closed.add(len(draft.nodes))
    draft.add_call(RemotePut(of, _table(draft, node, written=True)), node)


def _table(draft: Draft, node: Node, *, written: bool) -> int:
    """A table that there is, or a new one. None is both read and written: which row is found would be a matter of when
    it was written."""
    there = [number for number, one in enumerate(draft.remotes) if one.written == written and not one.in_order]
    room = len(draft.remotes) < MOST_REMOTES or not there
    chosen: int | None = draft.pick([*there, *((None,) if room else ())])
    if chosen is not None:
        return chosen
    # Rows of one key that one operator writes come in order, if its messages do.
    in_order = written and draft.late and not node.timed and draft.flag()
    # One that fails takes along all that are asked for together.
    fn = draft.name(node, ROWS, FAILING_ROWS)
    batch = draft.pick((0, 1, 3)) if fn in ROWS else 0
    # One call at a time keeps the one order of arrival that mode late has.
    in_flight = 1 if draft.late else draft.pick((100, 1, 2))
    rows = RemoteRows(fn, draft.small(), draft.flag(), draft.flag(), batch, in_flight, written, in_order, draft.flag())
    draft.remotes.append(rows)
    return len(draft.remotes) - 1
