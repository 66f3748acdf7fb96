"""Commits of the local engine: outputs, changes of state and the checkpoint of a task, all at once or not at all.

Comes in: a `TaskCommit` of each task. Goes out: records in streams, changelogs and checkpoints. There are two forms:
`two_phase_commit` for the log and memory, `changelog_commit` for Kafka. Read `contract` first."""
