"""How steps are drawn where several streams meet, or a stream and a table."""

from dataclasses import replace
from typing import Literal, get_args

from fluvial.dsl.operators import How
from generators.case_joins import FAILING_JOINS, JOINS
from generators.described_steps import Join, Lookup, Merge
from generators.draft import MOST_COPIES, Draft, Node
from generators.draft_steps import send
from generators.table_drafts import Choice


def may_merge(draft: Draft, number: int) -> bool:
    return draft.nodes[number].copies < MOST_COPIES


def merge(draft: Draft, of: int) -> None:
    """Merge with one or two others, the node itself perhaps; two stages become one, if no loop comes of it."""
    node = draft.nodes[of]
    others: list[int] = []
    copies = node.copies
    for _ in range(draft.pick((1, 1, 2))):
        fitting = [
            number
            for number, one in draft.open()
            if copies + one.copies <= MOST_COPIES and draft.may_meet(node.stage, one.stage)
        ]
        if not fitting:
            break
        others.append(draft.pick(fitting))
        copies += draft.nodes[others[-1]].copies
        draft.unite(node.stage, draft.nodes[others[-1]].stage)
    if not others:
        send(draft, of)
        return
    inputs = [draft.nodes[number] for number in (of, *others)]
    draft.add(Merge(of, tuple(others)), _merged(node, inputs, copies, others))


def _merged(node: Node, inputs: list[Node], copies: int, others: list[int]) -> Node:
    keys = {one.key for one in inputs}
    return replace(
        node,
        key=keys.pop() if len(keys) == 1 else None,
        copies=copies,
        windowed_here=any(one.windowed_here for one in inputs),
        dated=any(one.dated for one in inputs),
        # Whose results come first, of several joins that one message reaches, is nowhere promised.
        timed=any(one.timed for one in inputs) or sum(one.joined_here for one in inputs) > 1,
        joined_here=any(one.joined_here for one in inputs),
        moved=any(one.moved for one in inputs),
        before=frozenset(others).union(*(one.before for one in inputs)),
    )


def may_join(draft: Draft, number: int) -> bool:
    return "joins" in draft.extras and bool(_partners(draft, number))


def _partners(draft: Draft, of: int) -> list[int]:
    """The nodes that a node may join, the newest first."""
    node = draft.nodes[of]
    if node.key is None or node.dated:
        return []
    return [
        number
        for number, one in draft.open()
        if number != of
        and (one.key, one.dated) == (node.key, False)
        and _joined_copies(node, one) <= MOST_COPIES
        and draft.may_meet(node.stage, one.stage)
    ]


def _joined_copies(one: Node, other: Node) -> int:
    """The most copies that leave a join, if what enters the pipeline is not all at one time."""
    return 3 * one.copies * other.copies


def join(draft: Draft, of: int) -> None:
    other = draft.pick(_partners(draft, of))
    draft.unite(draft.nodes[of].stage, draft.nodes[other].stage)
    inputs = [draft.nodes[of], draft.nodes[other]]
    how: How = draft.pick(get_args(How))
    timed = any(one.timed for one in inputs)
    behind = sum(one.joined_here for one in inputs)
    # Which row is the latest depends on the order of arrival; so does what comes of joins behind joins.
    latest = draft.late and not timed and behind < 2
    joined = replace(
        inputs[0],
        copies=_joined_copies(*inputs),
        windowed_here=any(one.windowed_here for one in inputs),
        timed=timed or how != "inner" or behind > 0,
        joined_here=True,
        moved=True,
        before=frozenset({other}).union(*(one.before for one in inputs)),
    )
    step = Join(
        of,
        other,
        draft.pick((10, 1, 5, 50)),
        how,
        draft.pick(("latest", "all", "latest") if latest else ("all",)),
        draft.name(joined, JOINS, FAILING_JOINS),
        draft.small(),
    )
    draft.add(step, joined)


def may_look_up(draft: Draft, number: int) -> bool:
    return "tables" in draft.extras and bool(_tables_for(draft, number))


def _tables_for(draft: Draft, of: int) -> list[Choice]:
    """The tables that a node may look rows up in, and those that may be made for it."""
    node = draft.nodes[of]
    return draft.drafts.choices(node.key, lambda stage: draft.may_meet(node.stage, stage))


def look_up(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    chosen = draft.drafts.chosen(draft.pick(_tables_for(draft, of)), node.key, node.stage)
    draft.unite(node.stage, draft.drafts.stages[chosen])
    how: Literal["inner", "left"] = draft.pick(("left", "inner"))
    step = Lookup(of, chosen, how, draft.name(node, JOINS, FAILING_JOINS), draft.small())
    draft.add(step, draft.nodes[of], moved=True)
