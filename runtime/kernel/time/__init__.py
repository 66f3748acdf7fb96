"""Event time in a task: watermarks, idle sources, and timers that fire by them.

Comes in: timestamps of messages, and control messages of the stages before. Goes out: the watermark of each operator,
and the timers that are due. Read `watermarks` first."""
