"""Pose-space models, the results of `supple build`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.arrays import Floats
from supple.checks import numbers
from supple.engines.common.accuracy import Accuracy
from supple.engines.common.flesh_fields import built_flesh
from supple.engines.common.model_file import part_sizes
from supple.engines.pose_space.interpolation import interpolated_basis
from supple.engines.pose_space.model.fields import ModelFields
from supple.errors import SuppleError
from supple.mesh.topology import counted
from supple.reduction.regions.region import Region

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PoseSpaceModel(ModelFields):
    """Reduced models of a character at several poses, aligned so that they blend (xu2016 §5 to §8).

    It has the fields of `FleshFields` and `ModelFields`: among them ``name``, the ``surface``
    with its ``rig`` and ``motions``, the tets ``mesh`` with their ``tet_rig``, the poses'
    ``pose_weights``, and the ``report`` of the build. `make` takes the results of a build's stages
    instead, and also rounds the rigs to the precision of the model file.
    """

    def __repr__(self) -> str:
        counts = [
            counted(self.n_poses, "pose"),
            f"{self.n_modes} modes",
            counted(len(self.regions), "region"),
            counted(len(self.mesh.tets), "tet"),
        ]
        return f'PoseSpaceModel("{self.name}", {", ".join(counts)})'

    @classmethod
    def make(
        cls,
        *,
        regions: Sequence[Region],
        bases: Sequence[Sequence[ArrayLike]],
        rotations: ArrayLike | None,
        mass_products: ArrayLike,
        **results: Any,
    ) -> PoseSpaceModel:
        """Make a model from the results of a build's stages.

        Parameters
        ----------
        regions
            As in the class.
        bases
            For each pose, for each region (k_ρ, 3, r_ρ) at all its vertices; stored at those that
            carry the skin or a cubature point.
        rotations
            (m, n, 4) of all tet vertices; None if interpolation is ``"world"``.
        mass_products
            (m(m+1)/2, r, r), as returned by `supple.engines.pose_space.mass_products`.
        **results
            Arguments of `built_flesh`, and other fields of the class.
        """
        fields = built_flesh(**results)
        carrying = fields["embedding_vertices"][fields["embedding_weights"] != 0]
        corners = fields["mesh"].tets[np.asarray(fields["elastic_tets"], np.int64)]
        # Bases are stored only at vertices that carry the skin or a cubature point.
        lists = carrying, corners.ravel(), np.asarray(fields["inertial_vertices"], np.int64)
        needed = np.concatenate(lists)
        stored = tuple(np.intersect1d(r.vertices, needed).astype(np.int32) for r in regions)
        if rotations is not None:
            quaternions = numbers("vertex rotations", rotations)
            rotations = quaternions[:, np.unique(np.concatenate(stored))]
        fields |= {"regions": tuple(regions), "basis_vertices": stored, "rotations": rotations}
        fields["bases"] = _stored_bases(bases, regions, stored)
        fields["mass_products"] = packed_products(mass_products)
        return cls(**fields)

    @property
    def n_modes(self) -> int:
        """Number of columns of all regions, r."""
        return sum(basis.shape[3] for basis in self.bases)

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """Slice of each region's columns."""
        ends = np.cumsum([0, *(basis.shape[3] for basis in self.bases)]).tolist()
        return tuple(slice(*ends[k : k + 2]) for k in range(len(self.bases)))

    @cached_property
    def rotation_vertices(self) -> Ints:
        """Tet vertices (b,) at which some basis is stored, ascending."""
        return np.unique(np.concatenate(self.basis_vertices))

    @property
    def accuracy(self) -> Accuracy | None:
        """Measured distance from the full simulation; None if it was not measured."""
        return Accuracy.of(self.report)

    @property
    def figures(self) -> dict[str, Any]:
        """Sizes ``tets``, ``poses``, ``modes`` and ``regions``, and figures of its accuracy."""
        sizes = {
            "tets": len(self.mesh.tets),
            "poses": self.n_poses,
            "modes": self.n_modes,
            "regions": len(self.regions),
        }
        accuracy = self.accuracy
        if accuracy is None:
            return sizes
        return sizes | {"full_distance": accuracy.distance, "full_accuracy": accuracy.words()}

    def mass_product(self, i: int, j: int) -> Floats:
        """Return the row of `mass_products` of poses i and j as a symmetric matrix, (r, r)."""
        i, j = min(i, j), max(i, j)
        if not 0 <= i <= j < self.n_poses:
            raise SuppleError(f"poses {i} and {j}; the model has poses 0 to {self.n_poses - 1}")
        row = i * self.n_poses - i * (i - 1) // 2 + j - i
        matrix = np.empty((self.n_modes, self.n_modes))
        upper = np.triu_indices(self.n_modes)
        matrix[upper] = self.mass_products[row]
        matrix.T[upper] = self.mass_products[row]
        return matrix

    def interpolated_basis(self, pose: ArrayLike) -> Floats:
        """Return U(p), (3n, r), at a pose (s,), for analysis; zero at vertices without a basis."""
        where = self.rotation_vertices
        regions = [
            Region(region.name, np.searchsorted(where, vertices), np.ones(len(vertices)))
            for region, vertices in zip(self.regions, self.basis_vertices, strict=True)
        ]
        pairs = [(i, j) for i in range(self.n_poses) for j in range(i, self.n_poses)]
        basis = interpolated_basis(
            [[basis[i].astype(np.float64) for basis in self.bases] for i in range(self.n_poses)],
            regions,
            self.pose_weights(pose),
            self.rotations,
            np.stack([self.mass_product(i, j) for i, j in pairs]),
            len(where),
            variant=self.interpolation,
        )
        dense = np.zeros((len(self.mesh.vertices), 3, self.n_modes))
        dense[where] = basis.reshape(len(where), 3, -1)
        return dense.reshape(-1, self.n_modes)

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each part of the model in a file."""
        return part_sizes(self)


def packed_products(products: ArrayLike) -> Floats:
    """Return upper triangles, row by row, (…, r(r+1)/2), of symmetric matrices (…, r, r)."""
    matrices = numbers("mass products", products)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise SuppleError(f"mass products of shape {matrices.shape}; expected (pairs, r, r)")
    return matrices[..., *np.triu_indices(matrices.shape[-1])]


def _stored_bases(
    bases: Sequence[Sequence[ArrayLike]], regions: Sequence[Region], stored: tuple[Ints, ...]
) -> tuple[Floats, ...]:
    """Return for each region the bases (m, k, 3, r) of all poses at the stored vertices."""
    for pose, parts in enumerate(bases):
        if len(parts) != len(regions):
            raise SuppleError(f"pose {pose} has {len(parts)} bases for {len(regions)} regions")
    selected = []
    for at, (region, vertices) in enumerate(zip(regions, stored, strict=True)):
        rows = np.searchsorted(region.vertices, vertices)
        selected.append(np.stack([np.asarray(parts[at])[rows] for parts in bases]))
    return tuple(selected)
