"""Stores: the durable key-value state of a task.

Comes in: entries as bytes, and a checkpoint, in one write. Goes out: entries by prefix, ordered by key. Read `contract`
first, then `memory` and `rocksdb`."""

from .contract import TaskStore
from .memory import MemoryStore
from .rocksdb import RocksStore, StoreLocked

__all__ = ["MemoryStore", "RocksStore", "StoreLocked", "TaskStore"]
