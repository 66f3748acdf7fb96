"""Several containers of one run on one machine: started, watched and started again by a supervisor.

Comes in: a pipeline, its settings and how many containers there are to be. Goes out: one report of all of them. Each
container is a process that runs the local engine. Read `supervisor` first."""
