"""What a run of the local engine reports: its progress and metrics, and rows of its tables for queries.

Comes in: the metrics and stores of tasks. Goes out: `Progress`, samples and rows. It changes nothing. Read `progress`
first."""
