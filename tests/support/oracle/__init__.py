"""A plain, slow interpreter of pipelines over finite inputs: what every engine must write.

The oracle shares nothing with what it judges. It reads what a user said: the operators of a pipeline, the records and
words of `fluvial.dsl` (messages, windows, triggers, states), the user's functions, processors and Serdes. What those
mean, the oracle works out on its own, from the documentation: time, windows, joins, tables, processors, which types
flow where, and how values and keys become bytes. So nothing here imports `fluvial.planner` or `fluvial.runtime`, nor
those parts of `fluvial.dsl` that decode, or read annotations; `tests/oracle/test_independence.py` holds it to that.
A `Serde` is called as the pipeline brings it: its own tests judge its bytes. States are put into a processor by
`fluvial.dsl`, for a processor holds them by names of its own; what they keep, and for how long, is the oracle's.

Pipelines and inputs go into `run_oracle`; messages by stream come out. `interpreter` is the file to read first;
`kinds` says what each kind of operator does with a message.
"""
