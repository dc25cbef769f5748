"""Stiffness of a pose-space model changed from place to place, without another build."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np

from supple.arrays import Floats, Singles
from supple.elastic.material import MATERIALS
from supple.engines.pose_space.runtime import RuntimeModel
from supple.errors import SuppleError
from supple.mesh.laplacian import hat_gradients

__all__ = ["stiffened"]


def stiffened(runtime: RuntimeModel, factors: Floats) -> RuntimeModel:
    """Return tables of the same model with tets so many times as stiff.

    Parameters
    ----------
    runtime
        Tables of the model as it was built; they stay as they are.
    factors
        (T,) what Young's modulus of each tet is multiplied by.

    Notes
    -----
    Cubature tets get their own factors. ΔK, which makes up for what they miss, is stretched to
    S ΔK S with sᵢ² = K̂ᵢᵢ with factors / K̂ᵢᵢ without: a mode's correction goes with its
    stiffness. Modes and cubature are those of the build; another build is more exact.
    """
    model = runtime.model
    if not MATERIALS[model.material_kind].isotropic:
        raise SuppleError(f"{model.material_kind} flesh cannot be changed from place to place")
    material, tets = model.material(0), _cubature_tets(runtime)
    stiffer = replace(material, young=factors * np.asarray(material.young))
    parameters = stiffer.element_parameters(len(model.mesh.tets))[tets]
    elastic = runtime.elastic
    tables = copy.copy(runtime)
    tables.elastic = elastic._replace(
        parameters=np.ascontiguousarray(parameters), young=elastic.young * factors[tets]
    )
    corrections = runtime.poses.corrections
    if len(corrections):
        stretched = _stretched(corrections, runtime, factors[tets], tets)
        tables.poses = runtime.poses._replace(corrections=stretched)
    return tables


def _cubature_tets(runtime: RuntimeModel) -> np.ndarray:
    """(c,) tets of the mesh in the order of the elastic tables."""
    model = runtime.model
    corners = runtime.vertices[runtime.elastic.corners]
    place = {tuple(model.mesh.tets[tet]): tet for tet in model.elastic_tets.tolist()}
    return np.array([place[tuple(each)] for each in corners], np.int64)


def _stretched(
    corrections: Singles, runtime: RuntimeModel, factors: Floats, tets: np.ndarray
) -> Singles:
    """S ΔK S of all poses and pairs of poses."""
    energies = _mode_energies(runtime, tets)
    before, after = energies.sum(axis=1), (energies * factors[:, None]).sum(axis=1)
    known = before > 0
    squares = np.divide(after, before, out=np.ones_like(before), where=known)
    scales = np.sqrt(np.where(known, squares, 1.0))  # (m, r)
    ends = runtime.poses.ends
    rows = np.concatenate([scales, 0.5 * (scales[ends[:, 0]] + scales[ends[:, 1]])])
    i, j = np.triu_indices(runtime.n_modes)
    return (corrections * rows[:, i] * rows[:, j]).astype(np.float32)


def _mode_energies(runtime: RuntimeModel, tets: np.ndarray) -> Floats:
    """(m, c, r) elastic energy of a unit of each mode in each cubature tet, at small strains."""
    model = runtime.model
    gradients = hat_gradients(model.mesh)[tets]
    basis = runtime.basis_rows(model.mesh.tets[tets].ravel())
    basis = basis.reshape(runtime.n_poses, len(tets), 4, 3, runtime.n_modes)
    found = np.empty((runtime.n_poses, len(tets), runtime.n_modes))
    young, poisson = (
        np.broadcast_to(value, (len(model.mesh.tets),))[tets]
        for value in (model.material(0).young, model.material(0).poisson)
    )
    shear = young / (2 * (1 + poisson))
    volume = young * poisson / ((1 + poisson) * (1 - 2 * poisson))
    for pose, rows in enumerate(basis):
        slope = np.einsum("caj,cair->cijr", gradients, rows)
        strain = 0.5 * (slope + slope.transpose(0, 2, 1, 3))
        squares = 2 * shear[:, None] * (strain**2).sum(axis=(1, 2))
        spread = volume[:, None] * np.einsum("ciir->cr", strain) ** 2
        weights = runtime.elastic.weights[pose] * runtime.elastic.volumes
        found[pose] = weights[:, None] * (squares + spread)
    return found
