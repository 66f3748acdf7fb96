"""Stores: the durable key-value state of a task.

Comes in: entries as bytes, and a checkpoint, in one write. Goes out: entries by prefix, ordered by key. Read `contract`
first, then `memory` and `rocksdb`."""

from typing import TYPE_CHECKING

from ..lazy_names import lazy_names

if TYPE_CHECKING:
    from .contract import TaskStore
    from .memory import MemoryStore
    from .rocksdb import RocksStore, StoreLocked

__all__ = ["MemoryStore", "RocksStore", "StoreLocked", "TaskStore"]

# Imported when they are used: the workers of Spark need no RocksDB of ours.
_HOMES = {"MemoryStore": ".memory", "RocksStore": ".rocksdb", "StoreLocked": ".rocksdb", "TaskStore": ".contract"}

if not TYPE_CHECKING:  # with `__getattr__` type checkers would accept any name
    __getattr__ = lazy_names(__name__, _HOMES)
