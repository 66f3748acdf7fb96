"""Characters: which ones may be drawn, how wide they are, and how a long text is shortened."""

import re
import unicodedata
from itertools import accumulate, takewhile

# Advance widths in hundredths of the font size, from the widest font that a browser is likely to fall back to.
_CLASSES = {
    35: " '",
    40: "/IJ\\|ijl,.:;·",
    46: "-f!()[]",
    52: 'tr"*`',
    60: "_?zcs",
    68: "Lvxyake",
    72: "EFT$0123456789hnu{}odgpqbSY",
    78: "CPZBAKRVX",
    88: "UGDOQ#+<=>HN^~&w\N{MULTIPLICATION SIGN}→",
    106: "%@Mm…",
    112: "W",
}
_JOINER = "\u200d"
_WIDTHS = {letter: width / 100 for width, letters in _CLASSES.items() for letter in letters}

# What XML cannot hold, what would steer a terminal, and what would turn the direction of the text around it.
_UNFIT = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def clean(text: str) -> str:
    """The text on one line, with U+FFFD in place of each character that must not be drawn."""
    return _UNFIT.sub("\ufffd", re.sub(r"\r\n|[\t\n\r\v\f\x85\u2028\u2029]", " ", text))


def width_of(text: str, size: float) -> float:
    """A width in pixels that the text does not exceed in a usual sans-serif font, bold, of that size."""
    return sum(map(_width, text)) * size


def usual(text: str) -> bool:
    """Whether the widths of all its characters are known rather than guessed."""
    return all(letter in _WIDTHS for letter in text)


def shorten(text: str, size: float, width: float) -> str:
    """The text, or as much of its beginning as fits into `width` pixels, and an ellipsis."""
    if width_of(text, size) <= width:
        return text
    reach = accumulate(_width(letter) * size for letter in text)
    length = sum(1 for _ in takewhile(lambda right: right <= width - width_of("…", size), reach))
    return text[:length].rstrip(_JOINER) + "…"


def _width(letter: str) -> float:
    return _WIDTHS[letter] if letter in _WIDTHS else (0.0, 0.9, 1.1)[column_count(letter)]


def column_count(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.category(letter) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1
