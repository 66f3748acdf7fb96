"""What runs in Spark's Python workers: stages of the plan over batches of rows.

Comes in: records of a source partition, or the rows and the state of a key bucket. Goes out: rows for the next level
or the sink, and the changed state. Read `source_level` first, then `keyed_level`.
`level_processor` carries a level to Spark."""
