"""The coordination of containers: which container runs which tasks, while containers start and end.

Comes in: the tasks of a plan, and the records of the coordinator stream. Goes out: the tasks of this container, and
its own records. Read `membership` first."""
