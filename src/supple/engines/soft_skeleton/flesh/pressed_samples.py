"""Deformations of flesh that cubature is fitted to and measured with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.spatial import cKDTree

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer

#: Skin moves by at most this part of the flesh between it and bone.
MOST_PRESSED = 0.3
#: Handles that are moved at once, softest modes that are mixed, and radii of pushes in sizes of the
#: body.
MOVED, MODES, RADII = 4, 40, (0.01, 0.05)
#: Three kinds in turn: a few handles moved any way, mixed modes, and pushes along the normals.
SAMPLE_KINDS = ("handles", "modes", "pushes")


def flesh_samples(
    layer: FleshLayer, shapes: list[sp.csr_array], stiffness: Floats, count: int, seed: int
) -> Floats:
    """(count, m) coordinates φ that contact and motion may cause, the `SAMPLE_KINDS` in turn.

    Each moves skin by 0 to 0.3 times the flesh between it and bone, where it moves it most.

    Parameters
    ----------
    layer, shapes, stiffness
        The flesh, x, y and z of Ψ (n, m), and (m, m) ∂²W/∂φ² at rest.
    count, seed
        How many are drawn, and of what seed: another seed gives unseen ones.
    """
    random, m = np.random.default_rng(seed), len(stiffness)
    outer, places = layer.outer, layer.mesh.vertices[layer.outer]
    thick = cKDTree(layer.mesh.vertices[layer.held]).query(places)[0]
    thick = np.maximum(thick, 1e-3 * layer.mesh.size)  # bone of a finger that touches is at none
    skin = [sp.csr_array(each[outer]) for each in shapes]
    pushed = _pushes(layer, skin, stiffness, random)
    values, modes = scipy.linalg.eigh(stiffness, subset_by_index=[0, min(MODES, m) - 1])
    modes = modes / np.sqrt(np.maximum(values, 1e-12 * values[-1]))
    found = np.zeros((count, m))
    for s, phi in enumerate(found):
        if s % 3 == 0:
            own = random.choice(-(-m // 3), min(MOVED, -(-m // 3)), replace=False)
            columns = (3 * own[:, None] + np.arange(3)).ravel() % m
            phi[columns] = random.standard_normal(len(columns))
        elif s % 3 == 1:
            phi[:] = modes @ random.standard_normal(modes.shape[1])
        else:
            phi[:] = pushed()
        moved = np.sqrt(sum((each @ phi) ** 2 for each in skin))
        phi *= MOST_PRESSED * random.random() / max(float((moved / thick).max()), 1e-300)
    return found


def _pushes(
    layer: FleshLayer,
    skin: list[sp.csr_array],
    stiffness: Floats,
    random: np.random.Generator,
) -> Callable[[], Floats]:
    """Return a draw of K⁻¹ΨᵀN of a patch of the skin that some coordinate moves."""
    m, places = len(stiffness), layer.mesh.vertices[layer.outer]
    size = float(np.ptp(layer.mesh.vertices, axis=0).max())
    firm = stiffness + 1e-9 * np.trace(stiffness) / m * np.eye(m)
    factor = scipy.linalg.cho_factor(firm)
    moved: Ints = np.flatnonzero(np.diff(skin[0].indptr))

    def drawn() -> Floats:
        middle = places[random.choice(moved)]
        radius = size * random.uniform(*RADII)
        near = np.linalg.norm(places - middle, axis=1) <= radius
        load = sum(-(each[near].T @ layer.normals[near, i]) for i, each in enumerate(skin))
        return np.asarray(scipy.linalg.cho_solve(factor, load))

    return drawn
