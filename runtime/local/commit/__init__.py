"""Commits of the local engine: outputs, changes of state and the checkpoint of a task, all at once or not at all.

Comes in: a `TaskCommit` of each task. Goes out: records in streams, changelogs and checkpoints. Two forms, by what the
system can do: `two_phase_commit` and `changelog_commit`. Read `contract` first."""
