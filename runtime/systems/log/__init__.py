"""The system `log`: durable, partitioned streams in a directory, written in transactions, without a server.

Comes in: records, staged in segment files. Goes out: batches of the records that an entry of the journal has published.
Read `index` first (what is visible), then `journal`, `segments` and `publication`."""

from .loss_acceptance import accept_loss
from .producer import LogProducer
from .reader import LogReader
from .retention import vacuum
from .system import LogSystem

__all__ = ["LogProducer", "LogReader", "LogSystem", "accept_loss", "vacuum"]
