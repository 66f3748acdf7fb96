"""The stores of tasks: where they lie, whether they fit their log, and moves of state after a change of the plan.

Comes in: a plan, `state_dir`, and the checkpoints of the log. Goes out: an open store for each task, at the commit from
which the task resumes. Read `task_stores` first."""
