"""Elastic energy of flesh on the body at rest, in coordinates of its handles."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled, compiled_fused
from supple.elastic.densities.dispatch import (
    energy_density,
    is_isotropic,
    stress,
    stress_derivative,
)
from supple.elastic.material import Material
from supple.maths.svd import project_psd
from supple.mesh.laplacian import hat_gradients
from supple.mesh.tets import TetMesh

__all__ = ["FleshTables", "add_flesh_terms", "flesh_tables"]


class FleshTables(NamedTuple):
    """Tets whose energy is summed: F = I + Σ_c B_c φ_c (tapia2021 eq. 4).

    Skinning and pose blend shapes do not strain flesh: it is strained where it is not where they
    put it.
    """

    volumes: Floats
    """(c,) volume times weight."""
    constants: Floats
    """(c, …) of the material."""
    starts: Ints
    """(c + 1,) where the coordinates of each tet begin in `columns`."""
    columns: Ints
    """Coordinates that strain a tet, ascending."""
    strains: Floats
    """(9, …) B, a column for each of `columns`."""


def flesh_tables(
    mesh: TetMesh, material: Material, shapes: list[sp.csr_array], tets: Ints, weights: Floats
) -> FleshTables:
    """Return the tables of some tets.

    Parameters
    ----------
    mesh, material
        All tets of the body.
    shapes
        x, y and z of Ψ (n, m), with the same entries.
    tets, weights
        (c,) which, and what each counts.
    """
    part = TetMesh(mesh.vertices, mesh.tets[tets])
    gradients = hat_gradients(part)
    starts, columns, blocks = [0], [], []
    x, y, z = (sp.csr_array(each) for each in shapes)
    for e, corners in enumerate(part.tets):
        rows = [sp.csr_array(each[corners]) for each in (x, y, z)]
        own = np.unique(rows[0].indices)
        dense = np.stack([row[:, own].toarray() for row in rows])  # (3, 4, a)
        blocks.append(np.einsum("iaq,aj->ijq", dense, gradients[e]).reshape(9, -1))
        columns.append(own)
        starts.append(starts[-1] + len(own))
    constants = material.element_parameters(len(mesh.tets))[tets]
    return FleshTables(
        np.ascontiguousarray(part.volumes() * weights),
        np.ascontiguousarray(constants),
        np.array(starts, np.int64),
        np.concatenate([*columns, np.zeros(0, np.int64)]).astype(np.int64),
        np.ascontiguousarray(np.concatenate([*blocks, np.zeros((9, 0))], axis=1)),
    )


@compiled
def add_flesh_terms(
    kind: int,
    stiffness: float,
    tables: FleshTables,
    phi: Floats,
    first: int,
    gradient: Floats,
    hessian: Floats,
    wanted: int,
) -> float:
    """Return W(φ); add its derivatives to the rows from `first` on, of the upper half.

    Parameters
    ----------
    kind, stiffness, tables
        Density, a factor on it, and tets.
    phi
        (m,) coordinates of the flesh.
    first
        Where they begin in the gradient (N,) and the Hessian (N, N).
    gradient, hessian
        Added to.
    wanted
        0 for the energy alone, 1 for the gradient, too, 2 for both, with every tet's part of the
        Hessian made positive semi-definite.
    """
    F, P, H = np.empty((3, 3)), np.empty((3, 3)), np.empty((9, 9))
    scratch, frames = np.empty((6, 3, 3)), np.empty((2, 9, 9))
    most = 0
    for e in range(len(tables.volumes)):
        most = max(most, tables.starts[e + 1] - tables.starts[e])
    stresses, total = np.empty((9, most)), 0.0
    for e in range(len(tables.volumes)):
        begin, end = tables.starts[e], tables.starts[e + 1]
        strains, columns = tables.strains[:, begin:end], tables.columns[begin:end]
        _write_gradient(strains, columns, phi, F)
        constants, much = tables.constants[e], stiffness * tables.volumes[e]
        total += much * energy_density(kind, F, constants, scratch)
        if wanted == 0:
            continue
        stress(kind, F, constants, P, scratch)
        for k in range(len(columns)):
            pull = 0.0
            for i in range(3):
                for j in range(3):
                    pull += P[i, j] * strains[3 * i + j, k]
            gradient[first + columns[k]] += much * pull
        if wanted >= 2:
            stress_derivative(kind, F, constants, H, scratch)
            project_psd(F, is_isotropic(kind), H, frames)
            _add_hessian(much, H, strains, columns, first, stresses, hessian)
    return total


@compiled_fused
def _write_gradient(strains: Floats, columns: Ints, phi: Floats, F: Floats) -> None:
    for i in range(3):
        for j in range(3):
            row, total = strains[3 * i + j], 1.0 if i == j else 0.0
            for k in range(len(columns)):
                total += row[k] * phi[columns[k]]
            F[i, j] = total


@compiled_fused
def _add_hessian(
    much: float,
    H: Floats,
    strains: Floats,
    columns: Ints,
    first: int,
    stresses: Floats,
    out: Floats,
) -> None:
    count = len(columns)
    for i in range(9):
        row = stresses[i]
        for k in range(count):
            row[k] = 0.0
        for j in range(9):
            h, own = much * H[i, j], strains[j]
            for k in range(count):
                row[k] += h * own[k]
    for k in range(count):
        row = out[first + columns[k]]
        for j in range(k, count):
            total = 0.0
            for i in range(9):
                total += strains[i, k] * stresses[i, j]
            row[first + columns[j]] += total
