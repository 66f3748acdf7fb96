"""Windows: the assigners, their panes, and the triggers that emit panes before windows close.

Comes in: messages of one key, and watermarks. Goes out: panes, and changes of the accumulators in the store. Read
`aligned` first; `tumbling` is a faster form of it."""
