"""Bases of all poses and regions: aligned, blended (xu2016 §5.1, §5.2), and assessed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import at_most_threads
from supple.elastic.body import ElasticBody
from supple.engines.pose_space.alignment import Variant, align, subspace_angles
from supple.engines.pose_space.build.pose_basis import PoseModel, PoseTask
from supple.engines.pose_space.interpolation import (
    frequency_ratios,
    interpolated_basis,
    mass_products,
    reduced_frequencies,
    reduced_mass,
)
from supple.errors import SuppleError
from supple.linalg.blas import single_threaded
from supple.mesh.tets import TetMesh
from supple.reduction.compliance import Compliance
from supple.reduction.contact_constraints import contact_constraints
from supple.reduction.cubature.samples import dense_basis
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space
from supple.reduction.regions.region import Region
from supple.rig.poses.example_poses import alignment_tree
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.tets.vertex_frames import edge_rotations, pose_rotations, rotate_basis


@dataclass(frozen=True, eq=False)
class AlignedPoses:
    """Aligned bases of all poses and regions."""

    regions: tuple[Region, ...]
    variant: Variant
    """Regions of the bases; and "frames" or "world", in which they are blended."""
    bases: tuple[tuple[Floats, ...], ...]
    """For each pose, for each region (k, 3, r): in the neutral pose's frames, or in world axes."""
    rotations: Floats | None
    """(m, n, 4) vertex rotations from the neutral pose; None if `variant` is "world"."""
    parents: Ints
    """(m,) parents in the alignment tree; −1 for its root."""
    angles: Floats
    """(m, r) subspace angles between each pose and its parent, region by region; radians."""
    eigenvalues: Floats
    """(r,) λ of the neutral pose's columns in rad²/s², ascending in each region."""
    products: Floats
    """(m(m+1)/2, r, r) terms of the reduced mass matrix; see `mass_products`."""

    @property
    def n_columns(self) -> int:
        """Columns of all regions, r."""
        return len(self.eigenvalues)

    def basis(self, weights: Floats, n_vertices: int) -> Floats:
        """Return U(p), (3n, r), for weights of the poses."""
        parts = self.bases, self.regions, weights, self.rotations, self.products, n_vertices
        return interpolated_basis(*parts, variant=self.variant)

    def mass(self, weights: Floats) -> Floats:
        """Return M̃(p), (r, r), for weights of the poses."""
        return reduced_mass(self.products, weights)

    def world_bases(self, pose: int) -> tuple[Floats, ...]:
        """Return the bases (k, 3, r) of each region at pose number `pose`, in world axes."""
        if self.rotations is None:
            return self.bases[pose]
        quaternions = self.rotations[pose]
        return tuple(
            rotate_basis(quaternions[region.vertices], basis)
            for region, basis in zip(self.regions, self.bases[pose], strict=True)
        )


def align_poses(
    mesh: TetMesh,
    models: Sequence[PoseModel],
    pose_weights: PoseWeights,
    regions: Sequence[Region],
    mass: Floats,
    *,
    variant: Variant = "frames",
) -> AlignedPoses:
    """Align the bases of all poses, region by region so that they stay sparse.

    `models` are the poses' models, the neutral one first; the metric of `pose_weights` defines
    distances of poses; `mass` (n,) has the masses of the vertices. In "frames" bases are blended in
    frames and soft columns have more weight; "world" is the paper's variant.
    """
    parents = alignment_tree(pose_weights.distances(), pose_weights.poses)
    shapes = [model.rest for model in models]
    rotations_of = pose_rotations if variant == "frames" else edge_rotations
    rotations = rotations_of(mesh, shapes, parents)
    aligned = [
        align(
            [model.bases[at] for model in models],
            parents,
            mass[region.vertices],
            stiffnesses=[model.stiffnesses[at] for model in models],
            rotations=rotations[:, region.vertices],
            weighted=variant == "frames",
            variant=variant,
        )
        for at, region in enumerate(regions)
    ]
    bases = tuple(tuple(part.bases[pose] for part in aligned) for pose in range(len(models)))
    return AlignedPoses(
        regions=tuple(regions),
        variant=variant,
        bases=bases,
        rotations=rotations if variant == "frames" else None,
        parents=parents,
        angles=np.concatenate([part.angles for part in aligned], axis=1),
        eigenvalues=np.concatenate([part.eigenvalues for part in aligned]),
        products=mass_products(bases, regions, mass),
    )


#: Number of lowest frequencies that are compared.
FREQUENCIES = 6
#: Eigenvalue of a mass matrix with unit diagonal below which columns are dependent in float32.
DISTINCT = 1e-6


@dataclass(frozen=True, eq=False)
class Assessment:
    """Comparison of an interpolated basis with the one computed at the same pose.

    Attributes
    ----------
    to_recomputed
        Ratios of the lowest frequencies to those of the recomputed basis: error of interpolation.
    to_exact
        Ratios of the lowest frequencies to those of the full body: with the error of reduction.
    angles
        Angles between the two spaces, ascending, in radians (xu2016 fig. 10).
    """

    to_recomputed: Floats
    to_exact: Floats
    angles: Floats

    @property
    def worst(self) -> float:
        """Largest ratio, at least 1, by which interpolation changes a frequency."""
        return float(np.maximum(self.to_recomputed, 1 / self.to_recomputed).max())


def assess_pose(
    task: PoseTask, model: PoseModel, aligned: AlignedPoses, weights: Floats
) -> Assessment:
    """Compare the basis interpolated at a pose with the one computed there.

    Parameters
    ----------
    task, model
        Task of the pose, and its reduced model by `reduce_pose`.
    aligned
        Bases of the other poses.
    weights
        (m,) weights of those poses at this one.

    Raises
    ------
    SuppleError
        If bases cannot be compared, for instance because a blended column vanishes.
    """
    count = len(task.rest)
    with single_threaded(), at_most_threads(1):
        body = ElasticBody(task.mesh, task.material)
        stiffness = body.stiffness(task.rest, task.rest, out=body.pattern.zeros())
        mass = body.vertex_masses()
        blended = aligned.basis(weights, count)
        recomputed = dense_basis(model.bases, aligned.regions, count).reshape(3 * count, -1)
        gram = recomputed.T @ (np.repeat(mass, 3)[:, None] * recomputed)
        ours = reduced_frequencies(blended, stiffness, aligned.mass(weights))
        theirs = reduced_frequencies(recomputed, stiffness, gram)
        exact = _exact_frequencies(task, model, stiffness, mass)
        angles = subspace_angles(
            blended.reshape(count, 3, -1), recomputed.reshape(count, 3, -1), mass
        )
    return Assessment(
        frequency_ratios(ours, theirs, FREQUENCIES),
        frequency_ratios(ours, exact, FREQUENCIES),
        angles,
    )


def _exact_frequencies(
    task: PoseTask, model: PoseModel, stiffness: sp.csr_array, mass: Floats
) -> Floats:
    """Return lowest frequencies in Hz of the full body, with contacts, fixed outside of regions."""
    free = np.unique(np.concatenate([region.vertices for region in task.regions]))
    rows = sp.csr_array((0, 3 * len(task.rest)))
    if model.contacts is not None and task.contacts is not None:
        rows = contact_constraints(model.contacts, len(task.rest), kind=task.contacts)
    bound = None
    if len(free) < len(task.rest) or rows.shape[0]:
        bound = null_space(rows, len(task.rest), free=free)
    factor = Compliance(stiffness, mass, bound)
    count = min(FREQUENCIES, factor.n_unknowns)
    # The error of a frequency is the square of that of its mode.
    modes = linear_modes(stiffness, mass, count, null_space=bound, factor=factor, tolerance=1e-4)
    return np.sqrt(modes.eigenvalues) / (2 * np.pi)


def check_independent(aligned: AlignedPoses, names: Sequence[str]) -> None:
    """Raise an error if columns of two regions are nearly dependent at a pose; `names` (m,)."""
    if len(aligned.regions) < 2:
        return
    ends = np.cumsum([0, *(basis.shape[2] for basis in aligned.bases[0])])
    columns = [range(start, end) for start, end in pairwise(ends.tolist())]
    for pose, name in enumerate(names):
        mass = aligned.mass(np.eye(len(names))[pose])
        if _smallest_eigenvalue(mass) >= DISTINCT:
            continue
        first, second = min(
            combinations(range(len(columns)), 2),
            key=lambda pair: _smallest_eigenvalue(mass, [*columns[pair[0]], *columns[pair[1]]]),
        )
        one, other = aligned.regions[first].name, aligned.regions[second].name
        raise SuppleError(
            f'pose "{name}": regions "{one}" and "{other}" overlap so much that their columns '
            "are nearly the same; merge them or give fewer modes"
        )


def _smallest_eigenvalue(mass: Floats, among: Sequence[int] | None = None) -> float:
    part = mass if among is None else mass[np.ix_(among, among)]
    return float(np.linalg.eigvalsh(part)[0])


def split_basis(
    basis: Floats, regions: tuple[Region, ...], modes: tuple[int, ...]
) -> tuple[Floats, ...]:
    """Return the regions' parts (k, 3, r_ρ) of a basis of the whole mesh, (3n, r)."""
    rows = basis.reshape(len(basis) // 3, 3, -1)
    ends = np.cumsum([0, *modes])
    return tuple(
        rows[region.vertices][:, :, ends[at] : ends[at + 1]] for at, region in enumerate(regions)
    )
