"""Damping by region: stiffness of the flesh at rest, weighted by the factors of its tets.

βK with factors b of the tets is min(b) βK̂ of the current state, plus β times the stiffness K of
the flesh at rest with the weights b − min(b). The second part is constant at a pose: terms for
pairs of poses are blended as the mass is (xu2016 eq. 16), so that it is positive semi-definite at
every pose, and a step costs one packed sum more.
"""

from __future__ import annotations

import copy

import numpy as np

from supple.arrays import Floats, Ints, Singles
from supple.elastic.densities.density import lame_parameters
from supple.engines.pose_space.runtime import RuntimeModel, cubature_tets
from supple.linalg.blas import single_threaded
from supple.mesh.tets import hat_gradients


def damped(
    runtime: RuntimeModel, factors: Floats, stiffness: Floats | None
) -> tuple[RuntimeModel, float]:
    """Return tables with factors (T,) on the damping β of each tet, and the factor on all β.

    `stiffness` (T,) are factors on the stiffness of the tets, which damping is proportional to.
    """
    tets = cubature_tets(runtime)
    least = float(factors[tets].min())
    tables = copy.copy(runtime)
    weights = factors[tets] / least - 1.0
    if weights.any():
        if stiffness is not None:
            weights = weights * stiffness[tets]
        tables.poses = runtime.poses._replace(damping=_products(runtime, tets, weights))
    return tables, least


def _products(runtime: RuntimeModel, tets: Ints, weights: Floats) -> Singles:
    """Return GᵢᵀWGⱼ (m(m+1)/2, packed) of pairs of poses i ≤ j, plus its transpose if i < j.

    Gᵢ has the strains of the cubature tets for the basis at pose i, and W their elastic constants
    times the weights (c,), for small strains. Cubature weights are the means of all poses.
    """
    rows = _strain_rows(runtime, tets, weights)
    upper = np.triu_indices(runtime.n_modes)
    packed = []
    with single_threaded():  # the same bits on every machine
        for i in range(len(rows)):
            for j in range(i, len(rows)):
                product = rows[i].T @ rows[j]
                packed.append((product if i == j else product + product.T)[upper])
    return np.array(packed, np.float32)


def _strain_rows(runtime: RuntimeModel, tets: Ints, weights: Floats) -> Floats:
    """Return rows (m, 7c, r) whose squares are twice the elastic energy of the weighted tets."""
    model = runtime.model
    count, m, r = len(tets), runtime.n_poses, runtime.n_modes
    material = model.material(0)
    shear, volume = (
        np.broadcast_to(each, len(model.mesh.tets))[tets]
        for each in lame_parameters(material.young, material.poisson)
    )
    cubature = np.maximum(runtime.elastic.weights.mean(axis=0), 0.0) * runtime.elastic.volumes
    scale = cubature * weights
    gradients = hat_gradients(model.mesh)[tets]
    basis = runtime.basis_rows(model.mesh.tets[tets].ravel()).reshape(m, count, 4, 3, r)
    out = np.empty((m, count, 7, r))
    for rows, at in zip(out, basis, strict=True):
        slope = np.einsum("caj,cair->cijr", gradients, at)
        for k in range(3):
            i, j = (k + 1) % 3, (k + 2) % 3
            rows[:, k] = slope[:, k, k]
            rows[:, 3 + k] = (slope[:, i, j] + slope[:, j, i]) / np.sqrt(2)
        rows[:, :6] *= np.sqrt(2 * shear * scale)[:, None, None]
        rows[:, 6] = np.einsum("ciir->cr", slope) * np.sqrt(volume * scale)[:, None]
    return out.reshape(m, 7 * count, r)
