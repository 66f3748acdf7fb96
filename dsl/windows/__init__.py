"""Windows: the arguments of `KeyedStream.window`.

Comes in: what the user writes. Goes out: frozen records and functions that the planner and the engines read.
`assigners` say which windows a message belongs to, `aggregates` how the messages of a window become one value,
`triggers` when the window shows it. Read `assigners` first."""
