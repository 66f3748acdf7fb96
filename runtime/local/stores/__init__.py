"""The stores of tasks: opened, brought up to their changelogs, moved where a plan has changed.

Comes in: a plan, `state_dir` and what the changelogs hold. Goes out: an open store for each task, at the commit that it
goes on from. Read `task_stores` first."""
