"""What every window shares: how a pane is made of what a window holds."""

from typing import Any

from fluvial.dsl import count, mean
from fluvial.dsl.message import Pane, Window
from fluvial.runtime.kernel.windows.context import WindowContext
from fluvial.runtime.state import MemoryStore


def lone(aggregate: Any, found: list[tuple[Any, ...]] | None = None) -> WindowContext:
    """What a window has around it: panes and failures are added to `found`."""
    found = [] if found is None else found
    return WindowContext(
        id="window",
        backend=MemoryStore(),
        empty=True,
        watermark=0,
        aggregate=aggregate,
        state_type=Any,
        decode_key=bytes.decode,
        lateness=0,
        accumulate=True,
        emit=lambda *pane: found.append(pane),
        fail=lambda *failed: found.append(failed),
        late=lambda *_: None,
        schedule=lambda _: None,
        firing=lambda _: None,
        pauses=lambda: False,
    )


def emitted(aggregate: Any, held: Any, *replaces: Window) -> tuple[Any, ...]:
    found: list[tuple[Any, ...]] = []
    lone(aggregate, found).panes()(b"k", Window(0, 10), held, "late", replaces)
    return found[0]


def test_a_pane_is_of_the_last_millisecond_of_its_window_and_has_no_headers() -> None:
    pane = Pane("k", Window(0, 10), 3, "late", (Window(0, 5),))
    assert emitted(count(), 3, Window(0, 5)) == (b"k", pane, 9, ())


def test_a_pane_holds_the_aggregate_s_result_not_its_accumulator() -> None:
    assert emitted(mean(float), (9.0, 2))[1].value == 4.5


def test_a_pane_whose_value_cannot_be_made_fails_by_itself() -> None:
    # Of nothing there is no mean.
    key, pane, timestamp, error = emitted(mean(float), (9.0, 0))
    assert (key, pane.value, timestamp, type(error)) == (b"k", None, 9, ZeroDivisionError)
