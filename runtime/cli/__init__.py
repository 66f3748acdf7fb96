"""The command line `fluvial`: its verbs, their options, and what they print.

Comes in: arguments. Goes out: text on standard output, messages on standard error, and an exit code. A verb is declared
in `app` or in the module of its group (`state`, `reset`, `produce_consume`) and does its work in `commands`. Read `app`
first."""
