"""The counts of a query. Tasks count messages, the sink adds the counts up, and the report shows the sums."""

from collections.abc import Mapping

import msgspec

TOTALS = "totals"
"""The name under which a checkpoint in the log has the counts of all published batches."""


class Counts(msgspec.Struct, array_like=True):
    """Numbers of messages by kind and name, and the `watermarks` of source partitions, in ms since epoch, by
    "stream/partition"."""

    by_kind: dict[str, dict[str, int]] = {}
    watermarks: dict[str, int] = {}

    def add(self, other: "Counts") -> None:
        """Add other counts, and keep the later watermark of each partition."""
        for kind, counts in other.by_kind.items():
            into = self.by_kind.setdefault(kind, {})
            for name, number in counts.items():
                into[name] = into.get(name, 0) + number
        for partition, watermark in other.watermarks.items():
            self.watermarks[partition] = max(watermark, self.watermarks.get(partition, watermark))

    def since(self, before: "Counts") -> dict[str, dict[str, int]]:
        """What has been added since earlier counts, by kind and name."""
        return {
            kind: {name: number - before.by_kind.get(kind, {}).get(name, 0) for name, number in counts.items()}
            for kind, counts in self.by_kind.items()
        }


def published_counts(checkpoints: Mapping[str, bytes]) -> Counts:
    """The counts of all batches published so far."""
    return msgspec.json.decode(checkpoints[TOTALS], type=Counts) if TOTALS in checkpoints else Counts()
