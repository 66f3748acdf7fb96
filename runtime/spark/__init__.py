"""The Spark engine: it runs a plan as queries of Spark Structured Streaming.

Comes in: a plan, a system (the log or Kafka), and settings. Goes out: messages in the plan's output streams, a
checkpoint for the next run, and a report. Read `engine` first: its `run` calls the packages in this order. `lowering`
groups the stages of a plan into queries and levels. `query` opens the checkpoint, starts each query and watches it.
`worker` runs the stages in Spark's Python processes. `connectors` reads and writes the systems. `rows` is the format
in which messages travel between them."""
