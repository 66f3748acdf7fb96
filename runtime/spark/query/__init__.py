"""A Spark query from its start to its end: the session, the checkpoint that it continues, progress, and failure.

Comes in: the stages of a query and a connection to the system. Goes out: a report, and a checkpoint for the next run.
Read `query` first, then `supervision`."""
