"""Where things stand in a picture, whatever the plan."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import pytest
from hypothesis import given, settings

from fluvial.planner import Plan
from fluvial.planner.drawing import View
from fluvial.planner.drawing.geometry import TURN, Box, Picture, Way
from fluvial.planner.drawing.layout import arrange
from fluvial.planner.drawing.scene import Drawing
from fluvial.planner.drawing.views import VIEWS
from generators.how_many import examples
from tests.planner.drawing.samples import circle, plans, visits

some = settings(max_examples=examples(120))


def scenes(plan: Plan) -> Iterator[tuple[Drawing, Picture]]:
    for view in VIEWS.values():
        drawing = view(plan)
        yield drawing, arrange(drawing)


def overlap(one: Box, other: Box) -> bool:
    beside = one.right <= other.x or other.right <= one.x
    return not (beside or one.bottom <= other.y or other.bottom <= one.y)


def within(inner: Box, outer: Box) -> bool:
    across = outer.x <= inner.x and inner.right <= outer.right
    return across and outer.y <= inner.y and inner.bottom <= outer.bottom


def pieces(way: Way) -> list[Box]:
    """Rectangles, one for each piece of a way, in which the piece must lie."""
    found = []
    down = True
    for one, other in pairwise(way):
        turn = one.y == other.y
        top = min(one.y, other.y) - (TURN if turn and not down else 0.0)
        height = TURN if turn else abs(one.y - other.y)
        found.append(Box(min(one.x, other.x), top, abs(one.x - other.x), height))
        down = down != turn
    return found


def touches(piece: Box, box: Box) -> bool:
    return overlap(Box(piece.x, piece.y, max(piece.width, 0.1), max(piece.height, 0.1)), box)


@some
@given(plans())
def test_no_two_boxes_of_nodes_or_labels_overlap(plan: Plan) -> None:
    for _, picture in scenes(plan):
        boxes = [*picture.nodes.values(), *picture.labels.values(), *picture.titles.values()]
        assert not [pair for pair in combinations(boxes, 2) if overlap(*pair)]


@some
@given(plans())
def test_an_edge_crosses_no_box_but_those_of_its_ends(plan: Plan) -> None:
    for _, picture in scenes(plan):
        for edge, way in picture.edges:
            others = [box for id, box in picture.nodes.items() if id not in (edge.source, edge.target)]
            others += [box for text, box in picture.labels.items() if text != edge.label]
            others += picture.titles.values()
            assert not [(piece, box) for piece in pieces(way) for box in others if touches(piece, box)]


@some
@given(plans())
def test_an_edge_leads_from_the_bottom_of_its_source_to_the_top_of_its_target(plan: Plan) -> None:
    for _, picture in scenes(plan):
        for edge, way in picture.edges:
            source, target = picture.nodes[edge.source], picture.nodes[edge.target]
            assert source.x < way[0].x < source.right
            assert way[0].y == source.bottom
            assert target.x < way[-1].x < target.right
            assert way[-1].y == target.y


@some
@given(plans())
def test_an_edge_passes_through_its_label(plan: Plan) -> None:
    for _, picture in scenes(plan):
        for edge, way in picture.edges:
            if edge.label is not None:
                assert any(touches(piece, picture.labels[edge.label]) for piece in pieces(way))


@some
@given(plans())
def test_stages_hold_their_operators_and_nothing_else(plan: Plan) -> None:
    for drawing, picture in scenes(plan):
        for group in drawing.groups:
            frame = picture.groups[group.id]
            for id, box in picture.nodes.items():
                assert within(box, frame) if id in group.members else not overlap(box, frame)
            assert not any(overlap(box, frame) for box in picture.labels.values())
            assert within(picture.titles[group.id], frame)
        assert not [pair for pair in combinations(picture.groups.values(), 2) if overlap(*pair)]


@some
@given(plans())
def test_an_edge_crosses_no_stage_that_it_does_not_serve(plan: Plan) -> None:
    for drawing, picture in scenes(plan):
        for edge, way in picture.edges:
            served = {group.id for group in drawing.groups if {edge.source, edge.target} & set(group.members)}
            others = [box for id, box in picture.groups.items() if id not in served]
            assert not [(piece, box) for piece in pieces(way) for box in others if touches(piece, box)]


@some
@given(plans())
def test_everything_lies_inside_the_picture(plan: Plan) -> None:
    for _, picture in scenes(plan):
        paper = Box(0, 0, picture.width, picture.height)
        boxes = [*picture.nodes.values(), *picture.labels.values(), *picture.groups.values()]
        assert all(within(box, paper) for box in boxes)
        assert all(within(piece, paper) for _, way in picture.edges for piece in pieces(way))


@some
@given(plans(most=12))
def test_the_same_scene_gives_the_same_picture(plan: Plan) -> None:
    for drawing, picture in scenes(plan):
        assert arrange(drawing) == picture


@pytest.mark.parametrize("view", VIEWS)
def test_edges_lead_down_where_the_plan_has_no_circle(view: View) -> None:
    picture = arrange(VIEWS[view](visits()))
    assert all(one.y <= other.y for _, way in picture.edges for one, other in pairwise(way))


def test_a_circle_of_stages_is_led_around_them() -> None:
    picture = arrange(VIEWS["operators"](circle()))
    upwards = [edge.source for edge, way in picture.edges if any(one.y > other.y for one, other in pairwise(way))]
    assert sorted(upwards) == ["again", "back"]
