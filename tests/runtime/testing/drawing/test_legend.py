"""The legend below a drawing."""

from dataclasses import replace
from xml.etree import ElementTree

from fluvial.runtime.testing.drawing.figure import LegendEntry
from fluvial.runtime.testing.drawing.svg import write
from tests.runtime.testing.drawing.runs import EMPTY


def test_a_long_legend_has_several_lines() -> None:
    entries = tuple(LegendEntry("key", "a key with a long name", number) for number in range(5))
    short, long = (ElementTree.fromstring(write(replace(EMPTY, legend=part))) for part in (entries[:1], entries))
    assert float(long.attrib["height"]) > float(short.attrib["height"])
