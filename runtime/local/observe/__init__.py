"""What the local engine tells of a run: progress, metrics, and state that is asked for from outside.

Comes in: the figures and stores of tasks. Goes out: `Progress`, measures and rows. It changes nothing. Read `progress`
first."""
