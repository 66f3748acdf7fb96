"""The command line `fluvial`: its verbs, their options, and what they print.

Comes in: arguments. Goes out: text on standard output, messages on standard error, and an exit code. A verb is declared
in `app`, or in `run_verb`, `reset_verb`, `checkpoint_verbs`, `state_verbs` or `stream_verbs`, and works in `commands`.
Read `app` first."""
