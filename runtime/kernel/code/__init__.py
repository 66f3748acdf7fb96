"""What the code of a compiled stage is written with: its text, and the graph of the stage.

Comes in: a planned stage. Goes out: the records that the compiler and the kinds of operators share, and the errors that
compiled code raises. Read `stage_graph` first, then `source_text`."""
