"""Cubature without examples, as the paper has it (tapia2021 §4.2)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.engines.soft_skeleton.flesh.tet_cubature import FleshInCoordinates, TetCubature
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import symmetrised
from supple.mesh.biharmonic import bilaplacian
from supple.mesh.tets import TetMesh


def oblivious_cubature(
    layer: FleshLayer,
    shapes: list[sp.csr_array],
    handles: Ints,
    count: int,
    seed: int,
    sampling: str = "uniform",
) -> TetCubature:
    """Sample points, and give each the integral of its biharmonic coordinate (tapia2021 eq. 7).

    Weights may be negative, as in the paper: see `fitted_cubature` for ours.

    Parameters
    ----------
    layer, shapes
        The flesh, and x, y and z of Ψ (n, m).
    handles
        (h,) tet vertices of the handles.
    count
        How many points; the paper has 5 to 10 a handle.
    seed
        Of the draw.
    sampling
        ``"uniform"`` by volume; ``"colocated"`` with the handles, whatever the count;
        ``"importance"``: by the part each vertex has in the stiffness.
    """
    flesh = FleshInCoordinates.of(layer, shapes)
    soft = TetMesh(layer.mesh.vertices, layer.mesh.tets[layer.soft])
    own = soft.volumes()
    around: Floats = np.asarray(
        np.bincount(soft.tets.ravel(), np.repeat(own / 4, 4), len(soft.vertices)), np.float64
    )
    if sampling == "colocated":
        points = np.sort(handles)
    else:
        likely = around
        if sampling == "importance":
            matters = flesh.stiffness_parts(flesh.whole, layer.youngs[layer.soft]).sum(axis=1)
            counted = np.bincount(soft.tets.ravel(), np.repeat(matters, 4), len(around))
            likely = np.asarray(counted, np.float64)
        elif sampling != "uniform":
            raise SuppleError(f"no sampling {sampling!r}; use uniform, colocated or importance")
        drawn, some = np.random.default_rng(seed), int((likely > 0).sum())
        part = likely / likely.sum()
        points = np.sort(drawn.choice(len(part), min(count, some), replace=False, p=part))
    weights = integrated_coordinates(soft, around, points)
    largest = _largest_tets(soft, points)
    tables = flesh.tables(layer.soft[largest], weights / own[largest])
    return TetCubature(tables, flesh.stiffness, flesh.unseen_error(tables, seed))


def integrated_coordinates(mesh: TetMesh, volumes: Floats, points: Ints) -> Floats:
    """(k,) ∫α_i of coordinates that are 1 at one of the points and 0 at the others.

    vᵀα = v_P − A_PF A_FF⁻¹ v_F with A the bilaplacian and v the volumes of vertices: one solve.
    """
    energy = bilaplacian(mesh)
    free = np.setdiff1d(np.unique(mesh.tets), points)
    inner = symmetrised(energy[free][:, free])
    solved = SparseCholesky(inner).factorise(inner).solve(volumes[free])
    return np.asarray(volumes[points] - energy[points][:, free] @ solved)


def _largest_tets(mesh: TetMesh, points: Ints) -> Ints:
    """(k,) the largest tet at each point."""
    order = np.argsort(mesh.volumes(), kind="stable")
    found = np.full(len(mesh.vertices), -1)
    for corner in range(4):  # the last of equal indices stays
        here = np.full(len(mesh.vertices), -1)
        here[mesh.tets[order, corner]] = np.arange(len(order))
        found = np.maximum(found, here)
    return order[found[points]]
