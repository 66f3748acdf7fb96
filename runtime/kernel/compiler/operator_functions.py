"""The functions that some operators have of their own in a stage's compiled code: they begin anew where no loop over an
input leads on."""

from typing import TYPE_CHECKING

from .source_text import CodePath, Variables

if TYPE_CHECKING:
    from .compiler import Compiler


def after_firing(compiler: "Compiler", id: str) -> None:
    """What follows a pane, a joined row, a change of a table, or what a processor emits: a dispatch of its own."""
    graph, text, number = compiler.graph, compiler.text, compiler.number[id]
    if graph.operators[id].is_table and not graph.followers[id]:  # it may be there for nothing else
        return
    watermark = f"now[{graph.node_out[id]}]"
    part = compiler.part(id, watermark)
    text.add(1, f"def after_{number}(k, v, t, h):")
    text.add(2, f"emitted[{number}] += 1", id)
    # Time waits for what is under way behind a processor, whichever output it took.
    origin = graph.side_of.get(id, id)
    opened = f"in_flight = open_firing({origin!r}, k, v, t, {watermark})"
    failed = f"failed_firing({origin!r}, k, v, t, error)"
    compiler.dispatch(part, list(graph.followers[id]), Variables(of=id), 2, failed, opened)


def after_call(compiler: "Compiler", id: str) -> None:
    """What follows an asynchronous call that has ended."""
    number, text = compiler.number[id], compiler.text
    part = CodePath(id, True, False, compiler.graph.node_in[id], "in_flight.watermark", text)
    text.add(1, f"def after_{number}(call):")
    text.add(2, "t, h, in_flight = call.item")
    text.add(2, "k = call.key")
    text.add(2, "if not in_flight.failed:")
    text.add(3, "try:")
    text.add(4, "if call.error is not None:", id)
    text.add(5, "raise call.take_error()", id)
    text.add(4, f"emitted[{number}] += len(call.results)", id)
    if compiler.graph.followers[id]:
        text.add(4, "for v in call.results:", id)
        compiler.follow(part, id, Variables(), 5)
    text.add(3, "except Exception as error:")
    text.add(4, "failed_in_flight(in_flight, error)")
    compiler.close(2)


def merge(compiler: "Compiler", id: str) -> None:
    """A merge that several ways lead to is a function, so that what follows it is written once."""
    graph, number = compiler.graph, compiler.number[id]
    tracked = bool(graph.tracked)
    part = CodePath(id, tracked, True, graph.node_in[id], "w", compiler.text)
    later = "".join(f", later_{compiler.number[stateful]}" for stateful in compiler.stateful(id)) if not tracked else ""
    compiler.text.add(1, f"def merge_{number}(k, v, t, h, {'in_flight' if tracked else 'w'}{later}):")
    compiler.follow(part, id, Variables(), 2)
