"""The command line `fluvial`: its verbs, their options, and what they print.

Comes in: arguments. Goes out: text on standard output, messages on standard error, and an exit code. A verb is declared
in `app` or in a module `..._verb` or `..._verbs`, and works in `commands`. Read `app` first."""
