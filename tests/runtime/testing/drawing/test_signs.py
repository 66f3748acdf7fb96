"""Shapes and colours of keys."""

from dataclasses import replace

from fluvial.runtime.testing.drawing.figure import Mark
from fluvial.runtime.testing.drawing.signs import colour_of
from fluvial.runtime.testing.drawing.svg import write
from tests.runtime.testing.drawing.runs import EMPTY


def test_there_are_as_many_shapes_as_colours_and_then_they_begin_again() -> None:
    def drawn(number: int) -> str:
        return write(replace(EMPTY, marks=(Mark(200, 46, number, "sent", "", ""),)))

    assert len({drawn(number) for number in range(6)}) == 6
    assert drawn(6) == drawn(0)


def test_what_has_no_key_has_no_colour() -> None:
    assert (colour_of(None), colour_of(0), colour_of(7)) == ("plain", "k0", "k1")
