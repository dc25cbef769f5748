"""Bases of an elastic body: mass-orthonormal, held where it is held, and of what they say."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

from supple.elastic.body import ElasticBody, HexBody
from supple.elastic.equilibrium import static_equilibrium
from supple.elastic.material import Material
from supple.engines.stvk.bases import (
    BentModes,
    body_modes,
    derivative_basis,
    linear_mode_count,
    mode_basis,
    motion_basis,
    rigid_motions,
)
from supple.engines.stvk.measured_basis import numbers_tried, static_error, strong_loads
from supple.engines.stvk.model import StvkModel
from supple.engines.stvk.sketch import pulling_loads, sketch_basis, static_shapes
from supple.engines.stvk.strain_points import MaterialGroups, StrainPoints
from supple.errors import SolverError, SuppleError
from supple.mesh.hexes import HexMesh
from supple.reduction.derivatives import modal_derivatives
from supple.scenes.bodies.beam import beam
from supple.scenes.modelling.voxel_lists import box_points, voxels_around

STVK = Material("stvk", young=1e5, poisson=0.3)


def tet_beam() -> ElasticBody:
    return ElasticBody(beam(cells=(8, 2, 2)), STVK)


def hex_beam() -> HexBody:
    half = np.array([0.499, 0.0832, 0.0832])
    voxels = voxels_around(box_points(half, half - 1e-3, np.eye(3), 0.05), 1 / 12)
    return HexBody(HexMesh(voxels.vertices, voxels.hexes), STVK)


class OnlyVerbs:
    """A body with nothing but what bases ask for."""

    def __init__(self, body):
        self.rest, self.force, self.stiffness = body.rest, body.force, body.stiffness
        self.vertex_masses = body.vertex_masses


def held_end(body):
    return np.flatnonzero(body.rest[:, 0] < 1e-9)


def far_end(body):
    return int(np.argmax(body.rest.sum(axis=1)))


def assert_mass_orthonormal(basis, body):
    columns = basis.reshape(body.rest.size, -1)
    gram = columns.T @ (np.repeat(body.vertex_masses(), 3)[:, None] * columns)
    np.testing.assert_allclose(gram, np.eye(columns.shape[1]), atol=1e-9)


def left_over(shapes, basis, body):
    """Part of each shape (t, n, 3), in the metric of mass, that a basis does not hold."""
    root = np.repeat(np.sqrt(body.vertex_masses()), 3)
    flat = shapes.reshape(len(shapes), -1) * root
    columns = basis.reshape(body.rest.size, -1) * root[:, None]
    return np.linalg.norm(flat - flat @ columns @ columns.T, axis=1) / np.linalg.norm(flat, axis=1)


BODIES = [tet_beam, hex_beam, lambda: OnlyVerbs(hex_beam())]
some_bodies = pytest.mark.parametrize("make", BODIES, ids=["tets", "hexes", "only verbs"])


@some_bodies
def test_every_kind_of_basis_is_mass_orthonormal_and_zero_where_held(make):
    body = make()
    fixed, tip = held_end(body), far_end(body)
    loads = pulling_loads(body, [tip], fixed=fixed, reach=0.3, steps=2)
    frames = body.rest + static_shapes(body, loads, fixed=fixed)
    for basis in (
        mode_basis(body, 5, fixed=fixed),
        derivative_basis(body, 8, fixed=fixed, linear=4),
        sketch_basis(body, loads, 5, fixed=fixed),
        motion_basis(body, frames, 5, fixed=fixed),
    ):
        assert basis.shape[:2] == body.rest.shape
        assert np.isfinite(basis).all()
        assert_mass_orthonormal(basis, body)
        assert not basis[fixed].any()


@some_bodies
def test_modes_are_those_of_the_dense_eigenproblem(make):
    body = make()
    fixed = held_end(body)
    free = np.setdiff1d(np.arange(len(body.rest)), fixed)
    unknowns = (3 * free[:, None] + np.arange(3)).ravel()
    stiffness = body.stiffness(body.rest).toarray()[np.ix_(unknowns, unknowns)]
    mass = np.diag(np.repeat(body.vertex_masses(), 3)[unknowns])
    values = scipy.linalg.eigh(stiffness, mass, eigvals_only=True)[:6]
    np.testing.assert_allclose(body_modes(body, 6, fixed=fixed).eigenvalues, values, rtol=1e-6)


def test_derivatives_by_stiffness_differences_are_the_exact_ones():
    body = tet_beam()
    fixed = held_end(body)
    exact = derivative_basis(body, 10, fixed=fixed, linear=4)
    differenced = derivative_basis(OnlyVerbs(body), 10, fixed=fixed, linear=4)
    np.testing.assert_allclose(differenced, exact, atol=1e-7 * np.abs(exact).max())


def test_all_modes_and_derivatives_are_included_on_request():
    body = tet_beam()
    fixed = held_end(body)
    modes = body_modes(body, 3, fixed=fixed)
    shapes = np.hstack([modes.vectors, modal_derivatives(body, body.rest, modes)])
    basis = derivative_basis(body, 9, fixed=fixed, linear=3)
    assert left_over(shapes.T.reshape(9, -1, 3), basis, body).max() < 1e-5


def test_derivatives_hold_a_large_bend_that_as_many_modes_do_not():
    body = tet_beam()
    fixed = held_end(body)
    load = pulling_loads(
        body, [far_end(body)], fixed=fixed, reach=0.5, steps=1, directions=[[0, 1, 0]]
    )
    shape = static_shapes(body, load, fixed=fixed)
    linear = left_over(shape, mode_basis(body, 10, fixed=fixed), body)[0]
    bent = left_over(shape, derivative_basis(body, 10, fixed=fixed), body)[0]
    assert bent < 0.5 * linear


def test_the_derivative_basis_does_not_depend_on_units_of_stiffness_and_mass():
    mesh = beam(cells=(6, 2, 3))
    bodies = [
        ElasticBody(mesh, Material("stvk", young=young, poisson=0.3, density=density))
        for young, density in ((1e5, 1000.0), (7e8, 20.0))
    ]
    soft, hard = (derivative_basis(b, 8, fixed=held_end(b), linear=4) for b in bodies)
    scaled = soft * np.sqrt(1000.0 / 20.0)
    assert left_over(np.moveaxis(scaled, 2, 0), hard, bodies[1]).max() < 1e-6


@some_bodies
def test_bases_of_a_free_body_have_no_rigid_part(make):
    body = make()
    masses = body.vertex_masses()
    rigid = rigid_motions(body.rest, masses)
    rng = np.random.default_rng(0)
    shapes = derivative_basis(body, 6, linear=4)
    turned = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    turned *= np.linalg.det(turned)
    frames = np.stack([body.rest + 0.01 * shapes @ rng.standard_normal(6) for _ in range(8)])
    moved = frames @ turned.T + [3.0, -2.0, 1.0]
    for basis in (mode_basis(body, 5), shapes, motion_basis(body, moved, 5)):
        columns = basis.reshape(body.rest.size, -1)
        momenta = rigid.T @ (np.repeat(masses, 3)[:, None] * columns)
        assert np.abs(momenta).max() < 1e-6
        assert_mass_orthonormal(basis, body)


def test_motion_of_a_free_body_has_one_basis_however_it_is_thrown():
    body = tet_beam()
    rng = np.random.default_rng(1)
    modes = mode_basis(body, 3)
    frames = np.stack([body.rest + 1e-3 * modes @ rng.standard_normal(3) for _ in range(6)])
    angles = rng.uniform(0, 3, 6)
    thrown = np.stack(
        [
            f @ turn_about_z(a).T + rng.standard_normal(3)
            for f, a in zip(frames, angles, strict=True)
        ]
    )
    still, flying = motion_basis(body, frames, 3), motion_basis(body, thrown, 3)
    np.testing.assert_allclose(flying, still, atol=1e-6 * np.abs(still).max())


def turn_about_z(angle):
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def test_static_shapes_are_equilibria_and_agree_with_the_energy_minimiser():
    body = tet_beam()
    fixed, tip = held_end(body), far_end(body)
    load = pulling_loads(body, [tip], fixed=fixed, reach=0.4, steps=1, directions=[[0, 1, 0.3]])[0]
    shape = static_shapes(body, [load], fixed=fixed)[0]
    free = np.setdiff1d(np.arange(len(body.rest)), fixed)
    left = (body.force(body.rest + shape) - load)[free]
    assert np.abs(left).max() < 1e-6 * np.abs(load).max()
    lowest = static_equilibrium(body, fixed=fixed, forces=load, tolerance=1e-10)
    assert lowest.converged
    np.testing.assert_allclose(body.rest + shape, lowest.positions, atol=1e-5)
    assert np.linalg.norm(shape[tip]) > 0.2  # far from small


def test_static_shapes_do_not_depend_on_the_way_to_the_load():
    body = hex_beam()
    fixed, tip = held_end(body), far_end(body)
    loads = pulling_loads(body, [tip], fixed=fixed, reach=0.3, steps=3)
    together = static_shapes(body, loads, fixed=fixed)
    alone = static_shapes(body, loads[7:8], fixed=fixed)
    np.testing.assert_allclose(together[7], alone[0], atol=1e-6)


def test_a_sketch_basis_holds_the_shapes_it_was_made_from():
    body = tet_beam()
    fixed, tip = held_end(body), far_end(body)
    loads = pulling_loads(body, [tip], fixed=fixed, reach=0.4, steps=3)
    shapes = static_shapes(body, loads, fixed=fixed)
    basis = sketch_basis(body, loads, 8, fixed=fixed)
    assert left_over(shapes, basis, body).max() < 0.05
    assert left_over(shapes, mode_basis(body, 8, fixed=fixed), body).max() > 0.05


def test_loads_are_given_by_vertex_or_for_all_and_near_ones_are_left_out():
    body = tet_beam()
    fixed, tip = held_end(body), far_end(body)
    whole = np.zeros(body.rest.shape)
    whole[tip] = [0.0, 1.0, 0.0]
    by_vertex = static_shapes(body, [{tip: [0.0, 1.0, 0.0]}], fixed=fixed)
    np.testing.assert_array_equal(static_shapes(body, [whole], fixed=fixed), by_vertex)
    crowded = [whole * part for part in (0.0, 0.5, 0.501, 1.0)]
    assert len(static_shapes(body, crowded, fixed=fixed, separation=0.1)) == 2


def test_progress_is_reported_for_each_load():
    body = tet_beam()
    told = []
    loads = pulling_loads(body, [far_end(body)], fixed=held_end(body), reach=0.1, steps=1)
    static_shapes(body, loads, fixed=held_end(body), progress=lambda p, what: told.append(p))
    assert told == sorted(told)
    assert len(told) == 6


def test_bases_are_the_same_bits_again():
    body = tet_beam()
    first, again = (derivative_basis(body, 8, fixed=held_end(body)) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_linear_modes_are_enough_for_any_size():
    for count in range(1, 200):
        k = linear_mode_count(count)
        assert k + k * (k + 1) // 2 >= count
    assert linear_mode_count(30) == 12


def test_invalid_bases_are_refused_in_one_line():
    body = tet_beam()
    fixed, tip, n = held_end(body), far_end(body), len(body.rest)
    frames = np.tile(body.rest, (3, 1, 1))
    cases = [
        (lambda: mode_basis(body, 0, fixed=fixed), "positive whole number"),
        (lambda: mode_basis(body, 10**6, fixed=fixed), "modes requested"),
        (lambda: mode_basis(body, 2, fixed=[n]), f"fixed vertex {n} does not exist"),
        (lambda: mode_basis(body, 2, fixed=range(n)), "every vertex is fixed"),
        (lambda: derivative_basis(body, 10, fixed=fixed, linear=3), "use more linear"),
        (lambda: derivative_basis(body, 10, fixed=fixed, linear=10**4), "0.5 GB"),
        (lambda: derivative_basis(body, 4, fixed=fixed, swing=-1.0), "swing must be positive"),
        (lambda: motion_basis(body, frames[0], 2, fixed=fixed), "expected (t, "),
        (lambda: motion_basis(body, frames, 2, fixed=fixed), "independent directions"),
        (lambda: motion_basis(body, frames * np.nan, 2, fixed=fixed), "not finite"),
        (lambda: sketch_basis(body, [], 2, fixed=fixed), "there are no loads"),
        (lambda: sketch_basis(body, [{tip: [0, 0, 0]}], 2, fixed=fixed), "all loads are zero"),
        (lambda: sketch_basis(body, [{tip: [0, 1, 0]}], 2, fixed=fixed), "1 different shapes"),
        (lambda: sketch_basis(body, [{n: [0, 1, 0]}], 1, fixed=fixed), "does not exist"),
        (lambda: sketch_basis(body, [{tip: [0, np.nan, 0]}], 1, fixed=fixed), "not finite"),
        (lambda: sketch_basis(body, [{tip: [0, 1, 0]}], 1, fixed=()), "the body is free"),
        (lambda: pulling_loads(body, fixed[:1], fixed=fixed), "does not move"),
        (lambda: static_shapes(body, [{tip: [0, 1, 0]}], fixed=fixed, separation=2), "less than 1"),
    ]
    for attempt, message in cases:
        with pytest.raises(SuppleError) as caught:
            attempt()
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_load_that_crushes_the_body_is_refused_with_its_number():
    body = tet_beam()
    with pytest.raises(SolverError, match="load 0: the body snaps or folds"):
        static_shapes(body, [{far_end(body): [-1e9, 0, 0]}], fixed=held_end(body))


@pytest.mark.parametrize("modes", [1, 2, 5, 12])
def test_the_first_column_is_the_first_swing(modes):
    """One mode is never a derivative: the lowest frequency is exact for any number of modes."""
    mesh, soft = beam(cells=(8, 2, 2)), Material("stvk", young=1e5)
    fixed = np.flatnonzero(mesh.vertices[:, 0] == 0)
    exact = body_modes(ElasticBody(mesh, soft), 1, fixed=fixed).eigenvalues[0]
    model = StvkModel.build(mesh, soft, modes, fixed=fixed)
    for body in (model, model.truncate(1)):
        lowest = np.linalg.eigvalsh(body.stiffness(np.zeros(body.modes)))[0]
        assert lowest == pytest.approx(exact, rel=1e-8)
    np.testing.assert_allclose(model.mass, np.eye(modes), atol=1e-9)


def test_the_number_of_linear_modes_is_the_best_of_those_tried():
    """The error of the chosen basis under the loads is the least of all candidates."""
    mesh, soft = beam(cells=(12, 2, 2)), Material("stvk", young=1e5)
    body, fixed = ElasticBody(mesh, soft), np.flatnonzero(mesh.vertices[:, 0] == 0)
    tried = numbers_tried(14)
    assert len(tried) > 2
    bent = BentModes.of(body, max(tried), fixed)
    loads = strong_loads(bent)
    solved = [(load, static_shapes(body, [load], fixed=fixed)[0]) for load in loads]
    assert min(np.abs(u).max() for _, u in solved) > 0.2 * np.ptp(mesh.vertices[:, 0])
    points = StrainPoints.of(mesh)
    groups = MaterialGroups.of(soft, points.n_elements)

    def error(basis):
        return static_error(points, groups, basis, body.vertex_masses(), solved)

    errors = {k: error(bent.basis(14, k)) for k in tried}
    assert max(errors.values()) > 1.05 * min(errors.values())
    built = StvkModel.build(mesh, soft, 14, fixed=fixed)
    assert error(built.basis) == pytest.approx(min(errors.values()), rel=1e-6)


def test_a_basis_of_pulls_follows_a_pull_it_has_not_seen():
    mesh, soft = beam(cells=(8, 2, 2)), Material("stvk", young=1e5)
    body, fixed = ElasticBody(mesh, soft), np.flatnonzero(mesh.vertices[:, 0] == 0)
    model = StvkModel.build(mesh, soft, 10, fixed=fixed, basis="sketch")
    tip = int(mesh.vertices[:, 0].argmax())
    load = 0.7 * pulling_loads(body, [tip], fixed=fixed, steps=1, directions=[[0, 0.6, 0.8]])[0]
    truth = static_shapes(body, [load], fixed=fixed)
    flat = truth.reshape(1, -1)
    heavy = np.repeat(body.vertex_masses(), 3)
    columns = model.basis.reshape(-1, 10)
    left = flat - ((flat * heavy) @ columns) @ columns.T
    assert (left**2 @ heavy)[0] < 0.05**2 * (flat**2 @ heavy)[0]
