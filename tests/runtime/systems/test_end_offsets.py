"""The ends of streams, asked for without waiting."""

from threading import Event

from engines.targets import write
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import Admin
from fluvial.runtime.systems.end_offsets import EndOffsets
from fluvial.runtime.systems.memory import MemoryAdmin

PATIENT = 60.0
TOLD = {"words": [1, 1]}


class Slow(MemoryAdmin):
    """Answers once it is told to."""

    def __init__(self, system: MemorySystem) -> None:
        super().__init__(system.admin()._memory)
        self.asked = 0
        self.may = Event()

    def ends(self, stream: str) -> list[int]:
        self.asked += 1
        self.may.wait(PATIENT)
        return super().ends(stream)


def two_words() -> MemorySystem:
    system = MemorySystem()
    write(system, {"words": [[(None, b"a", 0, ())], [(None, b"b", 0, ())]]})
    return system


def test_an_answer_is_there_at_once() -> None:
    ends = EndOffsets(two_words().admin())
    before = ends.latest
    ends.request(["words"])
    assert [before, ends.latest] == [None, TOLD]


def test_nobody_waits_for_one_that_takes_long() -> None:
    admin = Slow(two_words())
    ends = EndOffsets(admin, threaded=True)
    seen: list[tuple[bool, object]] = []
    for _ in range(3):
        ends.request(["words"])
        ends.wait(0)
        seen.append((ends.answered, ends.latest))
    admin.may.set()
    ends.wait(PATIENT)
    seen.append((ends.answered, ends.latest))
    assert seen == [*[(False, None)] * 3, (True, TOLD)]
    assert admin.asked == 1


def test_a_system_that_is_away_does_not_tell() -> None:
    admin: Admin = two_words().admin()
    ends = EndOffsets(admin, threaded=True)
    for streams, found in ((["words"], TOLD), (["words", "nothing"], None), (["words"], TOLD)):
        ends.request(streams)
        ends.wait(PATIENT)
        assert ends.latest == found
