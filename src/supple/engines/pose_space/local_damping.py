"""Damping by region: stiffness of the flesh at rest, weighted by the factors of its tets.

βK with factors b of the tets is min(b) βK̂ of the current state, plus β times the stiffness K of
the flesh at rest with the weights b − min(b). The second part is constant at a pose: terms for
pairs of poses are blended as the mass is (xu2016 eq. 16), so that it is positive semi-definite at
every pose, and a step costs one packed sum more. It is the sum over all tets: cubature is fitted to
forces on all of the flesh, and gave a rat's soft modes half of a tail's damping.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from supple.arrays import Floats, Ints, Singles
from supple.elastic.body import LEAST_REST_VOLUME, ElasticBody
from supple.elastic.densities.density import lame_parameters
from supple.engines.pose_space.model.model import PoseSpaceModel
from supple.engines.pose_space.runtime import RuntimeModel
from supple.linalg.blas import single_threaded
from supple.linalg.cholesky import SparseCholesky
from supple.mesh.tets import hat_gradients

#: Tets whose strains are in memory at a time, at all poses.
CHUNK = 1000


def whole_bases(runtime: RuntimeModel) -> Singles:
    """Return bases (m, n, 3, r) of all tet vertices at the poses, in the root's frame.

    Bases are stored where they carry the skin or cubature. The other vertices of a region move such
    that the elastic energy at rest is least. Stored bases are rounded, which adds to the energy of
    stiff modes: coordinates are mapped so that the energy of all tets is that of the model.
    """
    model, everything = runtime.model, np.arange(len(runtime.model.mesh.vertices))
    bases = runtime.vertex_rotations(everything) @ runtime.basis_rows(everything)
    bases = bases.astype(np.float32)
    for pose, basis in enumerate(bases.reshape(model.n_poses, -1, model.n_modes)):
        _extend(model, pose, basis)
    if model.stiffness_corrections is None:
        return bases
    ones, trained = np.ones(len(model.mesh.tets)), model.trained_energies is not None
    for pose in range(model.n_poses):
        stiffness = _unpacked(model.stiffness_corrections[pose], model.n_modes)
        if not trained:  # the corrections are of the cubature's stiffness
            cubature = np.zeros(len(ones))
            cubature[model.elastic_tets] = model.elastic_weights[pose]
            stiffness += _product(model, bases, cubature, pose)
        bases[pose] @= _mapping(_product(model, bases, ones, pose), stiffness).astype(np.float32)
    return bases


def _extend(model: PoseSpaceModel, pose: int, basis: Singles) -> None:
    """Compute a basis (3n, r) where it is not stored, by the elastic energy at rest."""
    at, body = model.tet_rig(model.poses[pose]), ElasticBody(model.mesh, model.material(pose))
    body.leave_out(LEAST_REST_VOLUME)
    stiffness = sp.csr_array(body.stiffness(at, at, psd=True))
    regions = zip(model.regions, model.basis_vertices, model.columns, strict=True)
    for region, stored, columns in regions:
        others = np.setdiff1d(np.setdiff1d(region.vertices, stored), model.fixed)
        unknowns = (3 * others[:, None] + np.arange(3)).ravel()
        rows = stiffness[unknowns]
        system = sp.csr_array(rows[:, unknowns])
        if system.nnz:
            # Vertices of tets that the pose flattens have no stiffness.
            least = 1e-9 * system.diagonal().max() * sp.eye_array(len(unknowns))
            load = -(rows @ basis[:, columns].astype(np.float64))
            system = sp.csr_array(system + least)
            basis[unknowns, columns] = SparseCholesky(system).factorise(system).solve(load)


def _mapping(given: Floats, wanted: Floats) -> Floats:
    """Return the symmetric positive semi-definite T with T given T = wanted, for such matrices."""
    root = _power(given, 0.5)
    inverse = _power(given, -0.5)
    return inverse @ _power(root @ wanted @ root, 0.5) @ inverse


def _power(matrix: Floats, exponent: float) -> Floats:
    """Return a power of a symmetric matrix, whose smallest eigenvalues are raised."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, 1e-12 * max(float(values[-1]), 1e-300))
    return (vectors * values**exponent) @ vectors.T


def _unpacked(packed: Singles, r: int) -> Floats:
    matrix, upper = np.zeros((r, r)), np.triu_indices(r)
    matrix[upper] = packed
    matrix.T[upper] = packed
    return matrix


def damped(
    runtime: RuntimeModel, bases: Singles, factors: Floats, stiffness: Floats | None
) -> RuntimeModel:
    """Return tables with factors (T,) on the damping β of each tet.

    `bases` are those of `whole_bases`, and `stiffness` (T,) factors on the stiffness of the tets,
    which damping is proportional to.
    """
    tables = copy.copy(runtime)
    tables.least_damping = float(factors.min())
    weights = factors / tables.least_damping - 1.0
    if weights.any():
        if stiffness is not None:
            weights = weights * stiffness
        tables.poses = runtime.poses._replace(damping=_products(runtime.model, bases, weights))
    return tables


def _products(model: PoseSpaceModel, bases: Singles, weights: Floats) -> Singles:
    """Return GᵢᵀWGⱼ (m(m+1)/2, packed) of pairs of poses i ≤ j, plus its transpose if i < j.

    Gᵢ has the small strains of the tets for the basis at pose i, and W their elastic constants
    times the weights (T,).
    """
    m, r = model.n_poses, model.n_modes
    products = np.zeros((m, m, r, r))
    with single_threaded():  # the same bits on every machine
        for rows in _strain_rows(model, bases, weights, range(m)):
            for i in range(m):
                for j in range(i, m):
                    products[i, j] += rows[i].T @ rows[j]
    upper, pairs = np.triu_indices(r), zip(*np.triu_indices(m), strict=True)
    packed = [products[i, j] + (products[i, j].T if i < j else 0) for i, j in pairs]
    return np.array([each[upper] for each in packed], np.float32)


def _product(model: PoseSpaceModel, bases: Singles, weights: Floats, pose: int) -> Floats:
    """Return GᵢᵀWGᵢ (r, r) of one pose; see `_products`."""
    product = np.zeros((model.n_modes, model.n_modes))
    with single_threaded():
        for (rows,) in _strain_rows(model, bases, weights, [pose]):
            product += rows.T @ rows
    return product


def _strain_rows(
    model: PoseSpaceModel, bases: Singles, weights: Floats, poses: Sequence[int]
) -> Iterator[list[Singles]]:
    """Yield strains (6t, r) of each unit coordinate at each of the poses, for a few tets at once.

    Their squares sum to twice the elastic energy times the weights (T,).
    """
    moving = (bases != 0).any(axis=(0, 2, 3))
    tets = np.flatnonzero((weights > 0) & moving[model.mesh.tets].any(axis=1))
    placed = {pose: model.tet_rig(model.poses[pose]) for pose in poses}
    gradients = hat_gradients(model.mesh)[tets]
    volumes = weights[tets] * model.mesh.volumes()[tets]
    for first in range(0, len(tets), CHUNK):
        some = slice(first, first + CHUNK)
        corners, rows = model.mesh.tets[tets[some]], []
        for pose in poses:
            moduli = _moduli(model, pose, tets[some])
            strains = _strains(placed[pose][corners], gradients[some], moduli)
            strains *= np.sqrt(volumes[some])[:, None, None]
            rows.append(strains @ bases[pose, corners].reshape(-1, 12, model.n_modes))
        yield [each.reshape(-1, model.n_modes) for each in rows]


def _moduli(model: PoseSpaceModel, pose: int, tets: Ints) -> tuple[Floats, Floats]:
    """Return Lamé's μ and λ (t,) of tets at a pose."""
    material, count = model.material(pose), len(model.mesh.tets)
    mu, lam = lame_parameters(material.young, material.poisson)
    return np.broadcast_to(mu, count)[tets], np.broadcast_to(lam, count)[tets]


def _strains(placed: Floats, neutral: Floats, moduli: tuple[Floats, Floats]) -> Singles:
    """Return matrices (t, 6, 12) from displacements of the corners to strains of tets at a pose.

    Their squares sum to twice the elastic energy, relative to the volume at the neutral pose.
    `placed` (t, 4, 3) are the corners' rest positions at the pose, `neutral` (t, 4, 3) the ∇N at
    the neutral pose. Strains are relative to the tets' own rotations, so that they can be blended
    from pose to pose. Flat and inverted tets have none.
    """
    left, stretches, right = np.linalg.svd(np.einsum("tai,taj->tij", placed, neutral))
    turned, growth = left @ right, stretches.prod(axis=1)
    sound = (np.linalg.det(turned) > 0) & (growth > LEAST_REST_VOLUME)
    stretches[~sound] = 1.0
    # ∇N and the displacements are turned back by the rotation of the tet.
    gradients = (neutral @ right.transpose(0, 2, 1) / stretches[:, None]) @ right
    slopes = np.einsum("taj,tki->tijak", gradients, turned).reshape(-1, 3, 3, 12)
    mu, lam = moduli
    scale = np.sqrt(np.where(sound, growth, 0.0))
    shear, spread = scale * np.sqrt(2 * mu), scale * np.sqrt(2 * mu + 3 * lam)
    trace = np.einsum("tiik->tk", slopes) * ((spread - shear) / 3)[:, None]
    out = np.empty((len(placed), 6, 12), np.float32)
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3
        out[:, k] = shear[:, None] * slopes[:, k, k] + trace
        out[:, 3 + k] = (shear / np.sqrt(2))[:, None] * (slopes[:, i, j] + slopes[:, j, i])
    return out
