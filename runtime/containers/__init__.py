"""Several containers of one run on one machine: a supervisor starts them, and restarts those that die.

Comes in: a pipeline, its settings and the number of containers. Goes out: one report of all of them. Each container is
a process that runs the local engine. Read `supervisor` first."""
