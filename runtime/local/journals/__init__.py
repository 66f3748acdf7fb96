"""The journals of calls: results are written to a stream as soon as calls end, outside of commits, and read at a start.

Comes in: the results of a call, by its name. Goes out: those that no commit counts yet, for the calls of a task that
goes on from its checkpoint. Read `task_journal` first."""
