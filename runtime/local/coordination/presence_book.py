"""The last presence of each container, as the records of a coordinator stream come."""

from collections.abc import Mapping

from msgspec.structs import replace

from .assignments import Gone, Presence


class PresenceBook:
    """The last presence of each container, and the incarnation of each that is gone.

    A process that is gone counts as done, whatever it has written since: it may only have stood still, and go on.
    Another process of the same container does not."""

    def __init__(self, presences: Mapping[int, Presence] | None = None, gone: Mapping[int, str] | None = None) -> None:
        self.presences: dict[int, Presence] = dict(presences or {})
        self.gone: dict[int, str] = dict(gone or {})

    def add(self, presence: Presence) -> None:
        """Note the presence of a container."""
        is_gone = self.gone.get(presence.container) == presence.incarnation
        self.presences[presence.container] = replace(presence, state="done") if is_gone else presence

    def part_with(self, gone: Gone) -> None:
        """Note that a container is gone."""
        self.gone[gone.container] = gone.incarnation
        known = self.presences.get(gone.container)
        if known is not None:
            self.add(known)
