"""Runs that are cut off, and go on: calls whose results were kept are answered from the journal, on each system."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.sending import KEEPING, ProducingSystem, stores_of, system_named
from engines.targets import contents, write
from fluvial.dsl import MessageError, Pipeline, count, dead_letter, tumbling
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import reset, run, set_offsets
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination import exclusion
from fluvial.runtime.systems import System
from generators.counters import Counter

ITEMS = 8


class Service:
    """A service that is paid for each call. It refuses what is `refused`."""

    def __init__(self, refused: str = "") -> None:
        self.calls: list[str] = []
        self.refused = refused

    async def ask(self, item: str) -> list[str]:
        self.calls.append(item)
        if item == self.refused:
            raise ValueError("refused")
        return [f"{item}!"]


def pipeline(service: Service, *, counts: bool = False, **options: Any) -> Pipeline:
    made = Pipeline("p", **options)
    asked = made.stream("in", key=str, value=str).async_flat_map(
        service.ask, id="ask", order="input", max_in_flight=1, journal=True
    )
    if counts:
        asked.map(len).process(Counter(), id="counts").send_to("counts")
    asked.send_to("out", value=str)
    return made


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "ANSWER_SECONDS", 0.05)


@pytest.fixture(params=KEEPING)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return filled(system_named(request.param, tmp_path / "log"))


def filled(system: System) -> System:
    write(system, {"in": [[(b"k", b"%d" % number, 0, ()) for number in range(ITEMS)]]})
    return system


def go(service: Service, system: System, guarantee: Guarantee = "exactly_once", **options: Any) -> list[str]:
    """The calls of a run."""
    service.calls = []
    with stores_of(system):
        try:
            run(pipeline(service, **options), system=system, until="end", settings=Settings(guarantee=guarantee))
        except MessageError:
            assert service.refused
    return service.calls


def numbers(first: int, last: int) -> list[str]:
    return [str(number) for number in range(first, last + 1)]


@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_run_that_a_message_has_ended_pays_for_no_call_twice(
    system: System, guarantee: Guarantee, counts: bool
) -> None:
    service = Service(refused="5")
    assert go(service, system, guarantee, counts=counts)[:6] == numbers(0, 5)
    again = go(service, system, guarantee, counts=counts)
    assert again[0] == "5"
    service.refused = ""
    assert go(service, system, guarantee, counts=counts)[0] == "5"
    if guarantee == "exactly_once":
        assert [record[1] for record in contents(system, "out")] == [b"%d!" % number for number in range(ITEMS)]
    service.calls = []
    assert go(service, system, guarantee, counts=counts) == []


def test_what_failed_and_was_put_aside_is_no_result(system: System) -> None:
    service = Service(refused="3")
    go(service, system, on_error=dead_letter())
    assert service.calls == numbers(0, ITEMS - 1)
    assert system.admin().ends("p-ask-journal") == [ITEMS - 1]
    assert len(contents(system, "p-dead-letters")) == 1


@pytest.fixture(params=["log", "sent"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    """A system that can be reset, on which a run was cut off whose results count."""
    return cut_off(system_named(request.param, tmp_path / "log"))


def cut_off(system: System) -> System:
    go(Service(refused="5"), filled(system))
    return system


def test_messages_whose_offsets_are_set_are_called_for_again(kept: System) -> None:
    set_offsets(pipeline(Service()), {"in": "earliest"}, system=kept)
    assert go(Service(), kept) == numbers(0, ITEMS - 1)


@pytest.mark.parametrize("to", [None, "earliest"])
def test_a_reset_removes_journals(kept: System, to: Any) -> None:
    steps = reset(pipeline(Service()), to=to, system=kept)
    assert "journal p-ask-journal" in map(str, steps)
    assert go(Service(), kept) == numbers(0, ITEMS - 1)


def test_the_journal_of_an_operator_is_removed_alone(kept: System) -> None:
    steps = reset(pipeline(Service()), states=["ask"], system=kept)
    assert {step.kind for step in steps} <= {"journal", "checkpoint"}
    assert go(Service(), kept) == numbers(0, ITEMS - 1)


def test_a_topic_that_is_reset_is_called_for_again() -> None:
    kept = cut_off(ProducingSystem())
    reset(pipeline(Service()), inputs=["in"], system=kept)
    assert go(Service(), kept) == numbers(0, ITEMS - 1)


def test_a_journal_that_somebody_has_removed_is_begun_anew() -> None:
    system = ProducingSystem()
    go(Service(), filled(system))
    system.admin().remove("p-ask-journal")
    write(system, {"in": [[(b"k", b"last", 0, ())]]})
    assert go(Service(), system) == ["last"]


def test_calls_that_come_in_another_order_after_a_crash_are_not_given_the_results_of_each_other() -> None:
    system, service, order = ProducingSystem(), Service(refused="b"), ["a", "b"]
    made = Pipeline("p")
    parts = made.stream("in", value=str).flat_map(lambda _: order)
    parts.async_flat_map(service.ask, id="ask", order="input", max_in_flight=1, journal=True).send_to("out")
    write(system, {"in": [[(None, b"1", 0, ())]]})
    with pytest.raises(MessageError):
        run(made, system=system, until="end")
    service.refused, order[:] = "", ["b", "a"]
    run(made, system=system, until="end")
    assert [record[1] for record in contents(system, "out")] == [b"b!", b"a!"]


def test_panes_of_a_window_that_is_gone_do_not_keep_the_journal_from_being_trimmed() -> None:
    def counting(window: str, service: Service) -> Pipeline:
        made = Pipeline("p")
        panes = made.stream("in", key=str, value=str).window(tumbling(timedelta(seconds=1)), count(), id=window)
        texts = panes.map(lambda pane: f"{pane.window.start}")
        texts.async_flat_map(service.ask, id="ask", order="input", max_in_flight=1, journal=True).send_to("out")
        return made

    system = ProducingSystem()
    write(system, {"in": [[(b"k", b"1", time, ()) for time in (0, 1000, 2000)]]})
    with pytest.raises(MessageError):
        run(counting("w", Service(refused="1000")), system=system, until="end")
    (kept,) = system.admin().ends("p-ask-journal")
    assert kept == 1
    run(counting("other", Service()), system=system, until="end")
    assert checkpoints_in(system, "p")["in/0"].journals["ask"] >= kept
