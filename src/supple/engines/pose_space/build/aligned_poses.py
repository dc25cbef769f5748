"""Bases of all poses and regions: aligned, and blended at any pose (xu2016 §5.1, §5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supple.arrays import Floats, Ints
from supple.engines.pose_space.alignment import Variant, align
from supple.engines.pose_space.build.pose_basis import PoseModel
from supple.engines.pose_space.interpolation import interpolated_basis, mass_products, reduced_mass
from supple.mesh.tets import TetMesh
from supple.reduction.regions.region import Region
from supple.rig.poses.pose_tree import alignment_tree
from supple.rig.poses.pose_weights import PoseWeights
from supple.rig.tets.vertex_frames import edge_rotations, pose_rotations, rotate_basis


@dataclass(frozen=True, eq=False)
class AlignedPoses:
    """Aligned bases of all poses and regions.

    Attributes
    ----------
    regions, variant
        Regions of the bases; "frames" or "world", in which they are blended.
    bases
        For each pose, for each region (k, 3, r): in the neutral pose's frames, or in the world.
    rotations
        (m, n, 4) vertex rotations from the neutral pose; None in the world.
    parents
        (m,) the alignment tree; −1 for its root.
    angles
        (m, r) subspace angles between each pose and its parent, region by region; radians.
    eigenvalues
        (r,) λ of the neutral pose's columns, each region's ascending.
    products
        (m(m+1)/2, r, r) terms of the reduced mass matrix; see `mass_products`.
    """

    regions: tuple[Region, ...]
    variant: Variant
    bases: tuple[tuple[Floats, ...], ...]
    rotations: Floats | None
    parents: Ints
    angles: Floats
    eigenvalues: Floats
    products: Floats

    @property
    def n_columns(self) -> int:
        """Columns of all regions, r."""
        return len(self.eigenvalues)

    def basis(self, weights: Floats, n_vertices: int) -> Floats:
        """Return U(p), (3n, r), at a pose of these weights."""
        return interpolated_basis(
            self.bases,
            self.regions,
            weights,
            self.rotations,
            self.products,
            n_vertices,
            variant=self.variant,
        )

    def mass(self, weights: Floats) -> Floats:
        """Return M̃(p), (r, r), at a pose of these weights."""
        return reduced_mass(self.products, weights)

    def world_bases(self, pose: int) -> tuple[Floats, ...]:
        """Return the bases of one of the poses, for each region (k, 3, r), in the world."""
        if self.rotations is None:
            return self.bases[pose]
        turns = self.rotations[pose]
        return tuple(
            rotate_basis(turns[region.vertices], basis)
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

    Parameters
    ----------
    mesh
        Tets at the neutral pose.
    models
        Reduced models of the poses, the neutral one first.
    pose_weights
        Weights of these poses; their metric says which poses are near.
    regions
        Regions of the bases.
    mass
        (n,) masses of the vertices.
    variant
        "frames": blended in frames, soft columns first; "world": as in the paper.
    """
    parents = alignment_tree(pose_weights.distances(), pose_weights.poses)
    shapes = [model.rest for model in models]
    turns = (pose_rotations if variant == "frames" else edge_rotations)(mesh, shapes, parents)
    aligned = [
        align(
            [model.bases[at] for model in models],
            parents,
            mass[region.vertices],
            stiffnesses=[model.stiffnesses[at] for model in models],
            rotations=turns[:, region.vertices],
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
        rotations=turns if variant == "frames" else None,
        parents=parents,
        angles=np.concatenate([part.angles for part in aligned], axis=1),
        eigenvalues=np.concatenate([part.eigenvalues for part in aligned]),
        products=mass_products(bases, regions, mass),
    )
