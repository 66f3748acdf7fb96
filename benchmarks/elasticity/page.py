"""The figures as the documentation shows them: what was to be reached, and what was."""

from collections.abc import Iterator, Mapping

from benchmarks.elasticity.goals import Judged

_QUIET = 0.1
"""The share of the machine that others may use."""


def figures(found: Mapping[str, Judged]) -> str:
    """A table of all goals, and on what they were measured, as Markdown."""
    return "\n".join([*_rows(found), "", *_setting(found)]) + "\n"


def _rows(found: Mapping[str, Judged]) -> Iterator[str]:
    yield "| | measured | goal |"
    yield "|---|---:|---:|"
    for judged in found.values():
        for goal in judged.goals:
            sign = "" if goal.reached else " (not reached)"
            yield f"| {goal.what} | {goal.figure(goal.measured)}{sign} | {goal.bound} {goal.figure(goal.limit)} |"


def _setting(found: Mapping[str, Judged]) -> Iterator[str]:
    """A line for each set of circumstances, and a warning where the machine was not quiet."""
    by_setting: dict[str, list[str]] = {}
    for name, judged in found.items():
        machine = judged.machine
        setting = (
            f"measured on {judged.date} at commit `{judged.commit}`, {machine['processor']}, {machine['cores']} cores "
            f"and {machine['memory']} for containers, broker and harness together"
        )
        by_setting.setdefault(setting, []).append(name)
    for setting, names in by_setting.items():
        yield f"{', '.join(f'`{name}`' for name in names)}: {setting}."
    loud = {name: judged.noise for name, judged in found.items() if judged.noise > _QUIET}
    for name, noise in loud.items():
        yield f"**The machine was not quiet.** Others used up to {noise:.0%} of it during `{name}`: measure again."
