"""Bases between the poses they were made at."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from supple.elastic.body import ElasticBody
from supple.elastic.material import Material
from supple.engines.pose_space.alignment import Variant, align, subspace_angles
from supple.engines.pose_space.build.pose_basis import pose_basis
from supple.engines.pose_space.interpolation import (
    column_scales,
    frequency_ratios,
    interpolated_basis,
    mass_products,
    reduced_frequencies,
    reduced_mass,
)
from supple.errors import SolverError, SuppleError
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.rig.deformers.bend import Bend
from supple.rig.poses.example_poses import alignment_tree
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.tets.vertex_frames import edge_rotations, pose_rotations
from supple.scenes.bodies.beam import beam

COLUMNS, LINEAR = 20, 8


class BentBeam:
    """1 × ⅙ × ⅙ m, held at one end and bent by a rig; what is computed at a pose is kept."""

    def __init__(self, **recipe: Any) -> None:
        self.recipe = recipe or {"linear": LINEAR, "reach": None}  # the paper's
        self.mesh = beam(cells=(24, 4, 4))
        self.body = ElasticBody(self.mesh, Material("stvk", young=1e7, poisson=0.45, density=1000))
        middle = (0, 1 / 12, 1 / 12)
        self.rig = Bend(self.mesh.vertices, middle, (1, 0, 0), (0, 0, 1), low=0, high=1)
        self.n = self.body.n_vertices
        self.region = Region.whole(self.n, np.flatnonzero(self.mesh.vertices[:, 0] == 0))
        self.mass = self.body.vertex_masses()
        self._bases: dict[float, tuple[np.ndarray, np.ndarray]] = {}

    def shape(self, degrees: float) -> np.ndarray:
        return self.rig([np.radians(degrees)])

    def stiffness(self, degrees: float) -> sp.csr_array:
        return self.body.stiffness(self.shape(degrees), rest=self.shape(degrees)).copy()

    def basis(self, degrees: float) -> tuple[np.ndarray, np.ndarray]:
        """U and UᵀKU at a pose."""
        if degrees not in self._bases:
            K, shape = self.stiffness(degrees), self.shape(degrees)
            made = pose_basis(self.body, shape, K, self.mass, self.region, COLUMNS, **self.recipe)
            whole = np.zeros((self.n, 3, COLUMNS))
            whole[self.region.vertices] = made.vectors
            flat = whole.reshape(3 * self.n, -1)
            self._bases[degrees] = made.vectors, flat.T @ (K @ flat)
        return self._bases[degrees]

    def exact_frequencies(self, degrees: float) -> np.ndarray:
        held = null_space(None, self.n, free=self.region.vertices)
        modes = linear_modes(self.stiffness(degrees), self.mass, 6, null_space=held)
        return np.sqrt(modes.eigenvalues) / (2 * np.pi)


@dataclass
class Blend:
    """Aligned bases of the beam at some poses."""

    body: BentBeam
    degrees: tuple[float, ...]
    variant: Variant = "frames"
    weighted: bool = True
    smoothing: float = 0.2
    rotations: np.ndarray = field(init=False)
    bases: list[list[np.ndarray]] = field(init=False)
    products: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        body, poses = self.body, np.radians(self.degrees)[:, None]
        self.weights = PoseWeights(poses)
        parents = alignment_tree(self.weights.distances(), poses)
        shapes = [body.shape(angle) for angle in self.degrees]
        self.rotations = pose_rotations(body.mesh, shapes, parents, smoothing=self.smoothing)
        world = self.variant == "world"
        turns = edge_rotations(body.mesh, shapes, parents) if world else self.rotations
        made = [body.basis(angle) for angle in self.degrees]
        aligned = align(
            [basis for basis, _ in made],
            parents,
            body.mass[body.region.vertices],
            stiffnesses=[stiffness for _, stiffness in made],
            rotations=turns[:, body.region.vertices],
            weighted=self.weighted,
            variant=self.variant,
        )
        self.bases = [[each] for each in aligned.bases]
        self.products = mass_products(self.bases, [body.region], body.mass)

    def basis(self, weights: np.ndarray) -> np.ndarray:
        return interpolated_basis(
            self.bases,
            [self.body.region],
            weights,
            self.rotations,
            self.products,
            self.body.n,
            variant=self.variant,
        )

    def ratios(self, degrees: float) -> np.ndarray:
        weights = self.weights([np.radians(degrees)])
        mass = reduced_mass(self.products, weights)
        found = reduced_frequencies(self.basis(weights), self.body.stiffness(degrees), mass)
        return frequency_ratios(found, self.body.exact_frequencies(degrees))


@pytest.fixture(scope="module")
def body() -> BentBeam:
    return BentBeam()


@pytest.fixture(scope="module")
def frames(body: BentBeam) -> Blend:
    return Blend(body, (0, -135, 135))


@pytest.fixture(scope="module")
def world(body: BentBeam) -> Blend:
    return Blend(body, (0, -135, 135), "world", weighted=False)


def test_halfway_between_far_poses_frequencies_are_right(frames: Blend) -> None:
    """Measured: 1.020 1.024 1.012 1.006 1.023 1.014."""
    ratios = frames.ratios(67.5)
    assert ratios.min() > 1 - 1e-6
    assert ratios.max() < 1.035
    assert max(frames.ratios(angle).max() for angle in (-101.25, 33.75, 101.25)) < 1.05


def test_our_own_bases_do_as_well_there() -> None:
    """Measured: 1.021 1.024 1.005 1.004 1.003 1.005."""
    own = BentBeam(linear=10, reach=0.05)
    assert Blend(own, (0, -135, 135)).ratios(67.5).max() < 1.035
    assert Blend(own, (0, -135, 135, -67.5, 67.5)).ratios(33.75).max() < 1.01


def test_the_papers_blend_is_far_too_stiff_there(world: Blend) -> None:
    """Measured: 1.12 2.48 1.14 1.35 1.11 1.18."""
    assert world.ratios(67.5) == pytest.approx([1.12, 2.48, 1.14, 1.35, 1.11, 1.18], abs=0.03)


@pytest.mark.parametrize(
    ("weighted", "smoothing", "wanted"),
    [
        (False, 0.0, [1.07, 1.27, 1.03, 1.02, 1.05, 1.02]),
        (True, 0.0, [1.04, 1.06, 1.01, 1.01, 1.02, 1.01]),
    ],
)
def test_frames_weights_and_smoothing_each_bring_it_nearer(
    body: BentBeam, frames: Blend, weighted: bool, smoothing: float, wanted: list[float]
) -> None:
    ratios = Blend(body, (0, -135, 135), weighted=weighted, smoothing=smoothing).ratios(67.5)
    assert ratios == pytest.approx(wanted, abs=0.012)
    assert frames.ratios(67.5).max() < ratios.max() - 0.02


def test_with_poses_between_it_is_exact_for_all_purposes(body: BentBeam) -> None:
    five = Blend(body, (0, -135, 135, -67.5, 67.5))
    for angle in (67.5, 33.75, 101.25):
        assert five.ratios(angle).max() < 1.01


@pytest.mark.parametrize("variant", ["frames", "world"])
def test_at_its_own_pose_the_blend_is_that_poses_basis(
    frames: Blend, world: Blend, variant: str
) -> None:
    blend = frames if variant == "frames" else world
    vertices, mass = frames.body.region.vertices, frames.body.mass
    for pose, angle in enumerate(blend.degrees):
        U = blend.basis(np.eye(3)[pose]).reshape(-1, 3, COLUMNS)
        made, _ = blend.body.basis(angle)
        assert subspace_angles(U[vertices], made, mass[vertices]).max() < 1e-8
        assert not np.delete(U, vertices, axis=0).any()


@pytest.mark.parametrize("variant", ["frames", "world"])
@pytest.mark.parametrize("weights", [[0.5, 0, 0.5], [0.7, -0.06, 0.36], [0, 0, 1], [0.2, 0.4, 0.4]])
def test_the_reduced_mass_is_that_of_the_blend(
    frames: Blend, world: Blend, variant: str, weights: list[float]
) -> None:
    blend = frames if variant == "frames" else world
    U = blend.basis(np.array(weights))
    M = np.repeat(blend.body.mass, 3)[:, None]
    found = reduced_mass(blend.products, weights)
    np.testing.assert_allclose(found, U.T @ (M * U), atol=1e-10)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-14)
    np.testing.assert_allclose(found, found.T, atol=1e-15)


def overlapping(n: int) -> tuple[list[Region], list[list[np.ndarray]], np.ndarray]:
    """Three regions, two of which overlap, with bases of 3, 2 and 4 columns at three poses."""
    random = np.random.default_rng(0)
    spans = [np.arange(2, 14), np.arange(9, n - 4), np.arange(0, 5)]
    regions = [Region(str(i), span, np.ones(len(span))) for i, span in enumerate(spans)]
    first = [random.normal(size=(len(s), 3, r)) for s, r in zip(spans, (3, 2, 4), strict=True)]
    bases = [first] + [[b + 0.2 * random.normal(size=b.shape) for b in first] for _ in range(2)]
    return regions, bases, random.uniform(1, 2, n)


def test_regions_overlap_where_they_share_vertices() -> None:
    n = 30
    regions, bases, mass = overlapping(n)
    products = mass_products(bases, regions, mass)
    assert products.shape == (6, 9, 9)
    turns = np.random.default_rng(1).normal(size=(3, n, 4)) * 0.1 + np.array([0, 0, 0, 1])
    turns /= np.linalg.norm(turns, axis=2, keepdims=True)
    for weights in ([0.3, 0.8, -0.1], [1, 0, 0]):
        for variant in ("frames", "world"):
            U = interpolated_basis(bases, regions, weights, turns, products, n, variant=variant)
            gram = U.T @ (np.repeat(mass, 3)[:, None] * U)
            np.testing.assert_allclose(reduced_mass(products, weights), gram, atol=1e-12)
    assert not products[:, 3:5, 5:].any()  # the second and the third share no vertex
    assert products[:, :3, 3:5].all()


def test_scales_are_inverse_lengths() -> None:
    regions, bases, mass = overlapping(30)
    weights = np.array([0.3, 0.8, -0.1])
    scales = column_scales(mass_products(bases, regions, mass), weights)
    blend = sum(w * pose[1] for w, pose in zip(weights, bases, strict=True))
    lengths = np.sqrt(np.einsum("kir,k->r", blend**2, mass[regions[1].vertices]))
    np.testing.assert_allclose(scales[3:5], 1 / lengths, rtol=1e-12)


def test_one_pose_is_enough(body: BentBeam) -> None:
    one = Blend(body, (0,))
    assert one.ratios(0).max() < 1.01


def test_columns_that_cancel_or_coincide_are_an_error() -> None:
    regions, bases, mass = overlapping(30)
    opposite = [bases[0], [-each for each in bases[0]]]
    with pytest.raises(SuppleError, match="column 0 of the blended basis vanishes"):
        reduced_mass(mass_products(opposite, regions, mass), [0.5, 0.5])
    with pytest.raises(SolverError, match="linearly dependent"):
        reduced_frequencies(np.ones((6, 2)), sp.eye_array(6).tocsr(), np.ones((2, 2)))


def test_wrong_bases_are_named() -> None:
    regions, bases, mass = overlapping(30)
    products = mass_products(bases, regions, mass)
    turns = np.tile([0, 0, 0, 1.0], (3, 30, 1))
    torn = [list(pose) for pose in bases]
    torn[2][1] = np.where(np.arange(len(torn[2][1]))[:, None, None] == 2, np.nan, torn[2][1])
    for wrong, said in (
        ([], "no poses"),
        ([bases[0][:2]], "pose 0 has 2 bases; use one per region"),
        (torn, 'basis of region "1" at pose 2: not finite at row 2'),
        ([bases[0], bases[1][::-1]], 'basis of region "0" at pose 1: shape'),
    ):
        with pytest.raises(SuppleError, match=said):
            mass_products(wrong, regions, mass)
        with pytest.raises(SuppleError, match=said):
            interpolated_basis(wrong, regions, np.ones(len(wrong)), turns, products, 30)
    with pytest.raises(SuppleError, match="no regions"):
        mass_products([[]], [], mass)
    with pytest.raises(SuppleError, match="has vertex 25, but there are 20"):
        mass_products(bases, regions, mass[:20])


def test_wrong_weights_products_and_rotations_are_named() -> None:
    regions, bases, mass = overlapping(30)
    products = mass_products(bases, regions, mass)
    turns, even = np.tile([0, 0, 0, 1.0], (3, 30, 1)), np.full(3, 1 / 3)
    for weights, given, rotations, variant, said in (
        (even[:2], products, turns, "frames", "pose weights"),
        (even * np.nan, products, turns, "frames", "not finite"),
        (even, products[:4], turns, "frames", "mass products: shape"),
        (even, products[:, :5, :5], turns, "frames", "5 columns; the bases have 9"),
        (even, products, None, "frames", "need vertex rotations"),
        (even, products, turns[:, :4], "frames", "vertex rotations: shape"),
        (even, products, turns, "sphere", '"sphere"'),
    ):
        with pytest.raises(SuppleError, match=said):
            interpolated_basis(bases, regions, weights, rotations, given, 30, variant=variant)  # type: ignore[arg-type]
    with pytest.raises(SuppleError, match="no poses"):
        reduced_mass(np.zeros((0, 2, 2)), [])


def test_wrong_frequencies_are_named() -> None:
    np.testing.assert_allclose(frequency_ratios([4, 2, 9], [1, 2]), [2, 2])
    np.testing.assert_allclose(frequency_ratios([4, 2, 9], [1, 2, 3], count=1), [2])
    for ours, theirs, count, said in (
        ([], [1], 6, "no frequencies"),
        ([1], [0, 1], 6, "rigid motions"),
        ([1], [1], 0, "no frequencies"),
        ([np.nan], [1], 6, "reduced frequencies: not finite"),
    ):
        with pytest.raises(SuppleError, match=said):
            frequency_ratios(ours, theirs, count)
    with pytest.raises(SuppleError, match="does not match a stiffness of shape"):
        reduced_frequencies(np.ones((5, 2)), sp.eye_array(6).tocsr(), np.eye(2))
