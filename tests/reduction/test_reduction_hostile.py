"""What the reduction's functions refuse, in one line, where they could only have answered wrongly.

And what they must not do however large the question: take a multiple of the memory it needs, or
end the process of somebody who asks from two threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.typing import NDArray

import supple.engines.pose_space
import supple.reduction
import supple.rig
from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import align, subspace_angles
from supple.engines.pose_space.build.pose_basis import pose_basis
from supple.engines.pose_space.interpolation import mass_products
from supple.errors import SolverError, SuppleError
from supple.linalg.krylov import lowest_eigenpairs
from supple.mesh.boundary_contacts import find_boundary_contacts
from supple.mesh.tets import TetMesh
from supple.reduction.cubature import samples as samples_module
from supple.reduction.cubature.accuracy import fit_weights, force_error
from supple.reduction.cubature.elastic_cubature import Between, elastic_cubature
from supple.reduction.cubature.elastic_forces import ElasticProblem, PoseForces
from supple.reduction.cubature.inertial_cubature import inertial_cubature, inertial_error
from supple.reduction.cubature.samples import force_samples
from supple.reduction.mass_pca import mass_pca, scaled_candidates
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.rig.protocol import FunctionRig, Parameter
from supple.rig.tets.vertex_frames import pose_rotations, rotate_basis, unrotate_basis
from supple.scenes.bodies.beam import beam

Floats = NDArray[np.float64]


def refused(said: str, asked: Callable[..., Any], *given: Any, **options: Any) -> None:
    with pytest.raises(SuppleError, match=said):
        asked(*given, **options)


@cache
def small() -> SimpleNamespace:
    """A beam held at one end, in one region, with a basis of six vectors."""
    mesh = beam(cells=(6, 2, 2))
    body = ElasticBody(mesh, Material("stvk", young=1e5, poisson=0.4))
    rest, mass = mesh.vertices, body.vertex_masses()
    region = Region.whole(len(rest), np.flatnonzero(rest[:, 0] < 1e-9))
    K = body.stiffness(rest).copy()
    basis = pose_basis(body, rest, K, mass, region, 6).vectors
    pose = (body, rest, (basis,), (region,))
    return SimpleNamespace(
        mesh=mesh, body=body, rest=rest, mass=mass, region=region, K=K, basis=basis, pose=pose
    )


def drawn(count: int, **options: Any) -> Floats:
    it = small()
    return force_samples(it.body, it.rest, [it.basis], [it.region], count, **options)


# Numbers of vertices ----------------------------------------------------------------------------


def test_a_regions_vertices_are_whole_numbers() -> None:
    for vertices in ([0.5, 1.7], [True, False], [0.0, np.nan], ["a", "b"], [[0, 1]], [[0], [1, 2]]):
        refused(
            'vertices of region "a" must be a list of whole numbers', Region, "a", vertices, [1]
        )
    refused("no vertices", Region, "a", [], [])
    refused("fixed vertex 9 does not exist", Region.whole, 4, [9])
    refused("list of whole numbers", Region.whole, 4, [0.5])
    refused("positive whole number", Region.whole, 2.5)


def test_cubature_vertices_are_there_and_different() -> None:
    it = small()
    a = np.random.default_rng(0).standard_normal((len(it.rest), 3, 4))
    parts = (it.basis,), (it.region,), it.mass
    for vertices, said in (
        ([-1, 3], "cubature vertex -1 does not exist"),
        ([3, 1_000_000], "cubature vertex 1000000 does not exist"),
        ([15.9, 16.0], "list of whole numbers"),
        ([True, False], "list of whole numbers"),
        ([7, 7], "listed twice"),
    ):
        refused(said, inertial_error, *parts, vertices, np.ones(2), a)
    assert inertial_error(*parts, [30, 7], np.ones(2), a) == pytest.approx(
        inertial_error(*parts, [7, 30], np.ones(2), a)
    )


# Masses and bases -------------------------------------------------------------------------------


def test_negative_masses_are_named() -> None:
    it = small()
    wrong = it.mass.copy()
    wrong[5] = -1.0
    U = it.basis.reshape(-1, 6)
    inside = it.mass[it.region.vertices].copy()
    inside[5] = -1.0
    refused("mass of vertex 5 is negative", mass_pca, U, inside, 2)
    refused("mass of vertex 5 is negative", mass_products, [[it.basis]], [it.region], wrong)
    refused("mass of vertex 5 is negative", linear_modes, it.K, wrong, 2)


def test_candidates_may_be_lists_and_must_fit() -> None:
    found = scaled_candidates([2.0, 8.0], [[1, 1]] * 3, [[1, 1, 1]] * 3)
    np.testing.assert_allclose(found[0], [1, 1 / 4, 1, 1 / 4, 1 / 16])
    refused("three rows per vertex", scaled_candidates, [1.0], [1.0, 2.0, 3.0], [[1.0]] * 3)
    refused("derivatives of shape", scaled_candidates, [1.0], [[1.0]] * 3, [[1.0, 1.0]] * 3)
    refused("swing", scaled_candidates, [1.0], [[1.0]] * 3, [[1.0]] * 3, np.nan)
    refused("existing vectors have 3 rows", mass_pca, np.eye(6), [1, 1], 1, beside=np.ones((3, 1)))
    refused("existing vectors", mass_pca, np.eye(6), [1, 1], 1, beside="none")


def test_spaces_of_nothing_have_no_angles() -> None:
    U = np.random.default_rng(0).standard_normal((5, 3, 2))
    assert len(subspace_angles(U, U, np.ones(5))) == 2
    refused("second basis moves no mass", subspace_angles, U, 0 * U, np.ones(5))
    refused("first basis moves no mass", subspace_angles, U, U, np.zeros(5))


# Matrices ---------------------------------------------------------------------------------------


def test_an_asymmetric_stiffness_is_refused() -> None:
    it = small()
    lower = sp.csr_array(sp.tril(it.K))
    refused("not symmetric in row", linear_modes, lower, it.mass, 2)
    upper = sp.coo_array(sp.triu(it.K, 1))
    i, j = (int(where[np.argmax(np.abs(upper.data))]) for where in upper.coords)
    one = it.K.copy()
    one[i, j] *= 1.01
    refused(f"not symmetric in row {min(i, j)}", linear_modes, one, it.mass, 2)


def test_eigenpairs_beyond_all_numbers_are_a_solver_error() -> None:
    mass = sp.csr_array(sp.eye_array(30))
    for solve in (lambda b: b * np.nan, lambda b: b * 1e200, lambda b: 0 * b):
        with np.errstate(all="ignore"), pytest.raises(SolverError, match=r"modes could not|only 0"):
            lowest_eigenpairs(solve, mass, 3)


def test_constraints_that_are_no_matrix_are_refused() -> None:
    refused("number of vertices must be", null_space, None, -1)
    refused("number of vertices must be", null_space, None, 2.5)
    refused("constraints must be a matrix of numbers", null_space, "a", 3)


def test_a_basis_needs_a_pose_that_fits() -> None:
    it = small()
    refused("rest shape: shape", pose_basis, it.body, it.rest[:5], it.K, it.mass, it.region, 6)
    dense = it.K.toarray()
    refused(
        "sparse matrix in CSR format", pose_basis, it.body, it.rest, dense, it.mass, it.region, 6
    )
    given = it.body, it.rest, it.K, it.mass, it.region, 6
    refused("constraints must be a matrix", pose_basis, *given, constraints="a")
    refused("row 0 has a value that is", pose_basis, *given, constraints=[[np.nan] * it.rest.size])


def test_rows_of_any_size_hold() -> None:
    """A row is a direction: one of 1e-200 holds as well as one of 1e200."""
    rows = sp.csr_array(np.diag([1.0, 1e-20, 1e-200, 1e200, 0.0, 3.0])[:5])
    allowed = null_space(rows, 2)
    assert allowed.rank == 4
    assert list(allowed.dropped_rows) == [4]
    assert np.abs(allowed.matrix.toarray()[:4]).max() < 1e-15
    # But what is left of a row among those that are free, when that is rounding, does not.
    crossing = sp.csr_array([[1.0, 0, 0, 1e-17, 0, 0]])
    assert null_space(crossing, 2, [1]).rank == 0


def test_rounding_of_a_row_does_not_hold_a_region() -> None:
    it = small()
    inside, outside = it.region.vertices[3], 0
    row = sp.csr_array(([1.0, 1e-17], ([0, 0], [3 * outside, 3 * inside])), shape=(1, it.rest.size))
    held = pose_basis(it.body, it.rest, it.K, it.mass, it.region, 6, constraints=row)
    np.testing.assert_array_equal(held.vectors, it.basis)


def test_many_rows_at_one_vertex_take_no_square_of_memory() -> None:
    rows = np.zeros((3000, 6))
    rows[:, :3] = np.random.default_rng(0).standard_normal((3000, 3))
    tracemalloc.start()
    allowed = null_space(sp.csr_array(rows), 2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert allowed.rank == 3
    assert peak < 20e6  # U alone would be 72 MB


# Samples and forces -----------------------------------------------------------------------------


def test_samples_need_a_stiffness_and_a_seed() -> None:
    it = small()
    bad = np.full((6, 6), np.nan)
    refused("reduced stiffness: not finite", force_samples, *it.pose, 4, stiffness=bad)
    refused("reduced stiffness: shape", force_samples, *it.pose, 4, stiffness=np.eye(5))
    refused("the seed must be", force_samples, *it.pose, 4, seed=-1)
    refused("the seed must be", force_samples, *it.pose, 4, seed=0.5)
    given = drawn(4, seed=np.random.default_rng(3))
    np.testing.assert_array_equal(given, drawn(4, seed=3))


def test_samples_drawn_in_chunks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(50, amplitude=0.4)
    monkeypatch.setattr(samples_module, "_CHUNK_ENTRIES", 1)
    chunked = drawn(50, amplitude=0.4)
    np.testing.assert_allclose(chunked, whole, rtol=1e-12)


def test_samples_without_force_and_with_infinite_force_are_distinguished() -> None:
    it = small()
    q = drawn(3)
    tets = np.arange(10)
    given = it.body, it.rest, [it.basis], [it.region], tets
    for asked in (
        lambda samples: fit_weights(*given, samples),
        lambda samples: force_error(*given, np.ones(10), samples),
    ):
        for scales, said in (
            ([1, 0, 1], "sample 1 has no elastic force"),
            ([1, 1, 1e150], "sample 2 has a force that is not finite"),
        ):
            refused(said, asked, q * scales)
    pose = PoseForces.of(*it.pose)
    refused("pose 0: sample 2 has no", ElasticProblem, [pose], [q * [1, 1, 0]], 4, 0)


def test_a_pose_between_has_the_tets_of_the_poses() -> None:
    it = small()
    shuffled = TetMesh(it.rest, it.mesh.tets[::-1])
    body = ElasticBody(shuffled, Material("stvk", young=1e5, poisson=0.4))

    def cubature(between: Between) -> Any:
        bases = [it.pose[2]] * 2
        return elastic_cubature(
            it.body, [it.rest] * 2, bases, [it.region], 5, samples=8, between=[between]
        )

    middle = (it.rest, it.pose[2])
    refused(
        "the bodies of intermediate pose 0 and pose 0 have different tets",
        cubature,
        Between(body, *middle, (0, 1), [0.5, 0.5]),
    )
    cases: list[tuple[Any, str]] = [
        ((0, 1, 1), "3 ends"),
        ((0, 0.5), "whole numbers"),
        (3, "list of whole numbers"),
        ((0, 2), "between 0 and 2"),
        ((1, 1), "between 1 and 1"),
    ]
    for ends, said in cases:
        refused(
            f"intermediate pose 0.*{said}", cubature, Between(it.body, *middle, ends, [0.5, 0.5])
        )


def test_accelerations_that_are_not_kept_are_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    it = small()
    turn = Parameter("turn", "rad")

    def turned(pose: Floats) -> Floats:
        c, s = np.cos(pose[0] * it.rest[:, 0]), np.sin(pose[0] * it.rest[:, 0])
        x, y, z = it.rest.T
        return np.stack([x, c * y - s * z, s * y + c * z], axis=1)

    rig = FunctionRig(turned, [turn], len(it.rest))
    given = rig, [[0.0], [1.0]], [it.pose[2]] * 2, [it.region], it.mass, 5
    kept = inertial_cubature(*given)
    monkeypatch.setattr(sys.modules[inertial_cubature.__module__], "_MOST_KEPT_BYTES", 0)
    again = inertial_cubature(*given)
    for name in ("vertices", "weights", "corrections", "train_errors", "held_out_errors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(kept, name))


def test_a_basis_takes_little_more_memory_than_its_candidates() -> None:
    vectors = np.random.default_rng(0).standard_normal((60_000, 40))
    for beside in (None, np.linalg.qr(vectors[:, :3] + vectors[:, 3:6])[0]):
        tracemalloc.start()
        mass_pca(vectors, np.ones(20_000), 2, beside=beside)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1.7 * vectors.nbytes


def test_two_threads_may_call_where_numba_does_not_serialise() -> None:
    """Numba's workqueue ends the process when two Python threads run parallel loops at once."""
    code = """
import numpy as np
from concurrent.futures import ThreadPoolExecutor
from supple.elastic import ElasticBody, Material
from supple.reduction import Region, elastic_cubature
from supple.scenes import beam
mesh = beam(cells=(8, 3, 3))
body = ElasticBody(mesh, Material("stvk", young=1e5, poisson=0.4))
region = Region.whole(len(mesh.vertices))
basis = np.random.default_rng(0).standard_normal((len(mesh.vertices), 3, 4))
def ask(seed):
    found = elastic_cubature(
        body, [mesh.vertices], [[basis]], [region], 10, samples=60, seed=seed, amplitude=0.001
    )
    return found.held_out_error
with ThreadPoolExecutor(4) as threads:
    print(len(list(threads.map(ask, range(8)))))
"""
    here = os.environ | {"NUMBA_THREADING_LAYER": "workqueue", "NUMBA_NUM_THREADS": "2"}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=here, capture_output=True, text=True, timeout=120
    )
    assert ran.stdout.strip() == "8", ran.stderr[-400:]


# Rotations and obstacles ------------------------------------------------------------------------


def test_quaternions_of_zeros_are_no_rotations() -> None:
    U = np.random.default_rng(0).standard_normal((5, 3, 2))
    turns = np.tile([0, 0, 0, 1.0], (5, 1))
    turns[3] = 0
    refused("rotation of vertex 3", rotate_basis, turns, U)
    refused("rotation of vertex 3", unrotate_basis, turns, U)
    ortho = np.linalg.qr(U.reshape(15, 2))[0].reshape(5, 3, 2)
    both = np.stack([np.tile([0, 0, 0, 1.0], (5, 1)), turns])
    refused("rotation of vertex 3", align, [ortho] * 2, [-1, 0], np.ones(5), rotations=both)


def test_rotations_are_not_smoothed_beyond_all_numbers() -> None:
    it = small()
    shapes = [it.rest, it.rest + [0, 0, 0.1] * it.rest[:, :1]]
    refused("smoothing length", pose_rotations, it.mesh, shapes, [-1, 0], smoothing=1e200)
    constant = pose_rotations(it.mesh, shapes, [-1, 0], smoothing=500.0)
    assert np.ptp(constant[1], axis=0).max() < 1e-4


class Custom:
    """An obstacle that says whatever it is told to."""

    def __init__(self, gaps: Any, normals: Any) -> None:
        self.answer = gaps, normals

    def distances(self, points: Floats) -> Any:
        gaps, normals = self.answer
        k = len(points)
        return np.full(k, gaps) if np.ndim(gaps) == 0 else gaps, np.tile(normals, (k, 1))


def test_obstacles_without_distances_are_refused() -> None:
    mesh = beam(cells=(2, 1, 1))
    touched = find_boundary_contacts(
        mesh, None, mesh.vertices, obstacles=[Custom(-0.1, [0, 1.0, 0])]
    )
    assert len(touched) == len(mesh.vertices)
    far = Custom(np.inf, [0.0, 0.0, 0.0])
    assert len(find_boundary_contacts(mesh, None, mesh.vertices, obstacles=[far])) == 0
    for obstacle, said in (
        (Custom(np.nan, [0, 1.0, 0]), "contain NaN"),
        (Custom(-np.inf, [0, 1.0, 0]), "no distance or no unit normal"),
        (Custom(-0.1, [0.0, 0.0, 0.0]), "no unit normal at vertex 0"),
        (Custom(-0.1, [0.0, np.nan, 0.0]), "no unit normal"),
        (Custom(-0.1, [0.0, 2.0, 0.0]), "no unit normal"),
        (Custom(-0.1, [0.0, 1.0]), "expected"),
        (Custom([0.0, 1.0], [0.0, 1.0, 0.0]), "expected"),
    ):
        refused(
            f"obstacle 1.*{said}",
            find_boundary_contacts,
            mesh,
            None,
            mesh.vertices,
            obstacles=[far, obstacle],
        )

    class Silent:
        def distances(self, points: Floats) -> Any:
            return None

    refused(
        "obstacle 0 does not return",
        find_boundary_contacts,
        mesh,
        None,
        mesh.vertices,
        obstacles=[Silent()],
    )


def test_names_in_docstrings_can_be_imported() -> None:
    for name in ("blended_correction", "Between", "fit_weights", "handle_weights"):
        assert name in supple.reduction.__all__
        assert hasattr(supple.reduction, name)
    assert "column_scales" in supple.engines.pose_space.__all__
    assert hasattr(supple.engines.pose_space, "column_scales")
    for name in ("alignment_tree", "pose_rotations", "edge_rotations"):
        assert name in supple.rig.__all__
        assert hasattr(supple.rig, name)
