"""The text of compiled code while it is written, and the operator of each line."""

import linecache
import zlib
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType

FILE_PREFIX = "<fluvial stage "
_OPERATORS: dict[str, dict[int, str]] = {}


def operator_at(file: str, line: int) -> str | None:
    """The id of an operator; None for a line of no operator, and for a file that is not compiled code."""
    return _OPERATORS.get(file, {}).get(line)


@dataclass(slots=True)
class Variables:
    """The variables that hold a message at one point of the code. `of` is the operator that the message comes from."""

    key: str = "k"
    value: str = "v"
    timestamp: str = "t"
    headers: str = "h"
    of: str = ""

    def __str__(self) -> str:
        return f"{self.key}, {self.value}, {self.timestamp}, {self.headers}"


@dataclass(slots=True)
class SourceText:
    """Lines of code that are being written, each with its operator."""

    lines: list[str] = field(default_factory=list)
    operators: dict[int, str] = field(default_factory=dict)

    def add(self, depth: int, line: str, operator: str | None = None) -> None:
        """Append a line that is nested `depth` deep, 1 for the outermost. An error in it names `operator`."""
        self.lines.append("    " * (depth - 1) + line)
        if operator is not None:
            self.operators[len(self.lines)] = operator

    def catch(self, depth: int) -> None:
        """Catch as `error` all that a user's function raises, but for what ends the process."""
        self.add(depth, "except INTERRUPTIONS:")
        self.add(depth + 1, "raise")
        self.add(depth, "except BaseException as error:")


@dataclass(slots=True)
class CodePath:
    """The code from one starting point: an input, or an operator whose outputs are processed in another call. `node` is
    the watermark node of its messages, and `watermark` the expression of their watermark. `tracked` says that they are
    tracked while in flight.

    `risky` says that a message may have more than one effect, so that a failure must take back earlier effects.
    `looped` says that the code is a loop over a batch, which counts in local variables.
    """

    start: str
    tracked: bool
    risky: bool
    node: int
    watermark: str
    text: SourceText
    looped: bool = False


def compiled(text: SourceText, stage: str) -> CodeType:
    """Compile a text. From then on `operator_at` knows its lines. Tracebacks show them too, since the text is put into
    `linecache`, as the standard library does with interactive input."""
    source = "\n".join(text.lines) + "\n"
    file = f"{FILE_PREFIX}{stage} {zlib.crc32(source.encode()):08x}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    _OPERATORS[file] = text.operators
    return _compiled(source, file)


# A run that is started again in this process, as `PipelineDriver.restart` does, has the same code.
@lru_cache(maxsize=32)
def _compiled(source: str, file: str) -> CodeType:
    return compile(source, file, "exec")
