"""Idle sources: after how long without messages a source is idle, and how its watermark then advances."""

from collections.abc import Collection, Container, Iterator, Mapping, MutableMapping
from typing import TypeVar

from .bounds import END
from .input_progress import InputProgress

Key = TypeVar("Key")


def newly_idle(
    since: MutableMapping[Key, int], patience: Mapping[Key, int], active: Container[Key], now: int
) -> Iterator[tuple[Key, int]]:
    """Yield the sources that have had no message for their `patience`, each with the ms that have passed without one: a
    multiple of its patience.

    `since` has the time from which on each source has had no message. It is updated: for an `active` source it is
    `now`, and for one that is yielded it advances by the ms that are yielded.
    """
    for source, wait in patience.items():
        quiet = now - since.setdefault(source, now)
        if source in active:
            since[source] = now
        elif quiet >= wait:
            passed = quiet - quiet % wait
            since[source] += passed
            yield source, passed


class IdleSources:
    """The sources of a task that may be idle. The watermark of an idle source advances with the processing time.

    `quiet_since` has the processing time since which each source had no message, as of the last commit. The time in
    which the pipeline did not run counts if the run catches up: pipelines that run by a schedule often run for less
    than `idle_after`. In other runs it does not count, as the messages that came meanwhile may be still on their way.
    """

    def __init__(self, inputs: InputProgress, quiet_since: Mapping[str, int]) -> None:
        sources = {stream: one.source for stream, one in inputs.inputs.items() if one.clock == "source"}
        self._patience = {
            stream: source.idle_after
            for stream, source in sources.items()
            if source is not None and source.idle_after is not None
        }
        self._inputs = inputs
        known = {stream: since for stream, since in quiet_since.items() if stream in self._patience}
        self._quiet_since, self._before = (known, {}) if inputs.ends.catches_up else ({}, known)

    @property
    def quiet_since(self) -> dict[str, int]:
        """The processing time since which each source has had no message, in ms since epoch. For a later run that
        catches up, that is also the time before a run which does not."""
        return self._quiet_since | self._before

    def arrived(self, stream: str, now: int) -> None:
        """Messages of a source have come. A source that was idle has the watermark of its messages again."""
        if stream in self._patience:
            self._quiet_since[stream] = now
            self._before.pop(stream, None)
            self._inputs.set_idle(stream, None)

    def mark(self, active: Collection[str], now: int) -> None:
        """Mark the sources as idle that have had no message for their `idle_after`, and advance their watermarks.
        Sources with messages that wait to be processed are `active`."""
        waits = {stream: patience for stream, patience in self._patience.items() if not self._inputs.ends.ended(stream)}
        for stream, passed in newly_idle(self._quiet_since, waits, active, now):
            self._before.pop(stream, None)
            self._inputs.set_idle(stream, self._inputs.idle_watermark(stream, 0, passed))

    def next_due(self) -> int:
        """The next processing time at which a source becomes idle, or its watermark advances; END if there is none."""
        waits = self._patience.items()
        return min((self._quiet_since[name] + wait for name, wait in waits if name in self._quiet_since), default=END)
