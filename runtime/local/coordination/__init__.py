"""Which container processes which tasks, while containers come and go.

Comes in: the tasks of a plan, and what the containers of a run tell each other in the coordinator stream. Goes out: the
tasks of this container. Read `membership` first."""
