"""The effects of one message: applied together, or taken back together."""

from typing import Any

from fluvial.runtime.kernel.effects import MessageEffects
from fluvial.runtime.kernel.output_buffer import OutputBuffer


class Sums:
    """State that can be taken back: a number for each key."""

    def __init__(self) -> None:
        self.of: dict[bytes | None, int] = {}

    def undo(self, key: bytes | None, _: int) -> Any:
        before = self.of.get(key, 0)
        return lambda: self.of.update({key: before})


def effects(late: dict[str, int], *, takes_back: bool = True) -> tuple[MessageEffects, Sums, OutputBuffer]:
    sums, outputs = Sums(), OutputBuffer([])
    state: Any = {"sum": sums}
    return MessageEffects(state, outputs, late, takes_back=takes_back), sums, outputs


def test_an_effect_is_taken_back_with_its_outputs_and_late_messages() -> None:
    late = {"sum": 1}
    made, sums, outputs = effects(late)
    outputs.of("sum").append("before")
    take_back = made.undo("sum", (b"k", 1, 5))
    sums.of[b"k"] = 7
    outputs.of("sum").append("after")
    late["sum"] = 2
    take_back()
    assert (sums.of, outputs.of("sum"), late) == ({b"k": 0}, ["before"], {"sum": 1})


def test_a_first_late_message_is_taken_back_to_none() -> None:
    late: dict[str, int] = {}
    made, _, _ = effects(late)
    take_back = made.undo("sum", (b"k", 1, 5))
    late["sum"] = 1
    take_back()
    assert late == {}


def test_what_is_emitted_while_a_message_is_added_waits_for_all_its_effects() -> None:
    emitted: list[int] = []
    made, _, _ = effects({})
    emit = made.emitter(emitted.append)
    made.undo("sum", (b"k", 1, 5))
    emit(1)
    assert emitted == []
    made.emit_fired()
    assert emitted == [1]
    emit(2)  # no message is added any more
    assert emitted == [1, 2]


def test_what_a_failed_message_emitted_is_dropped() -> None:
    emitted: list[int] = []
    made, _, _ = effects({})
    emit = made.emitter(emitted.append)
    made.undo("sum", (b"k", 1, 5))
    emit(1)
    made.drop_fired()
    made.emit_fired()
    assert emitted == []


def test_nothing_waits_where_nothing_is_ever_taken_back() -> None:
    emitted: list[int] = []
    made, _, _ = effects({}, takes_back=False)
    assert made.emitter(emitted.append) == emitted.append
