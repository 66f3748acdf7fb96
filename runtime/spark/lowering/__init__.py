"""The lowering: which queries a plan becomes, and at which level of a query each stage runs.

Comes in: a plan. Goes out: for each query its stages by level, and the plan packed for the workers, in a `QueryPlan`.
Read `levels` first, then `lowering`."""
