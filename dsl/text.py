"""Text that may hold anything, as people can read it."""

import re

_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a terminal obeys, but for tabs and ends of lines; and halves of surrogate pairs, which no encoding can write."""


def visible(text: str) -> str:
    r"""The text with its control characters shown, so that no terminal obeys them: what it quotes may be anybody's. It
    can be encoded as UTF-8.

    >>> print(visible("\x1b[2Jgone"))
    \x1b[2Jgone
    """
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def error_text(error: BaseException) -> str:
    """An error as Python shows it: its class, and its message. The class may be the user's, and its `__str__` raise.

    >>> error_text(OSError("gone"))
    'OSError: gone'
    """
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as raised:
        return f"{type(error).__name__}, whose __str__ raises {type(raised).__name__}"


def plural(number: int, what: str) -> str:
    """A number of things.

    >>> plural(1, "task"), plural(2000, "task")
    ('1 task', '2,000 tasks')
    """
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def ordinal(number: int) -> str:
    """A number as an ordinal.

    >>> [ordinal(number) for number in (1, 2, 3, 4, 11, 112, 121)]
    ['1st', '2nd', '3rd', '4th', '11th', '112th', '121st']
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
