"""The operators that keep state, other than windows: joins, tables, processors, deduplication.

Comes in: messages of one key, timers, and the entries that the store has. Goes out: messages, and changes of entries.
Each kind of operator has a module. Read `tables` first; their contract is `kernel.stateful_operator`."""
