"""The local engine: it runs a plan in this process, as tasks of one container.

Comes in: a plan, a system, settings, and the id of the container. Goes out: records in streams, checkpoints, and a
report. Read `engine` first (what a run opens), then `container` (its loop) and `task`. `commit` makes outputs and state
durable, `stores` opens state, `checkpoints` says where tasks resume, `coordination` shares tasks among containers,
`observe` reports."""
