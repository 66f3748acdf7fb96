"""Stores: where the state of a task is kept between two commits and over a restart."""

from .contract import TaskStore
from .memory import MemoryStore
from .rocksdb import RocksStore, StoreLocked

__all__ = ["MemoryStore", "RocksStore", "StoreLocked", "TaskStore"]
