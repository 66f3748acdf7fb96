"""The keyed executor: asynchronous calls for the messages of a program's own loop, in order by key, without a pipeline.

Comes in: messages, with their offsets. Goes out: results, and per partition the offset before which all has landed.
Read `keyed_executor` first."""
