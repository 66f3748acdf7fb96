"""Conformance cases that are not encoded, each with the reason."""

INTERNAL = "an internal of Samza without a counterpart here"

NOT_YET: dict[str, str] = {
    "W24": INTERNAL,
    **dict.fromkeys(("W26", "W27"), INTERNAL),
    "R15": "a commit is made between messages here: none starts while one is processed",
    **dict.fromkeys(("R18", "R19", "R20", "R26", "O13", "O14"), INTERNAL),
    **dict.fromkeys(("M10",), INTERNAL),
    **dict.fromkeys(("P15", "P17"), INTERNAL),
}
