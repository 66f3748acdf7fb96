"""The work of the verbs of the command line, apart from their options: a module for each verb.

Comes in: a loaded pipeline, and options as values. Goes out: what the verb prints. Read `run` first."""
