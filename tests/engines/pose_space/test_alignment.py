"""Bases of several poses are made to agree."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import align, subspace_angles
from supple.engines.pose_space.interpolation import mass_products, reduced_mass
from supple.errors import SuppleError
from supple.mesh.tets import TetMesh
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.rig.deformers.bend import Bend
from supple.rig.poses.example_poses import alignment_tree
from supple.rig.tets.vertex_frames import edge_rotations, pose_rotations
from supple.scenes.bodies.beam import beam

MATERIAL = Material("stvk", young=1e7, poisson=0.45, density=1000)


@dataclass
class Bases:
    """What `align` takes, of a beam at some shapes."""

    mesh: TetMesh
    region: Region
    mass: np.ndarray
    bases: list[np.ndarray]
    stiffnesses: list[np.ndarray]
    shapes: list[np.ndarray]

    def turns(self, parents: list[int]) -> np.ndarray:
        return pose_rotations(self.mesh, self.shapes, parents)[:, self.region.vertices]


def modes_at(mesh: TetMesh, shapes: list[np.ndarray], count: int) -> Bases:
    """The lowest modes of a beam held at x = 0."""
    body = ElasticBody(mesh, MATERIAL)
    region = Region.whole(body.n_vertices, np.flatnonzero(mesh.vertices[:, 0] == 0))
    held = null_space(None, body.n_vertices, free=region.vertices)
    masses, bases, stiffnesses = body.vertex_masses(), [], []
    for shape in shapes:
        K = body.stiffness(shape, rest=shape).copy()
        U = linear_modes(K, masses, count, null_space=held).vectors
        bases.append(U.reshape(-1, 3, count)[region.vertices])
        stiffnesses.append(U.T @ (K @ U))
    return Bases(mesh, region, masses[region.vertices], bases, stiffnesses, shapes)


def bent(mesh: TetMesh, degrees: float) -> np.ndarray:
    rig = Bend(mesh.vertices, (0, 1 / 12, 1 / 12), (1, 0, 0), (0, 0, 1), low=0, high=1)
    return rig([np.radians(degrees)])


@pytest.fixture(scope="module")
def bends() -> Bases:
    mesh = beam(cells=(12, 2, 2))
    return modes_at(mesh, [bent(mesh, angle) for angle in (0, -60, 70, 140)], 8)


def random_rotations(count: int, size: int, seed: int = 0) -> np.ndarray:
    """Orthogonal matrices, some with a determinant of −1."""
    random = np.random.default_rng(seed)
    return np.array([np.linalg.qr(random.normal(size=(size, size)))[0] for _ in range(count)])


# --- The tree -----------------------------------------------------------------------------


def test_each_pose_is_joined_to_the_nearest_joined_before() -> None:
    places = np.array([[0.0, 0], [3, 0], [1, 0], [1, 1.5], [5, 0]])
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_array_equal(alignment_tree(distances, places), [-1, 2, 0, 2, 1])
    np.testing.assert_array_equal(alignment_tree([[0.0]]), [-1])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(-2, 2)] * 3), min_size=1, max_size=9, unique=True),
    st.randoms(use_true_random=False),
)
def test_the_tree_does_not_depend_on_the_order_of_poses(places: list, random: Random) -> None:
    """A grid has equal distances everywhere."""
    poses = np.array(places, float)
    order = [0, *random.sample(range(1, len(poses)), len(poses) - 1)]
    trees = []
    for rows in (poses, poses[order]):
        distances = np.linalg.norm(rows[:, None] - rows, axis=2)
        parents = alignment_tree(distances, rows)
        trees.append({(tuple(rows[i]), tuple(rows[p])) for i, p in enumerate(parents) if p >= 0})
        longest = sum(distances[i, p] for i, p in enumerate(parents) if p >= 0)
        whole = scipy.sparse.csgraph.minimum_spanning_tree(distances).sum()
        assert longest == pytest.approx(whole)
    assert trees[0] == trees[1]


# --- Alignment ----------------------------------------------------------------------------


@pytest.mark.parametrize("degrees", [90, 180, 250])
@pytest.mark.parametrize("weighted", [True, False])
def test_a_pose_that_is_only_turned_has_the_same_space(degrees: float, weighted: bool) -> None:
    """xu2016 fig. 7."""
    mesh = beam(cells=(12, 2, 2))
    turn = Rotation.from_rotvec(np.radians(degrees) * np.array([0.6, 0.8, 0]))
    case = modes_at(mesh, [mesh.vertices, turn.apply(mesh.vertices) + np.array([1, 0, 2])], 8)
    aligned = align(
        case.bases,
        [-1, 0],
        case.mass,
        stiffnesses=case.stiffnesses,
        rotations=case.turns([-1, 0]),
        weighted=weighted,
    )
    assert aligned.angles.max() < 1e-6
    np.testing.assert_allclose(aligned.bases[1], aligned.bases[0], atol=1e-6)
    edges = edge_rotations(mesh, case.shapes, [-1, 0])[:, case.region.vertices]
    world = align(case.bases, [-1, 0], case.mass, rotations=edges, variant="world")
    assert world.angles.max() < 1e-6
    turned = np.einsum("ij,kjr->kir", turn.as_matrix(), world.bases[0])
    np.testing.assert_allclose(world.bases[1], turned, atol=1e-6)
    plain = align(case.bases, [-1, 0], case.mass)
    assert plain.angles.max() > 0.5


@pytest.fixture(scope="module")
def swapped() -> Bases:
    """Two beams, one wider than high and one higher than wide: modes 0 and 1 change places."""
    mesh = beam(cells=(12, 4, 4))
    wide = mesh.vertices * [1, 1.2, 1 / 1.2]
    high = mesh.vertices * [1, 1 / 1.2, 1.2]
    return modes_at(mesh, [wide, high], 2)


def test_modes_that_change_places_blend_only_when_aligned(swapped: Bases) -> None:
    """xu2016 fig. 6: the naive blend has two columns that are nearly the same."""
    case = swapped
    product = np.einsum("kir,k,kis->rs", case.bases[0], case.mass, case.bases[1])
    assert (np.abs(np.diag(product)) < 0.5).all(), "the modes have not changed places"
    # A mode's sign is arbitrary; these are as likely as any.
    naive = [case.bases[0], case.bases[1] * np.sign([product[1, 0], product[0, 1]])]
    aligned = align(case.bases, [-1, 0], case.mass, stiffnesses=case.stiffnesses)
    conditions = []
    for bases in (naive, aligned.bases):
        mass = np.zeros(len(case.mesh.vertices))
        mass[case.region.vertices] = case.mass
        products = mass_products([[each] for each in bases], [case.region], mass)
        conditions.append(np.linalg.cond(reduced_mass(products, [0.5, 0.5])))
    assert conditions[0] > 1e3
    assert conditions[1] < 1.1


def test_the_order_of_poses_only_permutes_the_result(bends: Bases) -> None:
    parents, order = [-1, 0, 0, 2], [0, 3, 1, 2]
    first = align(
        bends.bases,
        parents,
        bends.mass,
        stiffnesses=bends.stiffnesses,
        rotations=bends.turns(parents),
    )
    second = align(
        [bends.bases[i] for i in order],
        [-1, 3, 0, 0],
        bends.mass,
        stiffnesses=[bends.stiffnesses[i] for i in order],
        rotations=bends.turns(parents)[order],
    )
    for new, old in enumerate(order):
        np.testing.assert_array_equal(second.bases[new], first.bases[old])
        np.testing.assert_array_equal(second.angles[new], first.angles[old])


@pytest.mark.parametrize("variant", ["frames", "world"])
def test_alignment_does_not_depend_on_the_order_of_columns(bends: Bases, variant: str) -> None:
    parents = [-1, 0, 0, 2]
    mixed = random_rotations(4, 8)
    other = [basis @ mix for basis, mix in zip(bends.bases, mixed, strict=True)]
    stiff = [mix.T @ K @ mix for K, mix in zip(bends.stiffnesses, mixed, strict=True)]
    results = [
        align(
            bases,
            parents,
            bends.mass,
            stiffnesses=stiffnesses,
            rotations=bends.turns(parents),
            variant=variant,  # type: ignore[arg-type]
            weighted=variant == "frames",
        )
        for bases, stiffnesses in ((bends.bases, bends.stiffnesses), (other, stiff))
    ]
    for one, two in zip(results[0].bases, results[1].bases, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6 * np.abs(one).max())
    np.testing.assert_allclose(results[0].angles, results[1].angles, atol=1e-6)


def test_equal_eigenvalues_and_signs_do_not_matter() -> None:
    """Which vectors of an eigenspace came out, at either pose, leaves the blend's space alone."""
    k, r, random = 30, 6, np.random.default_rng(0)
    mass = random.uniform(1, 2, k)

    def orthonormal(raw: np.ndarray) -> np.ndarray:
        scaled = np.linalg.qr((raw * np.sqrt(mass)[:, None, None]).reshape(-1, r))[0]
        return scaled.reshape(k, 3, r) / np.sqrt(mass)[:, None, None]

    first = orthonormal(random.normal(size=(k, 3, r)))
    second = orthonormal(first + 0.03 * random.normal(size=first.shape))
    stiffness = np.diag([1.0, 1, 1, 4, 4, 9])
    blocks = [
        scipy.linalg.block_diag(
            random_rotations(1, 3, s)[0], random_rotations(1, 2, s)[0], [[-1.0]]
        )
        for s in (1, 2)
    ]
    blends = []
    for bases in ([first, second], [first @ blocks[0], second @ blocks[1]]):
        aligned = align(bases, [-1, 0], mass, stiffnesses=[stiffness, stiffness])
        blends.append(0.6 * aligned.bases[0] + 0.4 * aligned.bases[1])
    assert subspace_angles(blends[0], blends[1], mass).max() < 1e-7


def test_transformations_carry_reduced_matrices_along(bends: Bases) -> None:
    parents = [-1, 0, 0, 2]
    turns = bends.turns(parents)
    aligned = align(
        bends.bases, parents, bends.mass, stiffnesses=bends.stiffnesses, rotations=turns
    )
    for pose, Q in enumerate(aligned.transformations):
        np.testing.assert_allclose(Q.T @ Q, np.eye(8), atol=1e-12)
        turned = Rotation.from_quat(turns[pose]).as_matrix()
        world = np.einsum("kij,kjr->kir", turned, aligned.bases[pose])
        np.testing.assert_allclose(world, bends.bases[pose] @ Q, atol=1e-10)
        gram = np.einsum("kir,k,kis->rs", world, bends.mass, world)
        np.testing.assert_allclose(gram, np.eye(8), atol=1e-8)
    carried = aligned.reduced(bends.stiffnesses)
    np.testing.assert_allclose(
        carried[0], np.diag(aligned.eigenvalues), atol=1e-8 * aligned.eigenvalues[-1]
    )
    np.testing.assert_allclose(
        np.linalg.eigvalsh(carried[3]), np.linalg.eigvalsh(bends.stiffnesses[3]), rtol=1e-8
    )
    assert "4 poses" in repr(aligned)


def test_with_weights_soft_columns_stay_soft(bends: Bases) -> None:
    parents = [-1, 0, 0, 2]
    energies, away = [], []
    for weighted in (True, False):
        aligned = align(
            bends.bases,
            parents,
            bends.mass,
            stiffnesses=bends.stiffnesses,
            rotations=bends.turns(parents),
            weighted=weighted,
        )
        energies.append(np.diag(aligned.reduced(bends.stiffnesses)[3])[:4])
        change = aligned.bases[3] - aligned.bases[2]
        away.append(np.einsum("kir,k,kir->", change, bends.mass, change))
    assert (energies[0] < 0.9 * energies[1]).any()
    assert (energies[0] < 1.02 * energies[1]).all()
    assert away[1] <= away[0] + 1e-9  # plain Procrustes is nearest in sum


def test_the_world_variant_is_the_papers(bends: Bases) -> None:
    """Against eq. 11-13 written out vertex by vertex."""
    parents = [-1, 0, 0, 2]
    turns = edge_rotations(bends.mesh, bends.shapes, parents)[:, bends.region.vertices]
    aligned = align(
        bends.bases, parents, bends.mass, rotations=turns, variant="world", weighted=False
    )
    M = np.repeat(bends.mass, 3)
    wanted = [bends.bases[0].reshape(-1, 8)]
    for j in (1, 2, 3):
        matrices = Rotation.from_quat(turns[j]).as_matrix()
        back = np.array([R.T @ rows for R, rows in zip(matrices, bends.bases[j], strict=True)])
        target = wanted[parents[j]]
        Y, sigma, Zt = np.linalg.svd(back.reshape(-1, 8).T @ (M[:, None] * target))
        moved = (back.reshape(-1, 8) @ Y @ Zt).reshape(-1, 3, 8)
        again = np.array([R @ rows for R, rows in zip(matrices, moved, strict=True)])
        wanted.append(again.reshape(-1, 8))
        np.testing.assert_allclose(aligned.angles[j], np.arccos(np.clip(sigma, -1, 1)), atol=1e-6)
    for basis, expected in zip(aligned.bases, wanted, strict=True):
        np.testing.assert_allclose(basis.reshape(-1, 8), expected, atol=1e-10)


def test_one_pose_is_its_own_alignment(bends: Bases) -> None:
    aligned = align(
        bends.bases[:1],
        [-1],
        bends.mass,
        stiffnesses=bends.stiffnesses[:1],
        rotations=bends.turns([-1, 0, 0, 2])[:1],
    )
    assert subspace_angles(aligned.bases[0], bends.bases[0], bends.mass).max() < 1e-10
    assert not aligned.angles.any()


def test_small_angles_are_exact() -> None:
    k, random = 20, np.random.default_rng(0)
    mass = random.uniform(1, 2, k)
    raw = random.normal(size=(3 * k, 3))
    scaled = np.linalg.qr(raw)[0]
    angle = 1e-9
    tilted = np.column_stack(
        [np.cos(angle) * scaled[:, 0] + np.sin(angle) * scaled[:, 2], scaled[:, 1]]
    )
    pair = [
        each.reshape(k, 3, 2) / np.sqrt(mass)[:, None, None] for each in (scaled[:, :2], tilted)
    ]
    np.testing.assert_allclose(subspace_angles(pair[0], pair[1], mass), [0, angle], atol=1e-14)


# --- What is wrong is said ----------------------------------------------------------------


def test_wrong_input_is_named(bends: Bases) -> None:
    U, K, m = bends.bases[:2], bends.stiffnesses[:2], bends.mass
    broken = U[1].copy()
    broken[5, 1, 2] = np.nan
    cases: list[tuple[dict, str]] = [
        ({"bases": []}, "0 bases for 2 poses"),
        ({"bases": [U[0], broken]}, "basis of pose 1: not finite at row 5"),
        ({"bases": [U[0], U[1][:, :, :3]]}, "basis of pose 1: shape"),
        ({"bases": [U[0][:, 0], U[1]]}, "expected \\(vertices, 3, columns\\)"),
        ({"bases": [U[0][:, :, :0]] * 2}, "expected \\(vertices, 3, columns\\)"),
        ({"parents": []}, "one for each pose"),
        ({"parents": [-1, 1]}, "cycle"),
        ({"bases": [U[0], 2 * U[1]]}, "basis of pose 1 is not mass-orthonormal"),
        ({"mass": m[:-1]}, "vertex masses: shape"),
        ({"mass": -m}, "negative"),
        ({"stiffnesses": K[:1]}, "1 stiffnesses for 2 poses"),
        ({"stiffnesses": [K[0], K[1] * np.inf]}, "reduced stiffness of pose 1: not finite"),
        ({"stiffnesses": [K[0], -K[1]]}, "pose 1 has no positive eigenvalue"),
        ({"rotations": np.zeros((2, 3, 4))}, "vertex rotations: shape"),
        ({"variant": "sideways"}, '"sideways"'),
    ]
    for changed, said in cases:
        arguments = {"bases": U, "parents": [-1, 0], "mass": m, **changed}
        with pytest.raises(SuppleError, match=said):
            align(**arguments)


def test_wrong_distances_are_refused() -> None:
    for distances, said in (
        ([], "no poses"),
        ([[0, 1], [2, 0]], "symmetric"),
        ([[0, -1], [-1, 0]], "not negative"),
        ([[0, np.nan], [np.nan, 0]], "not finite"),
        ([[0, 1, 2], [1, 0, 1]], "shape"),
    ):
        with pytest.raises(SuppleError, match=said):
            alignment_tree(distances)
    with pytest.raises(SuppleError, match="poses"):
        alignment_tree(np.zeros((2, 2)), np.zeros((3, 1)))
    with pytest.raises(SuppleError, match="first basis"):
        subspace_angles(np.zeros((3, 2)), np.zeros((3, 3, 1)), np.ones(3))
