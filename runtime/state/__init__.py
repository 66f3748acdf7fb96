"""Stores: the durable key-value state of a task.

Comes in: entries as bytes, and a checkpoint, in one write. Goes out: entries by prefix, ordered by key. Read `contract`
first, then `memory` and `rocksdb`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .contract import TaskStore
    from .memory import MemoryStore
    from .rocksdb import RocksStore, StoreLocked

__all__ = ["MemoryStore", "RocksStore", "StoreLocked", "TaskStore"]

# Imported when they are used: the workers of Spark need no RocksDB of ours.
_HOMES = {"MemoryStore": ".memory", "RocksStore": ".rocksdb", "StoreLocked": ".rocksdb", "TaskStore": ".contract"}

if not TYPE_CHECKING:  # with `__getattr__` type checkers would accept any name

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name], __name__), name)
        globals()[name] = value
        return value
