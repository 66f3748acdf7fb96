"""Operators: frozen records of what the user asked for, and where in their file; they do not run.

Comes in: the arguments of a verb, checked. Goes out: a node of the pipeline's graph, which planner and engines read.
Each idea has a module with its records, and with the checks of what its verbs are given. Read `base` first; `graph`
holds the records of a pipeline, `labels` makes what people read of them.
"""

from .async_call import AsyncFlatMap
from .base import NAMELESS, Emits, Numbered, Operator, PerMessage, Role, Time
from .border import Border, Broadcast, PartitionBy
from .calls import AsyncCall, Order
from .deduplicate import Deduplicate
from .join import How, JoinRemote, JoinStreams, JoinTable, JoinTables, Lookup, Retain
from .process import Process, Side
from .stateless import Branch, Filter, FlatMap, Map, MapMessages, Merge, Source, Split
from .table import PutRemote, PutTo, TableOf, table_id
from .task import Task, TaskCall
from .terminal import SendTo, SinkTo
from .window import WindowBy

__all__ = [
    "NAMELESS",
    "AsyncCall",
    "AsyncFlatMap",
    "Border",
    "Branch",
    "Broadcast",
    "Deduplicate",
    "Emits",
    "Filter",
    "FlatMap",
    "How",
    "JoinRemote",
    "JoinStreams",
    "JoinTable",
    "JoinTables",
    "Lookup",
    "Map",
    "MapMessages",
    "Merge",
    "Numbered",
    "Operator",
    "Order",
    "PartitionBy",
    "PerMessage",
    "Process",
    "PutRemote",
    "PutTo",
    "Retain",
    "Role",
    "SendTo",
    "Side",
    "SinkTo",
    "Source",
    "Split",
    "TableOf",
    "Task",
    "TaskCall",
    "Time",
    "WindowBy",
    "table_id",
]
