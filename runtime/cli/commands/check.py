"""The verb `check`: checks a pipeline, its system and its stored state before it runs."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ....dsl import operators as ops
from ....dsl.annotations import UNKNOWN
from ....dsl.errors import FluvialError, SystemProblem
from ....dsl.pipeline import Pipeline
from ....dsl.serde import Serde, source_key_serde, type_name, value_serde
from ....dsl.text import plural
from ....planner.ends_of_input import DEPENDS, end_dependences
from ....planner.journals import journals_of
from ....planner.plan import Plan
from ....planner.settings import Settings
from ....planner.stream_names import checkpoints
from ....planner.type_inference import flows, written_flow
from ....planner.validation import written_by
from ...launch import EngineName, engine_plan
from ...local.checkpoints.border_compatibility import refuse_changed_borders
from ...local.checkpoints.checkpoint import checkpoints_in
from ...local.checkpoints.migration import kept_states, refuse_other_grouping, refuse_recreated
from ...local.checkpoints.rescaled import changed_stages, plan_before
from ...local.stores.survey import missing_stores
from ...preflight.open_clients import open_clients
from ...preflight.other_engine import other_engine_warning
from ...preflight.requirements import has_pyspark, missing
from ...preflight.state_compatibility import refuse_changed, reset_command, undeclared_states
from ...preflight.unsupported import caveats, limitations
from ...state.pipeline_folder import remote_folder
from ...systems.contract import ProducingSystem, StreamUse, System
from ...systems.reads import read_to_ends
from .type_check import foreign_classes

# The exit codes of PipelineError and SystemProblem: a run would end with the same.
WRONG = 3
OUT_OF_REACH = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check. `code` is its exit code, 0 if all is well; `remedy` says what to do. A finding with a
    remedy and code 0 is a warning."""

    text: str
    code: int = 0
    remedy: str = ""

    def __str__(self) -> str:
        text = self.text.replace("\n", "\n  ")
        lines = [f"{'✗' if self.code else '!' if self.remedy else '✓'} {text}"]
        return "\n".join([*lines, f"  to do: {self.remedy}"] if self.remedy else lines)


def check(
    pipeline: Pipeline, engine: EngineName, system: System | None, settings: Settings | None = None
) -> Iterator[Finding]:
    """Check the system, the plan, the streams, the stored state, the types and the functions. After a failure the
    checks that depend on it are left out."""
    settings = Settings() if settings is None else settings
    streams: System | None = None
    existing: dict[str, int] = {}
    try:
        streams = system
        existing = {} if streams is None else streams.admin().streams()
        if streams is not None:
            yield Finding(f"system: {streams.url} is in reach, with {plural(len(existing), 'stream')}")
    except (SystemProblem, OSError) as error:
        streams = None
        yield Finding(f"system: {error}", OUT_OF_REACH)
    try:
        plan = engine_plan(pipeline, engine, streams, existing, settings)
    except FluvialError as error:
        yield Finding(f"plan: {error}", error.exit_code)
        return
    yield Finding(f"plan: {plural(len(plan.stages), 'stage')}, {plural(len(plan.streams), 'stream')}")
    if streams is not None:
        yield from _sources(plan, streams, existing)
        yield from _outputs(plan, existing)
        yield from _settings(plan, engine, streams, existing)
        yield from _stored_state(plan, engine, streams, settings)
        yield from _inputs(plan, engine, streams, settings)
        if engine == "local":
            yield from _borders(plan, streams)
    yield from _types(pipeline)
    yield from _serdes(pipeline)
    yield from _engine(plan, engine, system.url if system else "", settings)
    yield from _ends_of_input(plan)
    yield from _clients(pipeline)
    if engine == "spark":
        yield from _functions(pipeline)


def _sources(plan: Plan, system: System, existing: dict[str, int]) -> Iterator[Finding]:
    for source in plan.pipeline.sources:
        if source.stream not in existing:
            remedy = f"fluvial produce {source.stream} FILE --system {system.url}"
            yield Finding(f"source: there is no stream {source.stream!r} in {system.url}", WRONG, remedy)
            continue
        yield Finding(f"source: {source.stream} has {plural(existing[source.stream], 'partition')}")
        yield from _first_record(source, system)


def _first_record(source: ops.Source, system: System) -> Iterator[Finding]:
    """Whether the first record of a stream has the types that the pipeline declares; nothing for an empty stream."""
    key, value = _first(source.stream, system)
    if key is not None and source.key is not None:
        yield _key(source, key)
    if value is None:
        return
    serde = value_serde(source.value)
    try:
        first = serde.decode(value)
        same = serde.check is not None or _round_trips(first, serde)
    except SystemProblem as error:
        yield Finding(f"value: {error}", OUT_OF_REACH)
        return
    except Exception as error:  # a Serde may be the user's, and raise anything
        remedy = f"correct value= at {source.origin}, or see what is there: fluvial consume {source.stream} --limit 1"
        yield Finding(f"value: the first record of {source.stream} is no {_name(source.value)}: {error}", WRONG, remedy)
        return
    if same:
        yield Finding(f"value: the first record of {source.stream} is a {_name(source.value)}")
    else:
        remedy = f"correct the Serde at {source.origin}"
        yield Finding(
            f"value: the first record of {source.stream} changes when it is encoded and decoded", WRONG, remedy
        )


def _key(source: ops.Source, key: bytes) -> Finding:
    try:
        source_key_serde(source.key).decode(key)
    except SystemProblem as error:
        return Finding(f"key: {error}", OUT_OF_REACH)
    except Exception as error:  # a Serde may be the user's, and raise anything
        remedy = f"correct key= at {source.origin}, or see what is there: fluvial consume {source.stream} --limit 1"
        return Finding(f"key: the first of {source.stream} is no {_name(source.key)}: {error}", WRONG, remedy)
    return Finding(f"key: the first of {source.stream} is a {_name(source.key)}")


def _round_trips(value: Any, serde: Serde[Any]) -> bool:
    data = serde.encode(value)
    again = serde.decode(data)
    return bool(again == value) or serde.encode(again) == data


def _first(stream: str, system: System) -> tuple[bytes | None, bytes | None]:
    """Key and value of the first record; None for each if there is no record."""
    admin = system.admin()
    with closing(read_to_ends(system, stream, admin.starts(stream), admin.ends(stream), max_records=1)) as batches:
        return next((batch.records[0][:2] for batch in batches if batch.records), (None, None))


def _outputs(plan: Plan, existing: dict[str, int]) -> Iterator[Finding]:
    for stream in plan.streams:
        if stream.kind != "source":
            state = "has" if stream.name in existing else "will be made with"
            yield Finding(f"{stream.kind}: {stream.name} {state} {plural(stream.partitions, 'partition')}")


def _settings(plan: Plan, engine: EngineName, system: System, existing: dict[str, int]) -> Iterator[Finding]:
    """Whether streams that exist have the settings that a run needs, and which of their settings change messages."""
    if not isinstance(system, ProducingSystem):
        return
    admin, uses = system.admin(), _uses(plan, engine)
    try:
        for stream, (kind, use) in uses.items():
            if stream not in existing:
                continue
            try:
                admin.check(stream, use)
            except SystemProblem as problem:
                yield Finding(f"{kind}: {problem}", problem.exit_code)
            for warning in admin.warnings(stream) if use == "messages" else ():
                yield Finding(f"{kind}: {warning.text}", remedy=warning.remedy)
    except SystemProblem as problem:
        yield Finding(f"settings: {problem}", problem.exit_code)


def _uses(plan: Plan, engine: EngineName) -> dict[str, tuple[str, StreamUse]]:
    """The streams that a run writes, by name: their kind, and their use."""
    uses: dict[str, tuple[str, StreamUse]] = {
        stream.name: (stream.kind, "intermediate" if stream.kind == "intermediate" else "messages")
        for stream in plan.streams
        if stream.kind != "source"
    }
    if engine == "local":
        uses |= {store.changelog: ("changelog", "changelog") for store in plan.stores}
        uses |= {one.stream: ("journal", "journal") for one in journals_of(plan)}
        uses[checkpoints(plan.name)] = ("checkpoints", "checkpoints")
    return uses


def _stored_state(plan: Plan, engine: EngineName, system: System, settings: Settings) -> Iterator[Finding]:
    """Whether a run can continue with the state that earlier runs have stored."""
    # On Spark a query without state has a record, too: it says which stages are behind shuffles.
    cannot_run = missing(engine) is not None or bool(limitations(plan, engine, system.url, settings))
    if cannot_run if engine == "spark" else not plan.stores:
        return
    try:
        if engine == "spark":
            records = import_module("fluvial.runtime.spark.engine").check_checkpoints(plan, system, settings)
        else:
            records = kept_states(plan, checkpoints_in(system, plan.name))
            refuse_changed(plan, records, reset_command(plan, system, settings))
            for problem in missing_stores(plan, system, settings):
                raise problem
    except FluvialError as error:
        yield Finding(f"state: {error}", error.exit_code)
    else:
        if engine == "spark" and (url := remote_folder(settings)) is not None:
            text = (
                f"state: what is stored in {url} is not looked at: Spark alone reaches it, which a check does not start"
            )
            remedy = "a run compares it with the pipeline before it reads or writes any message"
            yield Finding(text, remedy=remedy)
            return
        operators = ", ".join(store.operator for store in plan.stores) or "queries"
        stored = f"a run can continue with the stored state of {operators}"
        yield Finding(f"state: {stored if records else f'nothing is stored yet of {operators}'}")
        for label, names in undeclared_states(plan, records).items():
            yield Finding(f"state: {label} leaves unused what it has stored before: {', '.join(names)}")
        if engine == "spark":
            yield from _key_buckets(plan, system, settings)


def _elasticity(plan: Plan, system: System) -> Iterator[Finding]:
    """Whether a run splits or merges tasks first."""
    try:
        stages = changed_stages(plan_before(plan, checkpoints_in(system, plan.name)), plan)
    except FluvialError as error:
        yield Finding(f"elasticity: {error}", error.exit_code)
        return
    changes = [f"stage {new.name} from {old.elasticity} to {new.elasticity}" for old, new in stages]
    if changes:
        text = f"elasticity: a run changes the key buckets of each task first: {', '.join(changes)}"
        yield Finding(text, remedy="stop all containers before that; see docs/guide/elasticity.md")


def _key_buckets(plan: Plan, system: System, settings: Settings) -> Iterator[Finding]:
    """Whether a checkpoint lets Spark keep state in as many tasks as a new one would."""
    if few := import_module("fluvial.runtime.spark.engine").few_key_buckets(plan, system, settings):
        text = f"key buckets: the checkpoint has {few}, so at most {few} tasks keep state; a new one has 64, or 512"
        remedy = (
            "where Spark has more cores, run with --spark-buckets 64, or 512: its first batch reads and writes all "
        )
        yield Finding(text, remedy=f"{remedy}state, and there is no way back; else set spark_buckets={few}")


def _borders(plan: Plan, system: System) -> Iterator[Finding]:
    """Whether a run reads what earlier runs have left between stages as it was written. On Spark nothing is left."""
    if not plan.pipeline.borders:
        return
    try:
        refuse_changed_borders(plan, system, checkpoints_in(system, plan.name))
    except FluvialError as error:
        yield Finding(f"intermediate: {error}", error.exit_code)


def _inputs(plan: Plan, engine: EngineName, system: System, settings: Settings) -> Iterator[Finding]:
    """Whether the inputs are the streams that the engine has read before. On Spark its checkpoints tell."""
    try:
        if other := other_engine_warning(plan, system, settings, engine):
            yield Finding(f"engine: {other.wrong}", remedy=other.remedy)
        if engine == "local":
            yield from _elasticity(plan, system)
            stored = checkpoints_in(system, plan.name)
            reset = reset_command(plan, system, settings)
            refuse_recreated(plan, system, stored, reset)
            refuse_other_grouping(plan, stored, reset)
    except FluvialError as problem:
        yield Finding(f"input: {problem}", problem.exit_code)


def _operators_at_streams(pipeline: Pipeline) -> list[ops.Operator]:
    """The operators that read or write a stream."""
    writing = (one for one in pipeline.operators if one.role == "terminal" and written_by(pipeline, one))
    return [*pipeline.sources, *writing]


def _types(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether the values of each stream can be read back with their type."""
    known = flows(pipeline)
    for operator in _operators_at_streams(pipeline):
        does = "writes" if operator.reads is None else "reads"
        type_ = written_flow(operator, known).value
        if type_ is UNKNOWN:
            yield Finding(f"type: {operator.label} {does} values of unknown type, as JSON")
        elif classes := foreign_classes(type_):
            remedy = f"at {operator.origin}: pass a Serde as value=, or use a dataclass, Struct or TypedDict"
            yield Finding(
                f"type: {operator.label} {does} {_name(type_)}; JSON cannot hold {', '.join(classes)}", WRONG, remedy
            )
        else:
            yield Finding(f"type: {operator.label} {does} {_name(type_)}")


def _serdes(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether what serdes need is in reach, such as a registry, and whether it accepts the schemas of outputs."""
    for serde, writes in _checkable(pipeline):
        assert serde.check is not None
        try:
            yield Finding(f"serde: {serde.name}: {serde.check(writes)}")
        except FluvialError as error:
            yield Finding(f"serde: {serde.name}: {error}", error.exit_code)


def _checkable(pipeline: Pipeline) -> list[tuple[Serde[Any], bool]]:
    """The serdes that have a check, each at most once for reading and once for writing: (serde, whether it writes)."""
    known = flows(pipeline)
    serdes: list[tuple[Serde[Any], bool]] = []
    for operator in _operators_at_streams(pipeline):
        flow, writes = written_flow(operator, known), operator.reads is None
        # The keys of an output are encoded before: only its value has a serde.
        kinds = (flow.value, flow.key) if operator.is_border or not writes else (flow.value,)
        serdes += [(kind, writes) for kind in kinds if isinstance(kind, Serde) and kind.check is not None]
    return [one for number, one in enumerate(serdes) if one not in serdes[:number]]


def _name(type_: Any) -> str:
    return type_.name if isinstance(type_, Serde) else type_name(type_)


def _ends_of_input(plan: Plan) -> Iterator[Finding]:
    """Whether several runs to the end of their input have the results that one run has."""
    for one in end_dependences(plan):
        remedy = f"use --until caught-up where later runs go on, for {one.operator} at {one.origin}"
        yield Finding(f"end of input: with --until end {DEPENDS}: {one.operator}: {one.reason}", remedy=remedy)


def _clients(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether functions use clients that were made where the pipeline is written: these belong to no event loop of a
    run, and to no other process."""
    for client in open_clients(pipeline):
        remedy = f"at {client.operator.origin}: make it by resource(factory), and pass resource= where it is used"
        if client.operator.async_call is None:
            remedy = f"at {client.operator.origin}: make it in open(), and close it in close()"
        yield Finding(f"client: {client}", remedy=remedy)


def _engine(plan: Plan, engine: EngineName, system: str, settings: Settings) -> Iterator[Finding]:
    unsupported = limitations(plan, engine, system, settings)
    for limitation in unsupported:
        yield Finding(
            f"engine: {engine} cannot run {limitation.subject}; {limitation.reason}",
            WRONG,
            "choose another engine or system",
        )
    requirement = missing(engine)
    if requirement is not None:
        yield Finding(f"engine: {engine} cannot start here: {requirement.missing}", WRONG, requirement.remedy)
    elif not unsupported:
        yield Finding(f"engine: {engine} runs all of it")
    for caveat in caveats(plan, engine, system, settings):
        yield Finding(f"guarantee: {caveat.subject}: {caveat.reason}")


def _functions(pipeline: Pipeline) -> Iterator[Finding]:
    """Whether every operator can be sent to Spark's workers."""
    if not has_pyspark():
        return
    # Imported by name, since only the Spark engine may depend on pyspark. Only its pickler is used: no session starts.
    packaging = import_module("fluvial.runtime.spark.lowering.packaging")
    failed = 0
    with packaging.by_value(pipeline):
        for operator in pipeline.operators:
            try:
                packaging.pickling.dumps(operator)
            except Exception as error:  # pickling runs the users' own methods
                failed += 1
                remedy = f"at {operator.origin}: make what cannot be pickled by resource(factory), or in an open()"
                yield Finding(f"functions: {operator.label} cannot be sent to Spark's workers: {error}", WRONG, remedy)
    if not failed:
        yield Finding("functions: all can be sent to Spark's workers")
