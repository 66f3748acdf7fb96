"""DataFrames of Spark's as inputs and outputs of a run: what a user says of them, checked without Spark.

Comes in: DataFrames, and functions that write such. Goes out: which columns each stream has. Read `bindings` first.
The Spark engine reads and writes them, in `runtime.spark.frames`."""
