"""Tallies: what a query has counted, from the tasks that count by way of the sink to the report."""

from collections.abc import Mapping

import msgspec

TOTALS = "totals"
"""The checkpoint under which the tally of all published batches is kept, with the batch."""


class Tally(msgspec.Struct, array_like=True):
    """Numbers of messages by kind and name, and how far each source partition has come: `watermarks`, in ms since
    epoch, by "stream/partition"."""

    counts: dict[str, dict[str, int]] = {}
    watermarks: dict[str, int] = {}

    def add(self, other: "Tally") -> None:
        """Take another in."""
        for kind, counts in other.counts.items():
            into = self.counts.setdefault(kind, {})
            for name, number in counts.items():
                into[name] = into.get(name, 0) + number
        for place, watermark in other.watermarks.items():
            self.watermarks[place] = max(watermark, self.watermarks.get(place, watermark))

    def since(self, before: "Tally") -> dict[str, dict[str, int]]:
        """What was counted since then."""
        return {
            kind: {name: number - before.counts.get(kind, {}).get(name, 0) for name, number in counts.items()}
            for kind, counts in self.counts.items()
        }


def tally_of(checkpoints: Mapping[str, bytes]) -> Tally:
    """The tally of all batches published so far."""
    return msgspec.json.decode(checkpoints[TOTALS], type=Tally) if TOTALS in checkpoints else Tally()
