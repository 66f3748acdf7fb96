"""Warnings of a run, of which each subject has one."""

import logging


def warn_once(warnings: dict[str, str], subject: str, text: str, log: logging.Logger) -> None:
    """Log a warning and put it to the others of the run, unless one of them is of the same subject."""
    if subject not in warnings:
        warnings[subject] = text
        log.warning(text)
