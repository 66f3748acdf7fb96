"""The process of a run: its signals, forks, standard streams, files and clock, and the limits of its machine.

Comes in: signals, errors and times of the operating system. Goes out: a request to stop, and an end of the process
within a bounded time. Read `signals` first."""
