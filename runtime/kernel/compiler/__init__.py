"""The compiler: it turns the operators of a stage into one Python function for each input.

Comes in: a planned stage. Goes out: a `Program`, which is compiled once, and bound to the state and the calls of each
task. Read `compiler` first, then `graph_builder` and `bindings`."""
