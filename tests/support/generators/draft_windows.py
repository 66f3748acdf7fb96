"""How windows are drawn: with which triggers, and what may follow them."""

from dataclasses import replace

from generators.case_windows import AGGREGATES, FAILING_AGGREGATES
from generators.described_steps import When, WindowStep
from generators.draft import MOST_COPIES, Draft, Node


def may_window(draft: Draft, number: int) -> bool:
    node = draft.nodes[number]
    return node.key is not None and not node.dated


def window(draft: Draft, of: int) -> None:
    node = draft.nodes[of]
    crosses = draft.borders > 0 and draft.pick((False, False, True))
    alone = draft.failing and not (draft.late and not crosses)
    step = WindowStep(
        of,
        draft.pick(("tumbling", "session", "session")),
        draft.pick((10, 1, 5, 50)),
        draft.name(node, AGGREGATES, FAILING_AGGREGATES),
        lateness=draft.pick((0, 50, 10, 1, 50)),
        late_to=draft.pick((None, "late")),
        accumulate=draft.pick((True, False)),
        panes=draft.pick((None, *(2 * (f"panes-{len(draft.nodes)}",)))),
        crosses=crosses,
        back=draft.pick(("event_of", "event_of_good") if alone else ("event_of",)),
    )
    copies = node.copies
    if draft.windows != "plain":
        step, copies = _other_window(draft, step, node)
    _add(draft, step, node, copies)


def may_show_early(draft: Draft, number: int) -> bool:
    node = draft.nodes[number]
    return draft.windows != "plain" and draft.borders > 0 and node.key is not None and not node.timed


def show_early(draft: Draft, of: int) -> None:
    """A window without end whose early panes cross a border."""
    node = draft.nodes[of]
    aggregate = draft.name(node, AGGREGATES, ())
    step = WindowStep(of, "unbounded", 0, aggregate, accumulate=draft.flag(), crosses=True, trigger=_some(draft))
    _add(draft, step, node, node.copies)


def _add(draft: Draft, step: WindowStep, node: Node, copies: int) -> None:
    crosses = step.crosses
    # Whether what is shown so late is late at another window depends on the steps that time takes there. With what is
    # shown of a window without end a border tells them, if no call is in flight, which holds time back.
    exact = step.kind == "unbounded" and crosses and node.stage not in draft.calling
    dated = node.dated or step.late_trigger is not None or (step.kind == "unbounded" and not exact)
    if exact:
        draft.exact.add(node.stage)
    stage = draft.new_stage(node) if crosses else node.stage
    here = {"windowed_here": not crosses, "joined_here": node.joined_here and not crosses}
    draft.add(step, node, stage=stage, copies=copies, timed=True, dated=dated, moved=True, **here)


def _other_window(draft: Draft, step: WindowStep, node: Node) -> tuple[WindowStep, int]:
    """A window of any kind with triggers in place of a plain one, and the most messages that come of one."""
    copies = node.copies
    kind = draft.pick((*(3 * (step.kind,)), "hopping", "unbounded"))
    if kind == "unbounded":
        step = replace(step, kind="unbounded", size=0, lateness=0, late_to=None)
    elif kind == "hopping":
        fitting = [every for every in (1, 2, 3, 5, 7, 10, 25, 50) if every <= step.size]
        every = draft.pick(one for one in fitting if copies * -(-step.size // one) <= MOST_COPIES)
        step, copies = replace(step, kind="hopping", every=every), copies * -(-step.size // every)
    else:
        step = replace(step, kind=kind)
    # What time lets emit of several keys may have any order, and with it what a trigger shows behind a border.
    if node.timed:
        return step, copies
    trigger = _when(draft)
    late_trigger = _when(draft) if step.lateness > 0 else None
    return replace(step, trigger=trigger, late_trigger=late_trigger), copies


def _when(draft: Draft) -> When | None:
    """A trigger, or none."""
    return _some(draft) if draft.pick((True, True, False)) else None


def _some(draft: Draft) -> When:
    by_time = ("first", "last", "first last", "count first", "count last", "count first last")
    parts = draft.pick(("count", "count", *(by_time if draft.windows == "triggers" else ())))
    # Times of the sizes of windows, and just beside them.
    return When(
        count=draft.pick((2, 1, 3)) if "count" in parts else None,
        first=draft.pick((5, 1, 6, 10, 9, 11, 50)) if "first" in parts else None,
        last=draft.pick((5, 1, 6, 10, 9, 11, 50)) if "last" in parts else None,
        repeats=draft.pick((True, False)),
    )
