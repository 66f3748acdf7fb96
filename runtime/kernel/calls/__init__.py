"""Asynchronous calls of users' functions: many under way at a time, their results in order where order is asked for.

Comes in: a message and the function to call. Goes out: what the call returned, or its error, when its turn has come.
Read `async_calls` first."""
