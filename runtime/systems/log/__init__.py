"""The embedded log: durable, partitioned streams in a directory, written in transactions, without a server."""

from .loss_acceptance import accept_loss
from .producer import LogProducer
from .reader import LogReader
from .retention import vacuum
from .system import LogSystem

__all__ = ["LogProducer", "LogReader", "LogSystem", "accept_loss", "vacuum"]
