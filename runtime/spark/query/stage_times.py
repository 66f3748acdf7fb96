"""How far event time has come at the streams of a query, as the driver finds it from the watermarks of its sources.

Each stage has a graph of watermarks of its own (see `watermarks`), here without state: whatever a bucket keeps, it has
fired all that is due by the watermark of its batch. So the watermark behind a stage depends on its inputs alone, and no
bucket needs to report one.
"""

from collections.abc import Mapping

from ....planner.plan import Plan, PlannedStage
from ....planner.task_assignment import StageTasks
from ...kernel.compiler.graph_builder import build_stage_graph
from ...kernel.time.bounds import END, START
from ...kernel.time.input_progress import InputProgress
from ...kernel.time.position import Position
from ...kernel.time.watermarks import WatermarkGraph
from ..batch_times import StreamTime
from ..lowering.levels import Levels

SourceTimes = Mapping[str, Mapping[int, StreamTime]]
"""By stream, and partition."""


class StageTimes:
    """The watermarks of all stages of a query, which the driver finds without their messages."""

    def __init__(self, plan: Plan, levels: Levels) -> None:
        in_order = sorted(levels.of_stage, key=levels.of_stage.__getitem__)
        self._stages = [_StageTime(plan, plan.stage(id)) for id in in_order]
        self._read = [stream for stream, level in levels.of_stream.items() if level > 0]
        self.follow_clock = any(node.kind == "clock" for stage in self._stages for node in stage.watermarks.nodes)

    def advance(self, sources: SourceTimes, clock: int) -> dict[str, StreamTime]:
        """Advance all stages to what is known of the sources' partitions and to the processing time. Returns the
        watermark of each stream that is read behind a shuffle."""
        times: dict[str, StreamTime] = {}
        for stage in self._stages:
            stage.advance(sources, times, clock)
        return {stream: times[stream] for stream in self._read if stream in times}


class _NoState:
    """A stateful operator that keeps nothing."""

    def advance(self, watermark: int) -> bool:
        return True

    def next_due(self) -> int:
        return END


class _StageTime:
    """The watermarks of one stage. The producers of a source are its partitions; what another stage writes has one."""

    def __init__(self, plan: Plan, stage: PlannedStage) -> None:
        self._sources = [name for name in stage.inputs if plan.stream(name).kind == "source"]
        self._graph = graph = build_stage_graph(plan, stage.id, dict.fromkeys(stage.inputs, "given"))
        self.watermarks = WatermarkGraph(graph.nodes, lambda _: None)
        partitions = {name: StageTasks(plan.stream(name).partitions) for name in self._sources}
        producers = dict.fromkeys(stage.inputs, StageTasks(1)) | partitions
        self._inputs = InputProgress(graph.inputs, self.watermarks, Position(), producers, lambda _: True)
        for id, operator in graph.operators.items():
            if operator.role == "both":
                self.watermarks.attach(id, _NoState())
        borders = [border.id for border in plan.pipeline.borders if border.id in stage.operators]
        self._borders = {id: plan.operator(id).writes[0] for id in borders}

    def advance(self, sources: SourceTimes, times: dict[str, StreamTime], clock: int) -> None:
        """Advance to the times of the stage's inputs, and add those of the streams that it reads and writes."""
        self.watermarks.set_clock(clock)
        self._inputs.report_all(
            (name, partition, watermark, idle)
            for name in self._sources
            for partition, (watermark, idle) in sources.get(name, {}).items()
        )
        self._inputs.set_all({name: times[name] for name in self._graph.inputs if name in times})
        reached = {name: self.watermarks.of_nodes.stream_time(name) for name in self._sources}
        reached |= {stream: self._behind(border) for border, stream in self._borders.items()}
        times |= {stream: time for stream, time in reached.items() if time != (START, False)}

    def _behind(self, border: str) -> StreamTime:
        node = self._graph.node_in[border]
        return self.watermarks.of_nodes.reported(node), self.watermarks.idle[node]
