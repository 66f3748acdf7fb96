"""The compiler, as the kinds of operators see it."""

from collections.abc import Mapping
from typing import Protocol

from ...size_limit import SizeLimit
from .source_text import CodePath, SourceText, Variables
from .stage_graph import StageGraph


class CodeWriter(Protocol):
    """Writes the code of a stage. `number[id]` distinguishes the variables of an operator from those of others.
    `trailers` says that records of intermediate streams carry the watermark."""

    @property
    def graph(self) -> StageGraph:
        """The stage whose code is written."""
        ...

    @property
    def trailers(self) -> bool:
        """Whether records of intermediate streams end in a trailer."""
        ...

    @property
    def limits(self) -> Mapping[str, SizeLimit]:
        """The limit of the records that an operator writes, by id, where there is one."""
        ...

    @property
    def text(self) -> SourceText:
        """The lines written so far."""
        ...

    @property
    def number(self) -> Mapping[str, int]:
        """A number for each operator, by id, which makes its variables unique."""
        ...

    def path(self, start: str, watermark: str) -> CodePath:
        """The code path of a starting point; `watermark` is the expression of the watermark there."""
        ...

    def stateful(self, start: str) -> list[str]:
        """The operators whose state a message from a starting point may change."""
        ...

    def follow(self, path: CodePath, id: str, names: Variables, depth: int) -> None:
        """Write the code of the operators behind an operator."""
        ...

    def dispatch(
        self, path: CodePath, readers: list[str], names: Variables, depth: int, failed: str, opened: str
    ) -> None:
        """Write the code that passes a message to `readers`. If one fails, it takes back the effects so far and runs
        `failed`; `opened` tracks the message, if it may be in flight."""
        ...

    def close(self, depth: int) -> None:
        """Write the code that ends one branch of a message in flight."""
        ...
