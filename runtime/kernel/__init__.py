"""The kernel: the operators of a pipeline as code that both engines run.

Comes in: a planned stage, batches of records with their offsets, the processing time, and a `StateBackend` with the
state of the last commit. Goes out: records for other streams and sinks, changes of state, and a `Position`, which an
engine commits together. The kernel knows no engine, no system and no client.

Read `stage` first: a `StageTask` is one task of a stage, and shows how the parts work together. `compiler` turns a
stage into Python code, `kinds` has a row for each kind of operator, and `code` what the two share. `operators` and
`windows` keep state, `state_cache` holds it in memory. `time` has the watermarks and timers, `calls` the asynchronous
calls. Imports go downwards only, from `stage` to `state_cache`: pyproject.toml has the order.
"""
