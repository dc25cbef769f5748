"""Regions: where a localised basis lives, and how its weights end."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supple.errors import SuppleError
from supple.mesh.embedding import locate
from supple.mesh.filling.tetrahedralise import tetrahedralise
from supple.mesh.tets import TetMesh
from supple.reduction.regions.handles import Handle, handle_vertices
from supple.reduction.regions.region import Region
from supple.reduction.regions.region_weights import (
    border_jump,
    covering_threshold,
    handle_weights,
    region_weights,
    regions_of,
    stored_fraction,
)
from supple.rig.tets.bones import Bones, held_tets
from supple.scenes.bodies.beam import beam
from supple.scenes.bodies.starfish import starfish
from supple.scenes.characters.character_scene import scene

SIZE = (1.0, 0.2, 0.2)


@cache
def bar(cells: int = 20) -> TetMesh:
    return beam(SIZE, (cells, cells // 5, cells // 5))


def along(*places: float) -> list[Handle]:
    return [Handle(f"at {x}", np.array([[x, 0.1, 0.1]])) for x in places]


def test_the_remap_is_the_papers_with_exact_zeros_below_the_threshold():
    weights = np.linspace(0, 1, 201)
    remapped = region_weights(weights, 0.1, 0.5)
    assert (remapped[weights <= 0.1] == 0).all()
    assert (remapped[weights > 0.1001] > 0).all()
    above = weights[weights > 0.1]
    np.testing.assert_allclose(remapped[weights > 0.1], ((above - 0.1) / 0.9) ** 0.5, rtol=1e-12)
    assert region_weights(1.0, 0.3, 2.0) == 1.0
    assert region_weights(np.zeros((0, 3))).shape == (0, 3)


@given(w=st.floats(0, 1), eta=st.floats(0, 0.99), kappa=st.floats(0.01, 10), more=st.floats(0, 1))
def test_the_remap_grows_and_stays_within_its_bounds(w, eta, kappa, more):
    low, high = region_weights([w, min(1.0, w + more)], eta, kappa)
    assert 0 <= low <= high <= 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (([0.5], 1.0), "threshold is 1; it must be at least 0 and less than 1"),
        (([0.5], -0.1), "threshold"),
        (([0.5], np.nan), "threshold: not finite"),
        (([0.5], 0.1, 0.0), "exponent is 0; it must be positive"),
        (([0.5], 0.1, np.inf), "exponent: not finite"),
        (([1.5],), "weights must be from 0 to 1"),
        (([np.nan],), "weights: not finite"),
        ((["a"],), "weights must be numbers"),
    ],
)
def test_a_bad_remap_is_an_error_with_the_reason(arguments, said):
    with pytest.raises(SuppleError, match=said):
        region_weights(*arguments)


def test_regions_hold_the_vertices_above_the_threshold_and_nothing_fixed():
    mesh, handles = bar(), along(0.1, 0.5, 0.9)
    fixed = np.flatnonzero(mesh.vertices[:, 2] == 0)
    regions = regions_of(mesh, handles, fixed, threshold=0.2, exponent=0.7)
    weights = handle_weights(mesh, handles)
    weights[fixed] = 0.0
    assert [region.name for region in regions] == [handle.name for handle in handles]
    for region, column in zip(regions, weights.T, strict=True):
        np.testing.assert_array_equal(region.vertices, np.flatnonzero(column > 0.2))
        np.testing.assert_array_equal(
            region.weights, region_weights(column[region.vertices], 0.2, 0.7)
        )


def test_a_handle_far_along_is_no_part_of_the_first_region():
    regions = regions_of(bar(), along(0.05, 0.5, 0.95))
    x = bar().vertices[:, 0]
    assert x[regions[0].vertices].max() < 0.55
    assert x[regions[2].vertices].min() > 0.45
    assert np.ptp(x[regions[1].vertices]) < 0.9


def test_every_vertex_that_moves_is_in_a_region_however_many_there_are():
    # Fourteen arms, all as far from the middle: no weight there can be above 1/14.
    rays = np.array([[np.cos(a), np.sin(a), 0] for a in np.arange(14) * 2 * np.pi / 14])
    centre = beam((1, 1, 0.1), (30, 30, 2))
    mesh = TetMesh(centre.vertices - [0.5, 0.5, 0.05], centre.tets)
    handles = [Handle(f"arm {k}", 0.45 * ray[None]) for k, ray in enumerate(rays)]
    weights = handle_weights(mesh, handles)
    assert weights.max(axis=1).min() < 0.1  # or the threshold would not need to give way
    used = covering_threshold(weights)
    assert 0 < used < 0.1
    regions = regions_of(mesh, handles, weights=weights)
    covered = np.zeros(len(mesh.vertices), bool)
    for region in regions:
        covered[region.vertices] = True
    assert covered.all()
    assert min(region.weights.max() for region in regions) == 1.0


def test_the_papers_threshold_stands_where_it_covers_all():
    assert covering_threshold(np.array([[0.3, 0.7], [0.5, 0.5]]), 0.1) == 0.1
    assert covering_threshold(np.array([[0.05] * 20])) == pytest.approx(0.025)
    assert covering_threshold(np.empty((0, 3)), 0.1) == 0.1


@pytest.mark.parametrize("count", [0, 1])
def test_one_handle_or_none_is_the_whole_body(count):
    fixed = [0, 5]
    (region,) = regions_of(bar(), along(0.5)[:count], fixed)
    np.testing.assert_array_equal(
        region.vertices, np.setdiff1d(np.arange(len(bar().vertices)), fixed)
    )
    assert (region.weights == 1).all()
    assert region.name == ("at 0.5" if count else "body")


def test_vertices_of_no_tet_are_in_no_region():
    mesh = TetMesh(np.vstack([bar().vertices, [[9.0, 9, 9]]]), bar().tets)
    for handles in ([], along(0.2, 0.8)):
        for region in regions_of(mesh, handles):
            assert region.vertices[-1] < len(bar().vertices)


def test_a_handle_holds_the_tets_it_passes_through():
    mesh = bar()
    (point,) = handle_vertices(mesh, [Handle("p", np.array([[0.512, 0.09, 0.115]]))])
    assert len(point) == 4
    ends = np.array([[0.213, 0.031, 0.17], [0.627, 0.183, 0.04]])
    (found,) = handle_vertices(mesh, [Handle("s", ends)])
    many = ends[0] + np.linspace(0, 1, 4001)[:, None] * (ends[1] - ends[0])
    np.testing.assert_array_equal(found, np.unique(mesh.tets[locate(many, mesh).tet]))


def test_a_handle_through_the_skin_holds_what_is_inside():
    ends = np.array([[0.5, 0.11, 0.12], [0.53, 0.12, 0.9]])
    (found,) = handle_vertices(bar(), [Handle("s", ends)])
    assert np.abs(bar().vertices[found, 0] - 0.5).max() < 0.06
    assert bar().vertices[found, 2].max() == pytest.approx(0.2)


def test_a_vertex_of_two_handles_belongs_to_the_first():
    mesh = bar()
    shared = (mesh.tets[:, None, :, None] == mesh.tets[None, :300, None, :]).sum(axis=(2, 3))
    one, other = np.argwhere(shared == 3)[0]
    first, second = (
        Handle(str(tet), mesh.vertices[mesh.tets[tet]].mean(axis=0)[None]) for tet in (one, other)
    )
    both = handle_vertices(mesh, [first, second])
    np.testing.assert_array_equal(both[0], np.sort(mesh.tets[one]))
    np.testing.assert_array_equal(both[1], np.setdiff1d(mesh.tets[other], mesh.tets[one]))


def test_a_handle_just_outside_uses_the_nearest_tet_and_one_far_away_is_an_error():
    mesh = bar()
    (found,) = handle_vertices(mesh, [Handle("near", np.array([[0.5, 0.1, 0.23]]))])
    assert (mesh.vertices[found, 2] > 0.14).all()
    assert np.abs(mesh.vertices[found, 0] - 0.5).max() <= 0.06
    with pytest.raises(SuppleError, match=r'handle "far" is .* outside of the body; move it in'):
        handle_vertices(mesh, [Handle("far", np.array([[0.5, 0.1, 1.0]]))])


@pytest.mark.parametrize(
    ("handles", "fixed", "said"),
    [
        (along(0.511, 0.511001), None, 'handle "at 0.511001" is in the same tets as "at 0.511"'),
        (along(0.3, 0.3), None, 'two handles are called "at 0.3"; rename one'),
        (["arm", "leg"], None, "handles must be a list of Handle"),
        (5, None, "handles must be a list of Handle"),
        (along(0.2, 0.8), [99999], "fixed vertex 99999 does not exist"),
        (along(0.2, 0.8), [0.5], "fixed vertices must be a list of vertex numbers"),
        (along(0.2, 0.8), np.arange(525), "every vertex is fixed"),
        (along(0.1, 0.9), np.flatnonzero(bar().vertices[:, 0] < 0.9), 'region "at 0.1" has no'),
    ],
)
def test_errors_say_what_to_do(handles, fixed, said):
    with pytest.raises(SuppleError, match=said):
        regions_of(bar(), handles, fixed)


@pytest.mark.parametrize("points", [[[0, 0]], [[0, 0, np.inf]], np.zeros((3, 3)), "x", [0, 0, 0]])
def test_handles_that_are_neither_point_nor_segment_are_errors(points):
    with pytest.raises(SuppleError, match="handle"):
        Handle("h", points)


def test_weights_at_a_border_are_what_the_mesh_size_gives_and_no_more():
    surface = starfish(0.02)
    mesh = tetrahedralise(surface, tets=8000)
    ends = [np.pi + 2 * np.pi * arm / 5 for arm in range(5)]
    handles = [
        Handle(f"{k}", 0.2 * np.array([[np.cos(a), np.sin(a), 0]])) for k, a in enumerate(ends)
    ]
    weights = handle_weights(mesh, handles)
    for index, region in enumerate(regions_of(mesh, handles, weights=weights)):
        jump = border_jump(region, mesh, weights[:, index])
        assert jump.edges > 50
        assert jump.excess <= 0.01
        # Cut off but not remapped: the same region ends in a step of its threshold, and more.
        cut = Region("cut", region.vertices, np.maximum(weights[region.vertices, index], 0.6))
        assert border_jump(cut, mesh, weights[:, index]).excess > 0.1


def test_the_residual_at_a_border_vanishes_as_the_mesh_is_refined():
    largest = []
    for cells in (10, 20, 40):
        mesh = beam(SIZE, (cells, 2, 2))
        handles = [
            Handle(name, np.array([[x, 0.01, 0.01], [x, 0.19, 0.19]]))
            for name, x in (("a", 0.101), ("b", 0.501), ("c", 0.901))
        ]
        weights = handle_weights(mesh, handles)
        regions = regions_of(mesh, handles, weights=weights)
        jumps = [border_jump(r, mesh, weights[:, k]) for k, r in enumerate(regions)]
        assert max(jump.excess for jump in jumps) == 0.0
        largest.append(max(jump.largest for jump in jumps))
    # Like the square root of the mesh size, since the exponent is one half.
    assert largest[2] < 0.75 * largest[0]
    assert largest[2] < 0.5


def test_fixed_vertices_are_no_border():
    mesh = bar()
    handles = along(0.1, 0.9)
    fixed = np.flatnonzero(mesh.vertices[:, 2] == 0)
    weights = handle_weights(mesh, handles)
    region = regions_of(mesh, handles, fixed, weights=weights)[0]
    told, untold = (border_jump(region, mesh, weights[:, 0], f) for f in (fixed, None))
    assert told.largest < 0.7
    assert untold.largest > 0.99
    assert border_jump(Region.whole(len(mesh.vertices)), mesh, weights[:, 0]).edges == 0


def test_stored_fraction_counts_rows_times_columns():
    left = Region("l", np.array([0, 1]), np.ones(2))
    right = Region("r", np.array([1, 2, 3]), np.ones(3))
    assert stored_fraction([left, right], [30, 10], 10) == (2 * 30 + 3 * 10) / (10 * 40)
    assert stored_fraction([Region.whole(7)], [5], 7) == 1.0
    for modes in ([1], [0, 0], [-1, 2], [1.5, 1]):
        with pytest.raises(SuppleError):
            stored_fraction([left, right], modes, 10)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["bear", "gorilla"])
def test_a_localised_basis_of_the_published_size_stores_less_than_two_fifths(name):
    body = scene(name)
    surface = body.character.surface
    mesh = tetrahedralise(surface, tets=body.tets)
    ends = np.array([(bone.start, bone.end) for bone in body.bones])
    bones = Bones(ends[:, 0], ends[:, 1], tuple(bone.name for bone in body.bones))
    fixed = held_tets(bones, surface, mesh).vertices
    weights = handle_weights(mesh, body.handles)
    regions = regions_of(mesh, body.handles, fixed, weights=weights)
    free = np.setdiff1d(np.arange(len(mesh.vertices)), fixed)
    assert stored_fraction(regions, body.modes, len(free)) <= 0.40
    np.testing.assert_array_equal(np.unique(np.concatenate([r.vertices for r in regions])), free)
    for index, region in enumerate(regions):
        assert border_jump(region, mesh, weights[:, index], fixed).excess <= 0.01
