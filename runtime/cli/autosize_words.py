"""The options of `fluvial run --autosize`, as text, and what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...planner.settings import SPLITS
from ..autosize.autosize_options import Autosize
from ..autosize.busy_time_autosizer import CATCH_UP, UTILIZATION, BusyTimeAutosizer
from .option_values import parsed_count, parsed_duration, size, wrong_option

BETWEEN = ".."


@dataclass(frozen=True, slots=True, kw_only=True)
class AutosizeWords:
    """The options that say how a run changes its size, as they were given."""

    autosize: str | None
    containers: str | None
    elasticity: Sequence[str]
    catch_up: str | None
    utilization: float | None
    container_memory: str | None


def containers_of(words: AutosizeWords) -> int | None:
    """The number of containers; None if it was not given, or follows the load."""
    text = words.containers
    if text is None or words.autosize is not None:
        return None
    if BETWEEN in text:
        remedy = "write --autosize too, or one number"
        raise wrong_option("--containers", f"{text} without --autosize", "a number of containers", remedy)
    return _number("--containers", text)


def autosize_of(words: AutosizeWords) -> Autosize | None:
    """How the run changes its size; None if it does not."""
    if words.autosize is None:
        if any(BETWEEN in text for text in words.elasticity):
            remedy = "write --autosize too, or one number"
            raise wrong_option("--elasticity", f"{' '.join(words.elasticity)} without --autosize", "a number", remedy)
        return None
    catch_up = CATCH_UP if words.catch_up is None else parsed_duration("--catch-up", words.catch_up)
    utilization = UTILIZATION if words.utilization is None else words.utilization
    return Autosize(
        containers=_range("--containers", words.containers or "", "1..8"),
        elasticity=_elasticity(words.elasticity),
        memory=None if words.container_memory is None else size("--container-memory", words.container_memory),
        autosizer=BusyTimeAutosizer(utilization=utilization, catch_up=catch_up),
        advise=words.autosize == "advise",
    )


def _elasticity(given: Sequence[str]) -> tuple[int, int]:
    """The least and the most elasticity; one number is both."""
    if not given:
        return 1, 1
    if len(given) > 1 or "=" in given[0]:
        remedy = "write --elasticity 1..16: the autosizer decides for each stage"
        raise wrong_option("--elasticity", f"{' '.join(given)} with --autosize", "one range for all stages", remedy)
    least, most = _range("--elasticity", given[0], "1..16", one=True)
    if least not in SPLITS or most not in SPLITS:
        raise wrong_option(
            "--elasticity", given[0], "1, 2, 4, 8, 16, 32 or 64 on both sides", "write --elasticity 1..16"
        )
    return least, most


def _range(option: str, text: str, example: str, *, one: bool = False) -> tuple[int, int]:
    """The two numbers of a text such as `1..8`; with `one` a single number stands for both.

    >>> _range("--containers", "1..8", "1..8")
    (1, 8)
    """
    first, between, second = text.partition(BETWEEN)
    if not between and not one:
        remedy = f"write {option} {example}"
        raise wrong_option(option, f"{text} with --autosize", "the least and the most, as A..B", remedy)
    least, most = _number(option, first), _number(option, second if between else first)
    if least > most:
        raise wrong_option(option, text, "the least first", f"write {option} {most}{BETWEEN}{least}")
    return least, most


def _number(option: str, text: str) -> int:
    try:
        return parsed_count(text)
    except ValueError as error:
        raise wrong_option(option, text, str(error), f"write {option} 4") from None
