"""`python -m benchmarks.elasticity NAME...`: measure what elasticity, standbys and the autosizer give."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.__main__ import FOLDER, serving
from benchmarks.elasticity.goals import Judged
from benchmarks.elasticity.measurements import MEASUREMENTS, Measurement
from benchmarks.elasticity.page import figures
from benchmarks.elasticity.programs import tell
from benchmarks.page import write_figures
from benchmarks.results import save
from benchmarks.topics import Topics
from kafka.broker_jars import ROOT

RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
PAGE = ROOT / "docs" / "guide" / "elasticity.md"
MAKER = "make bench-elasticity"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; 0 if all outputs were correct."""
    given = _parser().parse_args(arguments)
    chosen = [MEASUREMENTS[name] for name in given.names or MEASUREMENTS]
    if given.publish:
        kept = {one.name: msgspec.json.decode(one.file(given.results).read_bytes(), type=Judged) for one in chosen}
        write_figures(PAGE, figures(kept), MAKER)
        return 0
    if given.drawing:
        for one in chosen:
            _draw(one, given.results, given.images)
        return 0
    with serving(given.broker) as topics:
        correct = [_measured(one, topics, given) for one in chosen]
    return 0 if all(correct) else 1


def _measured(one: Measurement, topics: Topics, given: argparse.Namespace) -> bool:
    """Measure, save and draw; whether the output was correct."""
    tell(f"{one.name}: {one.title}{', small' if given.small else f', {one.minutes} minutes'}")
    found = one.measure(topics, small=given.small)
    save(found, one.file(given.results))
    _draw(one, given.results, given.images)
    print(*(f"{one.name}: {goal.told()}" for goal in found.goals), sep="\n")
    if not found.output_correct:
        print(f"{one.name}: the output was WRONG: {found.problem}")
    return found.output_correct


def _draw(one: Measurement, results: Path, images: Path) -> None:
    if one.drawing is not None:
        images.mkdir(parents=True, exist_ok=True)
        drawn = one.drawing(one.file(results).read_bytes())
        (images / f"{one.name}.svg").write_text(drawn, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.elasticity", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("names", nargs="*", choices=[*MEASUREMENTS, []], metavar="NAME", help=", ".join(MEASUREMENTS))
    parser.add_argument("--small", action="store_true", help="try it out with small sizes; the figures say nothing")
    parser.add_argument("--drawing", action="store_true", help="only draw what was found last")
    parser.add_argument("--publish", action="store_true", help="only write what was found last into the documentation")
    parser.add_argument("--broker", type=Path, default=FOLDER, metavar="DIR", help="where the broker keeps its data")
    parser.add_argument("--results", type=Path, default=RESULTS, metavar="DIR", help="where to save the figures")
    parser.add_argument("--images", type=Path, default=IMAGES, metavar="DIR", help="where to save the pictures")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
