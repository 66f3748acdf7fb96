"""Tasks go from one container to another while both run, are split by key, and merged, so that a pipeline can be scaled
without a stop (ADR 0052, 0053).

Comes in: an assignment that gives tasks to other containers than those that have them, or that has other tasks. Goes
out: tasks that this container goes on with, and tasks that it commits for the last time. Read `task_moves` first."""
