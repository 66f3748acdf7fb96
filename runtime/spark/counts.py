"""Tallies: the counts of a query. Tasks count, the sink adds up, and the report shows the sums."""

from collections.abc import Mapping

import msgspec

TOTALS = "totals"
"""The name under which a checkpoint in the log has the tally of all published batches."""


class Tally(msgspec.Struct, array_like=True):
    """Numbers of messages by kind and name, and the `watermarks` of source partitions, in ms since epoch, by
    "stream/partition"."""

    counts: dict[str, dict[str, int]] = {}
    watermarks: dict[str, int] = {}

    def add(self, other: "Tally") -> None:
        """Add the numbers of another tally, and keep the later watermark of each partition."""
        for kind, counts in other.counts.items():
            into = self.counts.setdefault(kind, {})
            for name, number in counts.items():
                into[name] = into.get(name, 0) + number
        for place, watermark in other.watermarks.items():
            self.watermarks[place] = max(watermark, self.watermarks.get(place, watermark))

    def since(self, before: "Tally") -> dict[str, dict[str, int]]:
        """The counts that have been added since an earlier tally."""
        return {
            kind: {name: number - before.counts.get(kind, {}).get(name, 0) for name, number in counts.items()}
            for kind, counts in self.counts.items()
        }


def tally_of(checkpoints: Mapping[str, bytes]) -> Tally:
    """The tally of all batches published so far."""
    return msgspec.json.decode(checkpoints[TOTALS], type=Tally) if TOTALS in checkpoints else Tally()
