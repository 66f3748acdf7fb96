"""Checkpoints of the local engine: what a task goes on from after a restart.

Comes in: the bytes that a system has of each task. Goes out: a `Checkpoint` for each task of a plan, also where the
pipeline was changed since. Read `checkpoint` first, then `migration`."""
