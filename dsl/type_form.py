"""What stands for a type in a program: a class, or an expression that is none, such as `int | None`."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers know this module without its being installed.
    from typing_extensions import TypeForm as TypeForm
else:
    TypeForm = type
