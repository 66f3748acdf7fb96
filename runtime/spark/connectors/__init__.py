"""How Spark reads and writes streams: a source and a sink for the log, the same for Kafka, and the end of an input.

Comes in: the streams of a plan and where the system is. Goes out: rows for a query, and records in streams: to the log
each batch once, to Kafka each batch at least once. Read `log` first, then `log_source` and `log_sink`."""
