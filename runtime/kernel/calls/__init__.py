"""Asynchronous calls of users' functions: many in flight at a time, with results in order if the operator says so.

Comes in: a message and the function to call. Goes out: the results of the call, or its error, in that order.
Read `async_calls` first."""
