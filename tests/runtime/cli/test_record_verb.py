"""A verb is given its options as one record."""

from dataclasses import dataclass
from typing import Annotated

import typer
from typer.testing import CliRunner

from fluvial.runtime.cli.record_verb import takes_record


@dataclass(frozen=True, kw_only=True)
class Greeting:
    name: Annotated[str, typer.Argument(help="Whom to greet.")]
    times: Annotated[int, typer.Option("--times", min=1, help="How often.")] = 1


@takes_record(Greeting)
def greet(greeting: Greeting) -> None:
    """Greet somebody."""
    print(greeting)


def app() -> typer.Typer:
    app = typer.Typer()
    app.command()(greet)
    return app


def test_fields_are_arguments_and_options() -> None:
    assert CliRunner().invoke(app(), ["Ada", "--times", "2"]).stdout == "Greeting(name='Ada', times=2)\n"


def test_a_default_of_a_field_is_that_of_the_option() -> None:
    assert CliRunner().invoke(app(), ["Ada"]).stdout == "Greeting(name='Ada', times=1)\n"


def test_help_has_the_sentences_of_the_verb_and_of_the_fields() -> None:
    text = CliRunner().invoke(app(), ["--help"]).stdout
    assert all(sentence in text for sentence in ("Greet somebody.", "Whom to greet.", "How often."))


def test_a_wrong_value_is_refused() -> None:
    assert CliRunner().invoke(app(), ["Ada", "--times", "0"]).exit_code == 2
