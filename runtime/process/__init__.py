"""The process of a run: signals, forks, standard streams, and what a machine runs out of.

Comes in: signals and errors of the operating system. Goes out: a request to stop, and an end of the process within a
bounded time. Read `signals` first."""
