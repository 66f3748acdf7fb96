"""The lowering: a plan becomes a Spark query.

Comes in: a plan. Goes out: a graph of Spark's operators, grouped into levels, with the stages packed for the workers.
Read `levels` first, then `lowering`."""
