"""A body that is shaken: motions for bases, and forces for cubature."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from helpers.build_samples import bending_bar
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.build.motion_loads import _starts, motion_loads
from supple.engines.pose_space.build.pose_basis import pose_basis
from supple.engines.pose_space.build.shaken_pose import shaken_shapes
from supple.mesh.tets import TetMesh
from supple.reduction.cubature.elastic_cubature import elastic_cubature
from supple.reduction.cubature.elastic_forces import PoseForces
from supple.reduction.cubature.samples import rest_stiffness
from supple.reduction.cubature.training import condensed_shapes, motion_forces
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.reduction.shaking import MOTION_STEP, MOTION_STEPS, Shaking, shake
from supple.rig.motion.motion import Motion
from supple.rig.poses.pose_weights import PoseWeights
from supple.scenes.bodies.beam import beam


def bar(size: float = 1.0, young: float = 2e4, density: float = 1000.0) -> ElasticBody:
    mesh = beam(cells=(8, 2, 2))
    material = Material("yeoh", young=young, poisson=0.45, density=density)
    return ElasticBody(TetMesh(size * mesh.vertices, mesh.tets), material)


def held(body: ElasticBody) -> Region:
    x = body.rest[:, 0]
    return Region.whole(body.n_vertices, np.flatnonzero(x < x.min() + 1e-9))


def shaken(body: ElasticBody, seed: int = 0) -> Shaking:
    found = shake(body, body.rest, held(body), seed=seed)
    assert found is not None
    return found


def test_jumps_and_cuts_of_a_clip_are_no_loads() -> None:
    """A bake leaves out the inertia there."""
    times = np.linspace(0.0, 2.0, 241)
    motion = Motion(times, np.zeros((241, 1)))
    length = (MOTION_STEPS + 1) * MOTION_STEP

    def starts(**parts: Any) -> list[float]:
        jumps = np.array(parts.get("jumps", ()))
        clip = SimpleNamespace(times=times, cuts=parts.get("cuts", ()), jumps=jumps)
        return _starts(cast(Motion, clip)).tolist()

    assert starts() == _starts(motion).tolist()
    for found in (starts(jumps=[1.0]), starts(cuts=[120])):
        assert 0 < len(found) < len(starts())
        assert not any(start < 1.0 <= start + length for start in found)


def test_bodies_of_any_size_weight_and_stiffness_are_shaken_alike() -> None:
    small, large = shaken(bar()), shaken(bar(30.0, 7e6, 300.0))
    np.testing.assert_allclose(
        large.displacements / 30, small.displacements, atol=1e-5 * abs(small.displacements).max()
    )


def test_a_shaken_body_comes_as_far_as_flesh_does_and_what_is_held_stays() -> None:
    body = bar()
    moved = shaken(body).displacements
    farthest = np.linalg.norm(moved, axis=1).max() / body.mesh.size
    assert 0.015 < farthest < 0.15
    still = np.setdiff1d(np.arange(body.n_vertices), held(body).vertices)
    assert len(still)
    assert not moved[still].any()


def test_forces_of_a_shaking_are_those_at_its_displacements() -> None:
    body, found = bar(), shaken(bar())
    at = body.rest + found.displacements[:, :, 40]
    expected = body.force(at.astype(float), body.rest)
    np.testing.assert_allclose(found.forces[:, :, 40], expected, atol=1e-3 * abs(expected).max())


def test_the_same_seed_shakes_to_the_same_bits_and_another_otherwise() -> None:
    one, again, other = shaken(bar()), shaken(bar()), shaken(bar(), seed=1)
    assert np.array_equal(one.displacements, again.displacements)
    assert abs(one.displacements - other.displacements).max() > 0.01 * one.displacements.max()


def test_a_rig_that_moves_nothing_changes_no_shaking() -> None:
    body, region = bar(), held(bar())
    still = np.zeros((body.n_vertices, 3, 2), np.float32)
    alone = shaken(body).displacements
    for moves in (still, still[:, :, :0]):
        found = shake(body, body.rest, region, moves, seed=0)
        assert found is not None
        np.testing.assert_array_equal(found.displacements, alone)


def test_a_body_that_nothing_holds_is_not_shaken() -> None:
    body = bar()
    assert shake(body, body.rest, Region.whole(body.n_vertices), seed=0) is None


def part_outside(basis: np.ndarray, body: ElasticBody, moved: np.ndarray) -> float:
    """Return the part of displacements (n, 3, t) that a mass-orthonormal basis cannot hold."""
    root = np.sqrt(np.repeat(body.vertex_masses(), 3))[:, None]
    frame, all_of_it = root * basis.reshape(len(root), -1), root * moved.reshape(len(root), -1)
    return float(np.linalg.norm(all_of_it - frame @ (frame.T @ all_of_it))) / float(
        np.linalg.norm(all_of_it)
    )


def test_a_shaken_basis_holds_more_of_another_shaking_than_modes_of_the_same_number() -> None:
    body, count = bar(), 5
    region, mass = held(body), body.vertex_masses()
    shapes = shaken_shapes(body.mesh, [body.rest], [shaken(body)], region, mass, count)
    modes = np.zeros_like(shapes)
    stiffness = body.stiffness(body.rest, body.rest)
    modes[region.vertices] = pose_basis(body, body.rest, stiffness, mass, region, count).vectors
    other = shaken(body, seed=5).displacements
    assert part_outside(shapes, body, other) < 0.8 * part_outside(modes, body, other)


def test_a_basis_contains_the_flesh_motions_of_the_rig() -> None:
    """A rig that bends the body in waves, as no affine acceleration does; in any units."""
    body, region = bar(), held(bar())
    along = (body.rest[:, 0] - body.rest[:, 0].min()) / np.ptp(body.rest[:, 0])
    moves = np.zeros((body.n_vertices, 3, 2), np.float32)  # the second parameter moves nothing
    moves[:, 1, 0] = 1e-4 * np.cos(4 * np.pi * along)
    mass = body.vertex_masses()
    inner = body.stiffness(body.rest, body.rest)[region.unknowns][:, region.unknowns].toarray()
    bent = np.zeros((body.n_vertices, 3, 1))
    load = (mass[:, None] * moves[:, :, 0])[region.vertices].ravel()
    bent[region.vertices, :, 0] = np.linalg.solve(inner, load).reshape(-1, 3)

    def left(given: np.ndarray | None) -> float:
        found = shake(body, body.rest, region, given, seed=0)
        assert found is not None
        shapes = shaken_shapes(body.mesh, [body.rest], [found], region, mass, 10)
        return part_outside(shapes, body, bent)

    thrown = left(moves)
    assert thrown < 0.3 * left(None)
    np.testing.assert_allclose(left(1e3 * moves), thrown, rtol=0.01)


class TestCondensed:
    """Reduced forces of the whole body, not of one that moves in the basis alone."""

    body = bar()
    region = held(body)

    def basis(self, count: int = 6) -> np.ndarray:
        mass = self.body.vertex_masses()
        shapes = shaken_shapes(
            self.body.mesh, [self.body.rest], [shaken(self.body)], self.region, mass, count
        )
        return shapes[self.region.vertices]

    def test_condensed_stiffness_is_nowhere_above_that_in_the_basis(self) -> None:
        basis = self.basis()
        _, condensed = condensed_shapes(self.body, self.body.rest, basis, self.region)
        plain = rest_stiffness(self.body, self.body.rest, [basis], [self.region])
        values = np.linalg.eigvalsh(plain - condensed)
        assert values.min() > -1e-9 * values.max()
        assert values.max() > 0

    def modes(self) -> np.ndarray:
        inside = self.body.stiffness(self.body.rest, self.body.rest)
        inner = inside[self.region.unknowns][:, self.region.unknowns].toarray()
        root = np.sqrt(np.repeat(self.body.vertex_masses()[self.region.vertices], 3))
        _, vectors = np.linalg.eigh(inner / np.outer(root, root))
        return (vectors[:, :4] / root[:, None]).reshape(-1, 3, 4)

    def test_condensed_stiffness_of_modes_is_theirs(self) -> None:
        modes = self.modes()
        expected = rest_stiffness(self.body, self.body.rest, [modes], [self.region])
        shapes, found = condensed_shapes(self.body, self.body.rest, modes, self.region)
        np.testing.assert_allclose(found, expected, atol=1e-6 * expected.max())
        np.testing.assert_allclose(shapes, modes, atol=1e-6 * abs(modes).max())

    def test_under_any_load_coordinates_rest_where_the_whole_body_has_them(self) -> None:
        """VᵀMU = UᵀMU and (VᵀKV) q = Vᵀ(load), where the basis alone is far from it."""
        basis = self.basis()
        columns = basis.reshape(3 * len(self.region.vertices), -1)
        shapes, condensed = condensed_shapes(self.body, self.body.rest, basis, self.region)
        inertia = np.repeat(self.body.vertex_masses()[self.region.vertices], 3)
        weighed, seen = inertia[:, None] * columns, shapes.reshape(columns.shape)
        gram = columns.T @ weighed
        np.testing.assert_allclose(seen.T @ weighed, gram, atol=1e-8 * abs(gram).max())
        stiffness = self.body.stiffness(self.body.rest, self.body.rest)
        inner = stiffness[self.region.unknowns][:, self.region.unknowns].toarray()
        load = np.random.default_rng(4).normal(size=len(columns))
        whole = np.linalg.solve(gram, weighed.T @ np.linalg.solve(inner, load))
        found = np.linalg.solve(condensed, seen.T @ load)
        np.testing.assert_allclose(found, whole, atol=1e-7 * abs(whole).max())
        plain = np.linalg.solve(columns.T @ inner @ columns, columns.T @ load)
        assert np.linalg.norm(plain - whole) > 0.05 * np.linalg.norm(whole)

    def test_contacts_stiffen_what_they_hold(self) -> None:
        """A tip that may not move down: the stiffness is that of a body held there."""
        count = len(self.region.vertices)
        tip = int(np.argmax(self.body.rest[self.region.vertices, 0]))
        row = sp.csr_array(([1.0], ([0], [3 * tip + 1])), (1, 3 * count))
        allowed = null_space(row, count)
        columns = self.basis().reshape(3 * count, -1)
        basis = (columns - np.outer(row.toarray()[0], row @ columns)).reshape(count, 3, -1)
        free, held = (
            condensed_shapes(self.body, self.body.rest, basis, self.region, space)[1]
            for space in (None, allowed)
        )
        softest = [np.linalg.eigvalsh(each)[0] for each in (free, held)]
        assert softest[1] > 1.2 * softest[0]
        motion = motion_forces(
            self.body, self.body.rest, basis, self.region, shaken(self.body), allowed
        )
        np.testing.assert_allclose(motion.held, held)
        np.testing.assert_allclose(motion.stiffness, free)

    def test_displacements_inside_a_basis_are_seen_as_they_are(self) -> None:
        basis, q = self.basis(), np.random.default_rng(1).normal(size=(6, 5))
        moved = np.zeros((self.body.n_vertices, 3, 5), np.float32)
        moved[self.region.vertices] = basis @ q
        given = self.body, self.body.rest, basis, self.region
        np.testing.assert_allclose(
            motion_forces(*given, Shaking(moved, moved, np.ones(moved.shape[2]))).q, q, atol=1e-5
        )

    def test_fitted_forces_are_nearer_to_the_bodys_than_those_in_the_basis(self) -> None:
        basis = self.basis()
        given = self.body, self.body.rest, basis, self.region
        motion = motion_forces(*given, shaken(self.body, seed=2))
        found = elastic_cubature(
            self.body,
            [self.body.rest],
            [[basis]],
            [self.region],
            18,
            linear="exact",
            motions=[motion],
        )
        pose = PoseForces.of(self.body, self.body.rest, [basis], [self.region])
        own, true = pose.reduced(motion.q[:, 1:]), motion.forces[:, 1:]
        in_basis = np.linalg.norm(own - true, axis=0) / np.linalg.norm(true, axis=0)
        assert found.held_out_error < 0.5 * float(np.sqrt((in_basis**2).mean()))


def test_motions_follow_random_accelerations_in_every_third_of_the_samples() -> None:
    body, region = bar(), held(bar())
    loads = np.zeros((body.n_vertices, 3, 2 * MOTION_STEPS), np.float32)
    loads[:, 2] = 20 * np.sin(np.arange(2 * MOTION_STEPS))
    alone = shake(body, body.rest, region, seed=0)
    both = shake(body, body.rest, region, None, loads, seed=0)
    assert alone is not None
    assert both is not None
    random = both.factors == 1
    assert random.sum() == len(alone.factors) == 90
    assert len(random) == 90 + 60
    assert random[:100].sum() == 60  # the last third of both is held out
    assert np.array_equal(both.displacements[..., random], alone.displacements)
    parts = [both.displacements[..., which] * both.factors[which] for which in (random, ~random)]
    first, second = (np.square(part).sum() for part in parts)
    np.testing.assert_allclose(first, second, rtol=1e-4)
    moved = both.displacements[..., ~random]
    assert abs(moved[:, 2]).max() > 10 * abs(moved[:, 1]).max()


def test_motions_too_violent_for_a_body_are_left_out_of_its_shaking() -> None:
    body, region = bar(), held(bar())
    loads = np.full((body.n_vertices, 3, MOTION_STEPS), 1e9, np.float32)
    both = shake(body, body.rest, region, None, loads, seed=0)
    assert both is not None
    assert len(both.factors) == 90


def test_loads_are_the_accelerations_of_the_liveliest_parts_near_each_pose() -> None:
    rig = bending_bar(cells=(8, 2, 2)).rig
    times = np.linspace(0.0, 2.0, 121)
    roots = np.tile(np.eye(4), (121, 1, 1))
    roots[60:, 1, 3] = 3.0 * (times[60:] - 1.0) ** 2  # 6 m/s² in the second half
    near = Motion(times, np.zeros((121, 1)), roots, "near")
    still = Motion(times, np.full((121, 1), 1.0), name="still")
    weights = PoseWeights(np.array([[0.0], [1.0]]), np.ones(1))
    first, second = motion_loads(rig, {"near": near, "still": still}, weights)
    assert second is None or abs(second).max() < 1e-3
    assert first is not None
    assert first.shape == (rig.n_vertices, 3, 3 * MOTION_STEPS)
    np.testing.assert_allclose(first[:, 1, :MOTION_STEPS].mean(), 6.0, rtol=0.1)
    assert abs(first[:, ::2]).max() < 1e-3
