"""Text that people read shows what it holds."""

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import MessageError, UsageError
from fluvial.dsl.text import error_text, visible


@given(st.text(st.characters(exclude_categories=[])))
def test_no_terminal_obeys_what_is_visible(text: str) -> None:
    assert not [one for one in visible(text) if unicodedata.category(one) == "Cc" and one not in "\t\n"]


@given(st.text(st.characters(exclude_categories=[])))
def test_what_is_visible_can_be_encoded(text: str) -> None:
    assert visible(text).encode().decode() == visible(text)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("\t\n")))
def test_all_else_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


def test_errors_show_what_they_quote() -> None:
    assert str(UsageError("field '\x1b]0;title\x07'\r\n  at you")) == "field '\\x1b]0;title\\x07'\\r\n  at you"
    assert str(MessageError("\x9b2J")) == "\\x9b2J"


class MuteError(Exception):
    """Fails to say anything."""

    def __str__(self) -> str:
        raise LookupError("no text")


def test_an_error_that_fails_to_say_anything_is_shown_all_the_same() -> None:
    assert error_text(MuteError()) == "MuteError, whose __str__ raises LookupError"
    assert visible(error_text(OSError("\x1b[2Jgone"))) == "OSError: \\x1b[2Jgone"
