"""Conformance cases that are not encoded, each with the reason."""

NOT_YET: dict[str, str] = {}
