"""The verbs of a stream: which record each adds, what handle it returns, and what is refused where it stands."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import INT64, KeyedStream, MessageStream, Pipeline, PipelineError
from fluvial.dsl import operators as ops


def words() -> MessageStream[str]:
    return Pipeline("p").stream("words", value=str)


def length(word: str) -> int:
    return len(word)


async def look(word: str) -> list[str]:
    return [word]


wrong: Any = 3


def kinds(stream: MessageStream[Any]) -> list[str]:
    return [operator.kind for operator in stream._graph]


VERBS: list[tuple[Callable[[MessageStream[str]], MessageStream[Any]], type[ops.Operator]]] = [
    (lambda stream: stream.map(str.upper), ops.Map),
    (lambda stream: stream.filter(str.isalpha), ops.Filter),
    (lambda stream: stream.flat_map(str.split), ops.FlatMap),
    (lambda stream: stream.map_messages(lambda message: message), ops.MapMessages),
    (lambda stream: stream.async_flat_map(look, id="look"), ops.AsyncFlatMap),
    (lambda stream: stream.broadcast(id="all"), ops.Broadcast),
    (lambda stream: stream.merge(stream.map(str.upper)), ops.Merge),
    (lambda stream: stream.partition_by(length, id="by"), ops.PartitionBy),
]


@pytest.mark.parametrize(("verb", "record"), VERBS, ids=[record.kind for _, record in VERBS])
def test_a_verb_adds_its_record_behind_the_stream_and_returns_its_output(
    verb: Callable[[MessageStream[str]], MessageStream[Any]], record: type[ops.Operator]
) -> None:
    stream = words()
    after = verb(stream)
    assert type(after.operator) is record
    assert after.operator.inputs[0] == stream.operator.id
    assert stream.operator.kind == "stream"


def test_a_handle_may_be_used_twice() -> None:
    stream = words()
    first, second = stream.map(str.upper), stream.map(str.lower)
    assert first.operator.inputs == second.operator.inputs == (stream.operator.id,)


def test_only_partition_by_gives_a_stream_a_key() -> None:
    keyed = [record.kind for verb, record in VERBS if isinstance(verb(words()), KeyedStream)]
    assert keyed == ["partition_by"]


def test_a_split_has_a_branch_for_each_predicate_and_one_for_the_rest() -> None:
    stream = words()
    branches = stream.split(str.isalpha, str.isdigit)
    records = [branch.operator for branch in branches]
    assert [getattr(record, "index", None) for record in records] == [0, 1, 2]
    assert len({record.inputs for record in records}) == 1
    assert kinds(stream) == ["stream", "split", "branch", "branch", "branch"]


def test_the_type_of_a_key_is_taken_from_the_function_unless_it_is_given() -> None:
    annotated = words().partition_by(length, id="by")
    told: MessageStream[str] = words().partition_by(str.encode, id="by", key_type=bytes)
    records = [annotated, told]
    assert [getattr(one.operator, "key", None) for one in records] == [int, bytes]


def pair(word: str) -> tuple[str, int]:
    return word, len(word)


def is_long(word: str) -> bool:
    return len(word) > 9


@pytest.mark.parametrize(("fn", "key_type"), [(length, str), (str, int), (pair, tuple[str, str]), (pair, str)])
def test_a_key_type_that_contradicts_the_annotation_is_refused(fn: Any, key_type: Any) -> None:
    raised = error_of(lambda: words().partition_by(fn, id="by", key_type=key_type), PipelineError)
    assert_explains(raised, "partition_by 'by': its function returns ", None, "the declared type", "correct key_type=")


def test_a_key_type_that_may_be_right_is_accepted() -> None:
    anything: Any = words()

    def either(word: str) -> int | str:
        return word

    @wraps(length)
    def in_text(word: str) -> str:
        return str(length(word))

    for id, fn, key_type in (
        ("bool", is_long, int), ("union", either, str), ("wrapped", in_text, str), ("serde", length, INT64),
        ("unknown", lambda word: word, str), ("tuple", pair, tuple[str, int]),
    ):  # fmt: skip
        anything.partition_by(fn, id=id, key_type=key_type)


@pytest.mark.parametrize("iterate", [list, set, lambda stream: [*stream], lambda stream: 1 in stream])
def test_a_stream_that_is_iterated_says_how_to_read_it(iterate: Any) -> None:
    keyed = words().partition_by(length, id="by")
    for stream in words(), keyed:
        raised = error_of(partial(iterate, stream), PipelineError)
        assert_explains(raised, "was iterated", None, "a verb", "read them with fluvial consume name")


def test_send_to_ends_a_path_under_the_key_that_is_asked_for() -> None:
    stream = words()
    stream.send_to("out", key=length, value=str)
    *_, record = stream._graph
    assert isinstance(record, ops.SendTo)
    assert (record.stream, record.key, record.value, record.inputs) == ("out", length, str, (stream.operator.id,))


@pytest.mark.parametrize(
    ("alias", "verb"),
    [
        ("flatMap", "flat_map"),
        ("asyncFlatMap", "async_flat_map"),
        ("partitionBy", "partition_by"),
        ("sendTo", "send_to"),
    ],
)
def test_samzas_spelling_is_the_same_verb(alias: str, verb: str) -> None:
    assert getattr(MessageStream, alias) is getattr(MessageStream, verb)


def test_a_name_that_is_no_verb_is_an_attribute_error() -> None:
    stream: Any = words()
    with pytest.raises(AttributeError, match="MessageStream has no 'mapp'"):
        stream.mapp(str.upper)


REFUSED: list[tuple[Callable[[], object], str, str, str]] = [
    (lambda: words().map(wrong), "map got 3", "a function", ""),
    (lambda: words().send_to("two words"), "stream name 'two words'", "letters, digits", ""),
    (lambda: words().split(), "split got no predicates", "one function or more", "use filter"),
    (lambda: words().merge(), "merge got no streams", "one stream or more", "a.merge(b)"),
    (lambda: words().merge(words()), "merge got MessageStream(stream words)", "streams of the same pipeline", ""),
    (
        lambda: words().partition_by(lambda word: word[0], id="by"),
        "partition_by 'by': the type of its keys is not known",
        "a key type",
        "key_type=str",
    ),
    (
        lambda: getattr(words(), "window")(),  # noqa: B009 - it has none, as type checkers know
        "window on a stream without a key",
        "a keyed stream",
        "call .partition_by(",
    ),
]


@pytest.mark.parametrize(("call", "wrong", "expected", "remedy"), REFUSED, ids=[case[1] for case in REFUSED])
def test_what_makes_no_operator_is_refused(call: Callable[[], object], wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(call, PipelineError), wrong, None, expected, remedy)
