"""The embedded log: durable, partitioned streams in a directory, written in transactions, without a server."""

from .producer import LogProducer
from .reader import LogReader
from .system import LogSystem
from .vacuum import vacuum

__all__ = ["LogProducer", "LogReader", "LogSystem", "vacuum"]
