"""What runs in Spark's Python workers: stages of the plan over batches of rows.

Comes in: rows and the state of a key bucket. Goes out: rows for the next level or the sink, and the changed state. Read
`keyed_level` first."""
