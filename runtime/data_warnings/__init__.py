"""Warnings about the messages of a run, on both engines: messages without a key, and timestamps that look wrong.

Comes in: the counts and the largest timestamps that metrics collect. Goes out: warnings, each once in a run. Read
`suspicious_times` first."""
