"""Conformance cases that are not encoded, each with the reason."""

TASKS = "the low-level task API is a later feature"
INTERNAL = "an internal of Samza without a counterpart here"

NOT_YET: dict[str, str] = {
    "W24": INTERNAL,
    **dict.fromkeys(("W26", "W27"), INTERNAL),
    **dict.fromkeys(("R04", "R05", "R06", "R07", "R08", "R10", "R15", "C09"), TASKS),
    **dict.fromkeys(("R18", "R19", "R20", "R26", "C01", "C02", "C03", "O13", "O14"), INTERNAL),
    **dict.fromkeys(("C06",), "a commit is not asked for by messages here"),
    **dict.fromkeys(("M10",), INTERNAL),
    **dict.fromkeys(("P15", "P17"), INTERNAL),
}
