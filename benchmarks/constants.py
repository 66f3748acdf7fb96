"""The numbers in the workloads. The standard library alone: peers run in environments of their own."""

MINUTE = 60_000
"""W2's windows, in ms."""

GAP = 1_800_000
"""W4's gap, in ms: a session goes on while the user's events are at most so far apart."""

OUT_OF_ORDER = 10_000
"""How far events may be behind, in ms, before windows close; more than they are."""

DEAR = 5_000
"""W1 keeps events of so many cents or more: about half."""

WITHIN = 600_000
"""W6: an order is joined with its payment if that is made in the next so many ms."""

LOOKUP = 0.005
"""Seconds that a lookup of W5 takes."""

IN_FLIGHT = 1_000
"""Lookups of W5 that a contender may have under way, all its tasks together."""
