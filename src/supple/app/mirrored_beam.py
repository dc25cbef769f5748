"""A beam whose two bending modes are the same but for its width and height, and its modes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.elastic import ElasticBody, Material
from supple.mesh import TetMesh
from supple.reduction import linear_modes, mass_products, null_space, reduced_mass
from supple.reduction.region import Region
from supple.scenes import beam

__all__ = ["BeamModes", "mirrored_beam", "modes_at"]

Floats = NDArray[np.float64]

MATERIAL = Material("stvk", young=1e7, poisson=0.45, density=1000)


@dataclass(frozen=True)
class BeamModes:
    """The lowest modes of a beam at several shapes."""

    mesh: TetMesh
    region: Region
    mass: Floats
    shapes: list[Floats]
    bases: list[Floats]
    stiffnesses: list[Floats]

    def mass_matrix(self, bases: Sequence[Floats], weights: Sequence[float]) -> Floats:
        """M̃ of blended columns that have been given length 1 (xu2016 eq. 16)."""
        products = mass_products([[basis] for basis in bases], [self.region], self.mass)
        return reduced_mass(products, weights)

    def whole(self, vector: Floats) -> Floats:
        """A column (k, 3) on all vertices."""
        moved = np.zeros_like(self.mesh.vertices)
        moved[self.region.vertices] = vector
        return moved


def mirrored_beam(size: tuple[float, float, float], cells: tuple[int, int, int]) -> TetMesh:
    """A beam whose tets are symmetric about its middle planes.

    Those of `beam` all lean to the same side, which tells a square beam's two bending modes apart
    more than a small difference of width and height does.
    """
    quarter = beam(np.array(size) / [1, 2, 2], np.array(cells) // [1, 2, 2])
    vertices, tets = quarter.vertices, quarter.tets
    for axis in (1, 2):
        other = vertices.copy()
        other[:, axis] *= -1
        # A mirror turns tets inside out; two corners that change places turn them back.
        tets = np.concatenate([tets, tets[:, [1, 0, 2, 3]] + len(vertices)])
        vertices = np.concatenate([vertices, other])
    _, first, where = np.unique(
        np.round(vertices, 9) + 0.0, axis=0, return_index=True, return_inverse=True
    )
    return TetMesh(vertices[first], where.reshape(-1)[tets])


def modes_at(mesh: TetMesh, shapes: list[Floats], count: int) -> BeamModes:
    """The `count` lowest modes at each shape of a beam that is held at x = 0."""
    body = ElasticBody(mesh, MATERIAL)
    region = Region.whole(body.n_vertices, np.flatnonzero(mesh.vertices[:, 0] == 0))
    held = null_space(None, body.n_vertices, free=region.vertices)
    masses, bases, stiffnesses = body.vertex_masses(), [], []
    for shape in shapes:
        K = body.stiffness(shape, rest=shape, out=body.pattern.zeros())
        U = linear_modes(K, masses, count, null_space=held).vectors
        bases.append(U.reshape(-1, 3, count)[region.vertices])
        stiffnesses.append(U.T @ (K @ U))
    return BeamModes(mesh, region, masses, shapes, bases, stiffnesses)
