"""Conformance cases that are not encoded, each with the reason."""

NOT_YET: dict[str, str] = {
    "O16": "commits that fail are never skipped, so nothing limits how many may be: the first ends the run (O13)",
}
