"""The figures as a picture: a bar for each engine and workload, as long as its speed beside the loop by hand."""

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape

from benchmarks.contenders import BASELINE, CONTENDERS
from benchmarks.results import Results, Run
from benchmarks.workloads import WORKLOADS

_WIDTH, _LEFT, _FULL = 760, 190, 400
_ROW, _BAR, _HEAD, _GAP = 20, 13, 26, 12
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.head { font-weight: 600 }
.name { text-anchor: end }
.loop { fill: #8c959f } .ours { fill: #0a66c2 } .other { fill: #c9a227 }
.broken { fill-opacity: .35 }
.line { stroke: #8c959f; stroke-dasharray: 3 3 }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } }
"""


def picture(found: Results) -> str:
    """An SVG. Pale bars are of runs that did not finish, or whose output was wrong."""
    body: list[str] = []
    top = _GAP
    for name, group in groupby(found.runs, key=lambda run: run.workload):
        runs = list(group)
        body.extend(_group(name, runs, top))
        top += _HEAD + _ROW * len(runs) + _GAP
    size = f'width="{_WIDTH}" height="{top}" viewBox="0 0 {_WIDTH} {top}"'
    title = "<title>Messages per second beside the loop by hand</title>"
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">', title, f"<style>{_STYLE}</style>"]
    return "\n".join([*lines, *body, "</svg>", ""])


def _group(name: str, runs: list[Run], top: int) -> Iterator[str]:
    yield f'<text class="head" x="0" y="{top + 14}">{name}: {escape(WORKLOADS[name].title)}</text>'
    first, last = top + _HEAD, top + _HEAD + _ROW * len(runs)
    for number, run in enumerate(runs):
        yield from _bar(run, first + number * _ROW)
    yield f'<path class="line" d="M{_LEFT + _FULL} {first}V{last - _ROW + _BAR + 2}"/>'


def _bar(run: Run, top: int) -> Iterator[str]:
    length = max(1, round(_FULL * min(run.ratio_to_raw, 1.2)))
    broken = "" if run.output_correct else " broken"
    ratio = f"{run.ratio_to_raw:.2f}" if run.ratio_to_raw >= 0.1 else f"{run.ratio_to_raw:.3f}"
    told = f"{ratio} · {run.messages_per_second:,}/s" if run.messages_per_second else "failed"
    base = top + _BAR - 2
    yield f'<text class="name" x="{_LEFT - 8}" y="{base}">{escape(CONTENDERS[run.engine].title)}</text>'
    yield f'<rect class="{_kind(run)}{broken}" x="{_LEFT}" y="{top}" width="{length}" height="{_BAR}" rx="2"/>'
    yield f'<text x="{_LEFT + length + 6}" y="{base}">{told}</text>'


def _kind(run: Run) -> str:
    if run.engine == BASELINE:
        return "loop"
    return "ours" if CONTENDERS[run.engine].package == "fluvial" else "other"
