"""An embedded log on which a run can be killed, at any call by which it writes."""

from collections.abc import Mapping
from pathlib import Path

from engines.sending import Fate
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.log.producer import LogProducer
from fluvial.runtime.systems.log.transaction import LogTransaction


class MortalTransaction(LogTransaction):
    """A transaction whose writer may die before or after each of its ends."""

    fate: Fate

    def prepare(self, group: str, checkpoints: Mapping[str, bytes]) -> bytes:
        self.fate.step()
        token = super().prepare(group, checkpoints)
        self.fate.step()
        return token

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        self.fate.step()
        super().commit(group, checkpoints)
        self.fate.step()


class MortalProducer(LogProducer):
    """Writes to a log, and may die before or after whatever makes records visible."""

    fate: Fate

    def begin(self) -> MortalTransaction:
        made = MortalTransaction(self._journal, self._segments, self._writer, self._next_number)
        made.fate = self.fate
        return made

    def publish(self, token: bytes) -> None:
        self.fate.step()
        super().publish(token)
        self.fate.step()


class MortalLog(LogSystem):
    """The log of a folder, written to by whoever dies at a step of this fate."""

    def __init__(self, directory: Path, fate: Fate) -> None:
        super().__init__(directory, fsync=False)
        self._fate = fate

    def producer(self, name: str = "") -> MortalProducer:
        made = MortalProducer(self.directory, writer=name or self._new_writer(), fsync=False)
        made.fate = self._fate
        return made
