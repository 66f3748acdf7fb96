"""The text of compiled code: which operator a line belongs to, and what an error in it shows."""

import traceback

import pytest

from fluvial.runtime.kernel.code.source_text import FILE_PREFIX, SourceText, Variables, compiled, operator_at


def dividing() -> SourceText:
    text = SourceText()
    text.add(1, "def divide(number):")
    text.add(2, "try:", "first")
    text.add(3, "return 1 // number", "second")
    text.catch(2)
    text.add(3, "raise")
    return text


def test_a_message_is_held_in_four_variables() -> None:
    assert str(Variables(value="v1", headers="()")) == "k, v1, t, ()"


def test_lines_are_nested_as_they_say_and_catch_all_but_interruptions() -> None:
    assert dividing().lines == [
        "def divide(number):",
        "    try:",
        "        return 1 // number",
        "    except INTERRUPTIONS:",
        "        raise",
        "    except BaseException as error:",
        "        raise",
    ]


def test_an_error_is_that_of_the_operator_of_its_line_and_shows_the_line() -> None:
    names: dict[str, object] = {"INTERRUPTIONS": ()}
    exec(compiled(dividing(), "words"), names)
    divide = names["divide"]
    assert callable(divide)
    with pytest.raises(ZeroDivisionError) as raised:
        divide(0)
    frame = traceback.extract_tb(raised.tb)[-1]
    assert frame.filename.startswith(f"{FILE_PREFIX}words ")
    assert (frame.lineno, frame.line) == (3, "return 1 // number")
    assert operator_at(frame.filename, 3) == "second"
    assert operator_at(frame.filename, 4) is None


def test_a_file_that_was_not_compiled_here_has_no_operators() -> None:
    assert operator_at(__file__, 1) is None


def test_the_same_text_of_one_stage_is_one_file() -> None:
    files = [compiled(dividing(), stage).co_filename for stage in ("a", "a", "b")]
    assert files[0] == files[1] != files[2]
