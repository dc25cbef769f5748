"""Where a posed body touches itself, and the things around it."""

from __future__ import annotations

import igl
import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation

from supple.errors import SuppleError
from supple.mesh.boundary_contacts import (
    BoundaryContacts,
    find_boundary_contacts,
    nearest_on_triangle,
)
from supple.mesh.obstacles import Capsule, Plane, Sphere
from supple.mesh.tets import TetMesh
from supple.rig.tets.bones import Bones
from supple.rig.tets.tet_body import fit_tet_body
from supple.scenes.bodies.beam import beam
from supple.scenes.characters.character_scene import scene

THICK, LONG = 0.2, 2.0


@pytest.fixture(scope="module")
def strip() -> TetMesh:
    """A strip along x, 0.2 thick (y) and wide (z), with edges of 0.1 to 0.14."""
    mesh = beam((LONG, THICK, THICK), (20, 2, 2))
    return TetMesh(mesh.vertices - [LONG / 2, THICK / 2, THICK / 2], mesh.tets)


def bent(points: np.ndarray, gap: float) -> np.ndarray:
    """The strip as a U: the upper sides of both ends face each other across the gap."""
    radius = (THICK + gap) / 2
    half = np.pi / 2 * radius
    along, height, side = points.T
    angle = np.clip(along, -half, half) / radius
    beyond = np.abs(along) - np.minimum(np.abs(along), half)
    x = (radius - height) * np.sin(angle)
    y = beyond - (radius - height) * np.cos(angle)
    return np.column_stack([x, y, side])


def legs(points: np.ndarray, gap: float) -> tuple[np.ndarray, np.ndarray]:
    """Vertices of the upper side on the left and on the right leg of the U."""
    half = np.pi / 2 * (THICK + gap) / 2
    upper = np.isclose(points[:, 1], THICK / 2)
    return np.flatnonzero(upper & (points[:, 0] < -half)), np.flatnonzero(
        upper & (points[:, 0] > half)
    )


def touched(contacts: BoundaryContacts, points: np.ndarray) -> np.ndarray:
    return np.einsum("ck,ckx->cx", contacts.barycentric, points[contacts.others])


@pytest.mark.parametrize("gap", [0.03, -0.03])
def test_the_legs_of_a_bent_strip_touch_on_their_facing_sides(strip: TetMesh, gap: float) -> None:
    posed = bent(strip.vertices, gap)
    posed[strip.vertices[:, 0] < 0, 2] *= 0.8  # narrower, so that its rim is over the other leg
    contacts = find_boundary_contacts(strip, None, posed)
    left, right = legs(strip.vertices, gap)
    meant = np.concatenate([left, right[strip.vertices[right, 2] == 0]])
    meant = meant[np.abs(strip.vertices[meant, 0]) < 0.95]  # the tips' ends are at one height
    assert np.isin(meant, contacts.vertices).all()
    # Nothing but the upper side touches, and only the upper side is touched.
    assert np.allclose(strip.vertices[contacts.vertices, 1], THICK / 2)
    assert np.allclose(touched(contacts, strip.vertices)[:, 1], THICK / 2)
    meant = meant[np.abs(strip.vertices[meant, 0]) > 0.35]
    straight = contacts[np.isin(contacts.vertices, meant)]
    for leg, out in ((left, -1.0), (right, 1.0)):
        on_leg = straight[np.isin(straight.vertices, leg)]
        assert len(on_leg) >= 6
        assert (np.sign(touched(on_leg, strip.vertices)[:, 0]) == -out).all()
        # Out of the other leg is towards this one, which is on that side of x = 0.
        assert np.allclose(on_leg.normals, [out, 0, 0], atol=1e-12)
        assert np.allclose(on_leg.gaps, gap, atol=1e-12)


def test_gaps_lead_from_the_touched_point_to_the_vertex(strip: TetMesh) -> None:
    posed = bent(strip.vertices, 0.03)
    posed[:, 1] += 0.013 * np.sign(strip.vertices[:, 0])  # the legs' vertices no longer meet
    contacts = find_boundary_contacts(strip, None, posed)
    way = posed[contacts.vertices] - touched(contacts, posed)
    assert np.allclose(np.linalg.norm(way, axis=1), np.abs(contacts.gaps))
    assert np.allclose(contacts.barycentric.sum(axis=1), 1)
    assert contacts.barycentric.min() >= 0
    # No triangle of the other leg is nearer.
    left, _ = legs(strip.vertices, 0.03)
    boundary = strip.boundary()
    other = boundary[(strip.vertices[boundary, 0] > 0).all(axis=1)]
    mine = contacts[np.isin(contacts.vertices, left[strip.vertices[left, 0] < -0.35])]
    assert len(mine) > 10
    squared, _, _ = igl.point_mesh_squared_distance(posed[mine.vertices], posed, other)
    assert np.allclose(np.sqrt(squared), mine.gaps)


def test_the_neutral_pose_has_no_contacts_however_near_counts(strip: TetMesh) -> None:
    for distance in (None, 0.01, 0.3, 1e9):
        assert len(find_boundary_contacts(strip, None, strip.vertices, distance=distance)) == 0


def test_a_body_that_is_bent_at_rest_touches_nothing_new(strip: TetMesh) -> None:
    u = bent(strip.vertices, 0.03)
    assert len(find_boundary_contacts(TetMesh(u, strip.tets), None, u)) == 0
    assert len(find_boundary_contacts(strip, u, u)) == 0
    assert len(find_boundary_contacts(strip, strip.vertices, u)) > 0
    # Nor where its legs are so far apart that a short strip could come between them.
    wide = bent(strip.vertices, 0.3)
    assert len(find_boundary_contacts(strip, wide, wide, distance=0.4)) == 0


def test_legs_too_far_apart_do_not_touch(strip: TetMesh) -> None:
    posed = bent(strip.vertices, 0.1)
    assert len(find_boundary_contacts(strip, None, posed)) == 0
    near = find_boundary_contacts(strip, None, posed, distance=0.11)
    left, right = legs(strip.vertices, 0.1)
    # Vertices at the turn are not yet three times nearer than at rest.
    assert np.isin(np.concatenate([left, right]), near.vertices).mean() > 0.9
    assert near.gaps.min() > 0.09


def test_both_sides_of_a_flattened_part_are_no_contact() -> None:
    block = beam((1.0, 1.0, 1.0), (5, 5, 5))
    flat = block.vertices * [1.0, 0.05, 1.0]
    # Opposed, near at the pose and far apart at rest; but flesh, not air, is between them.
    assert len(find_boundary_contacts(block, None, flat)) == 0


def test_parts_that_overhang_beside_a_block_do_not_touch_it() -> None:
    one = beam((1.0, 1.0, 1.0), (4, 4, 4))
    n = len(one.vertices)
    apart = np.concatenate([one.vertices, one.vertices + np.array([0, 3, 0])])
    mesh = TetMesh(apart, np.concatenate([one.tets, one.tets + n]))
    posed = np.concatenate([one.vertices, one.vertices + np.array([0.32, 1.01, 0.0])])
    contacts = find_boundary_contacts(mesh, None, posed)
    hanging = contacts.vertices[(contacts.vertices >= n) & (posed[contacts.vertices, 0] > 1)]
    assert len(hanging) == 0  # though the nearest are within the distance, 0.14
    assert (contacts.vertices >= n).sum() == 15


def test_two_blocks_pressed_together_touch_on_their_common_side() -> None:
    one = beam((1.0, 1.0, 1.0), (4, 4, 4))
    n = len(one.vertices)
    apart = np.concatenate([one.vertices, one.vertices + np.array([0, 3, 0])])
    mesh = TetMesh(apart, np.concatenate([one.tets, one.tets + n]))
    posed = np.concatenate([one.vertices, one.vertices * [0.9, 1, 0.9] + [0.07, 0.99, 0.03]])
    contacts = find_boundary_contacts(mesh, None, posed)
    assert np.allclose(contacts.gaps, -0.01)
    below = contacts.vertices < n
    assert np.array_equal(contacts.vertices[~below], n + np.flatnonzero(one.vertices[:, 1] == 0))
    assert np.allclose(contacts.normals[below], [0, -1, 0])
    assert np.allclose(contacts.normals[~below], [0, 1, 0])
    assert (posed[contacts.vertices[below], 1] == 1).all()
    # Those of the lower block beside the smaller upper one touch nothing.
    inner = (one.vertices[:, 1] == 1) & ((one.vertices[:, [0, 2]] % 1) > 0).all(axis=1)
    assert np.array_equal(contacts.vertices[below], np.flatnonzero(inner))


def test_contacts_turn_and_travel_with_the_pose(strip: TetMesh) -> None:
    posed = bent(strip.vertices, 0.03)
    posed[:, 1] += 0.013 * np.sign(strip.vertices[:, 0])
    turn = Rotation.from_rotvec([0.4, -1.1, 0.7])
    shift = np.array([50.0, -20.0, 7.0])
    there = turn.apply(posed) + shift
    first, second = (
        find_boundary_contacts(strip, None, posed),
        find_boundary_contacts(strip, None, there),
    )
    assert np.array_equal(first.vertices, second.vertices)
    assert np.allclose(first.gaps, second.gaps, atol=1e-12)
    assert np.allclose(turn.apply(first.normals), second.normals, atol=1e-10)
    place = turn.apply(touched(first, posed)) + shift
    assert np.allclose(place, touched(second, there), atol=1e-10)


def test_contacts_scale_with_the_body(strip: TetMesh) -> None:
    posed = bent(strip.vertices, 0.03)
    small = find_boundary_contacts(strip, 1e-3 * strip.vertices, 1e-3 * posed)
    assert np.array_equal(find_boundary_contacts(strip, None, posed).vertices, small.vertices)


def test_the_same_contacts_come_in_the_same_order(
    strip: TetMesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    posed = bent(strip.vertices, 0.03)
    ground = Plane((0, -0.2, 0), (0, 1, 0))
    first = find_boundary_contacts(strip, None, posed, obstacles=[ground])
    # However few vertices are looked at in one go.
    monkeypatch.setattr("supple.mesh.boundary_contacts._MOST_PAIRS", 100)
    second = find_boundary_contacts(strip, None, posed, obstacles=[ground])
    for name in ("vertices", "others", "barycentric", "normals", "gaps", "obstacles"):
        assert getattr(first, name).tobytes() == getattr(second, name).tobytes()
    own = first.obstacles < 0
    assert (np.diff(first.vertices[own]) > 0).all()
    assert (np.diff(first.vertices[~own]) > 0).all()
    assert own[: own.sum()].all()


def test_vertices_on_or_below_the_ground_touch_it(strip: TetMesh) -> None:
    heights = strip.vertices[:, 1]
    ground = Plane((3.0, -0.05, 8.0), (0, 7, 0))
    contacts = find_boundary_contacts(
        strip, None, strip.vertices, obstacles=[ground], distance=0.06
    )
    boundary = np.unique(strip.boundary())
    assert np.array_equal(contacts.vertices, boundary[heights[boundary] < 0.01])
    assert np.allclose(contacts.gaps, heights[contacts.vertices] + 0.05)
    assert np.array_equal(contacts.normals, np.tile([0.0, 1, 0], (len(contacts), 1)))
    assert (contacts.others == -1).all()
    assert (contacts.obstacles == 0).all()
    assert "0 with the body itself" in repr(contacts)


def test_a_vertex_touches_each_obstacle_once(strip: TetMesh) -> None:
    corner = [Plane((0, -0.1, 0), (0, 1, 0)), Plane((-1, 0, 0), (1, 0, 0))]
    contacts = find_boundary_contacts(strip, None, strip.vertices, obstacles=corner, distance=1e-6)
    both = np.intersect1d(*(contacts.vertices[contacts.obstacles == k] for k in range(2)))
    assert len(both) == 3
    assert np.allclose(strip.vertices[both, :2], [-1, -0.1])


def test_distances_of_obstacles_are_exact() -> None:
    points = np.array([[0, 3, 0], [0.5, 0, 0], [0, 0, 0], [9, 4, 0]], float)
    gaps, normals = Sphere((0, 0, 0), 1).distances(points)
    assert np.allclose(gaps, [2, -0.5, -1, np.hypot(9, 4) - 1])
    assert np.allclose(np.linalg.norm(normals, axis=1), 1)
    gaps, normals = Capsule((0, 0, 0), (6, 0, 0), 0.5).distances(points)
    assert np.allclose(gaps, [2.5, -0.5, -0.5, 4.5])
    assert np.allclose(normals[[0, 3]], np.array([[0, 1, 0], [0.6, 0.8, 0]]))
    ball, round_capsule = Sphere((1, 2, 3), 0.5), Capsule((1, 2, 3), (1, 2, 3), 0.5)
    for a, b in zip(ball.distances(points), round_capsule.distances(points), strict=True):
        assert np.allclose(a, b)


def test_the_nearest_point_of_a_triangle_is_libigls() -> None:
    random = np.random.default_rng(5)
    triangle = np.array([[0, 1, 2]])
    for _ in range(300):
        corners, point = random.normal(size=(3, 3)), 2 * random.normal(size=3)
        parts = nearest_on_triangle(point, *corners)
        squared, _, place = igl.point_mesh_squared_distance(point[None], corners, triangle)
        assert min(parts) >= -1e-12
        assert sum(parts) == pytest.approx(1)
        assert np.allclose(np.array(parts) @ corners, place[0], atol=1e-9)
        assert squared[0] == pytest.approx(((np.array(parts) @ corners - point) ** 2).sum())


def test_a_flexed_arm_touches_between_forearm_and_upper_arm_only() -> None:
    shown = scene("arm")
    bones = Bones(
        np.array([bone.start for bone in shown.bones]),
        np.array([bone.end for bone in shown.bones]),
        tuple(bone.name for bone in shown.bones),
    )
    flexed = shown.pose("flexed")
    surface, rig = shown.character.surface, shown.character.rig
    flesh = fit_tet_body(surface, rig, flexed[None], names=["flexed"], tets=4000, bones=bones)
    contacts = find_boundary_contacts(flesh.mesh, None, flesh.tet_rig(flexed))
    assert len(find_boundary_contacts(flesh.mesh, None, flesh.tet_rig(shown.poses[0]))) == 0
    assert 15 <= len(contacts) <= 100
    _, nearest = cKDTree(surface.vertices).query(flesh.mesh.vertices)
    part = shown.parts[nearest]
    sides = np.sort(np.column_stack([part[contacts.vertices], part[contacts.others[:, 0]]]), axis=1)
    meant = sorted(shown.part_names.index(name) for name in ("upper arm", "forearm"))
    assert (sides == meant).all()


def test_folded_flat_and_collapsed_poses_are_survived(strip: TetMesh) -> None:
    flat = strip.vertices * [1, 0, 1]
    assert len(find_boundary_contacts(strip, None, np.zeros_like(flat))) == 0
    assert isinstance(find_boundary_contacts(strip, None, flat), BoundaryContacts)
    assert isinstance(find_boundary_contacts(strip, np.zeros_like(flat), flat), BoundaryContacts)
    assert isinstance(find_boundary_contacts(strip, None, 1e90 * strip.vertices), BoundaryContacts)


def test_invalid_arguments_are_named(strip: TetMesh) -> None:
    posed = strip.vertices.copy()
    posed[3, 1] = np.nan
    for wrong, what in (
        (dict(rest=None, posed=posed), "posed vertices: not finite at row 3"),
        (dict(rest=posed, posed=strip.vertices), "rest vertices: not finite"),
        (dict(rest=None, posed=posed[:-1]), "posed vertices: shape"),
        (dict(rest=None, posed="here"), "posed vertices must be numbers"),
        (dict(rest=None, posed=np.full_like(posed, 1e200)), "farther than"),
        (dict(rest=None, posed=strip.vertices, distance=0), "must be positive"),
        (dict(rest=None, posed=strip.vertices, distance=np.nan), "not finite"),
        (dict(rest=None, posed=strip.vertices, obstacles=["wall"]), "obstacle 0 is a str"),
        (dict(rest=None, posed=strip.vertices, obstacles=Sphere((0, 0, 0), 1)), "list"),
    ):
        with pytest.raises(SuppleError, match=what):
            find_boundary_contacts(strip, **wrong)


def test_obstacles_that_cannot_be_are_refused() -> None:
    for make, what in (
        (lambda: Plane((0, 0, 0), (0, 0, 0)), "normal of a plane is zero"),
        (lambda: Plane((0, 0), (0, 1, 0)), "point of the plane"),
        (lambda: Plane((0, 0, np.inf), (0, 1, 0)), "point of the plane"),
        (lambda: Sphere((0, 0, 0), -1), "radius of a sphere is -1"),
        (lambda: Sphere((0, 0, 0), np.nan), "radius of the sphere"),
        (lambda: Capsule((0, 0, 0), (1, 0, 0), 0), "radius of a capsule is 0"),
        (lambda: Capsule((0, 0, 0), "up", 1), "end of the capsule"),
    ):
        with pytest.raises(SuppleError, match=what):
            make()
    assert np.allclose(np.asarray(Plane((0, 0, 0), (3e200, 4e200, 0)).normal), [0.6, 0.8, 0])
