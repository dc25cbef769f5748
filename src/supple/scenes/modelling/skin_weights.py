"""Skinning weights of modelled bodies, diffused from the parts that they are modelled from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.mesh.surface import SurfaceMesh
from supple.scenes.modelling.scene_data import Joints
from supple.scenes.modelling.solids import Solid


def part_weights(
    surface: SurfaceMesh, parts: Sequence[Sequence[Solid]], length: ArrayLike, rounds: int = 2
) -> Floats:
    """Return weights (n, parts) by heat diffusion over the surface.

    A vertex starts with weight 1 for the part whose solids are deepest there; the weights then
    diffuse over `length`, in m, for all vertices or for each, in `rounds` steps. Parts that touch
    in space but not along the surface (an arm beside the belly) do not mix.
    """
    import igl
    import scipy.sparse as sp

    from supple.linalg.cholesky import SparseCholesky

    depths = np.stack(
        [np.max([solid(surface.vertices) for solid in solids], axis=0) for solids in parts], axis=1
    )
    weights = np.eye(len(parts))[depths.argmax(axis=1)]
    stiffness = -igl.cotmatrix(surface.vertices, surface.triangles)
    areas = igl.massmatrix(surface.vertices, surface.triangles).diagonal()
    masses = sp.diags_array(areas * rounds / np.asarray(length, float) ** 2)
    matrix = sp.csr_array(stiffness + masses)
    solver = SparseCholesky(matrix).factorise(matrix)
    for _ in range(rounds):
        weights = solver.solve(np.ascontiguousarray(masses @ weights))
    # Obtuse triangles let the cotangent Laplacian overshoot a little.
    weights = np.clip(weights, 0.0, None)
    return weights / weights.sum(axis=1, keepdims=True)


def strongest(weights: Floats, count: int) -> tuple[Ints, Floats]:
    """Return joints (n, count) and weights (n, count) of each vertex's strongest influences.

    The next weaker weight is subtracted first, so that weights are continuous.
    """
    count = min(count, weights.shape[1])
    order = np.argsort(-weights, axis=1, kind="stable")
    joints = order[:, :count]
    values = np.take_along_axis(weights, joints, axis=1)
    if count < weights.shape[1]:
        weaker = np.take_along_axis(weights, order[:, count : count + 1], axis=1)
        values = values - weaker
    return joints.astype(np.int64), values / values.sum(axis=1, keepdims=True)


def rest_skeleton_arrays(joints: Joints) -> tuple[list[str], list[int], Floats, Floats]:
    """Return names, parents, local translations and inverse bind matrices of joints."""
    names = list(joints)
    parents = [-1 if parent is None else names.index(parent) for parent, _ in joints.values()]
    places = np.array([place for _, place in joints.values()])
    local = places - np.where(np.array(parents)[:, None] < 0, 0.0, places[parents])
    inverse = np.tile(np.eye(4), (len(names), 1, 1))
    inverse[:, :3, 3] = -places
    return names, parents, local, inverse
