"""DataFrames as inputs and outputs of queries, and batch jobs over those that have an end.

Comes in: DataFrames, and functions that write such. Goes out: their rows as messages, and messages as typed rows. Read
`batch_job` first, then `connection`, which joins DataFrames to a query beside the streams of a system."""
