"""Bases of flesh: what moves with each coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg
from scipy.sparse.csgraph import reverse_cuthill_mckee

from supple.arrays import Floats, Ints
from supple.engines.soft_skeleton.flesh.handle_weights import (
    faded,
    farthest_handles,
    handle_weights,
    precise_energy,
    same_entries,
    three_coordinates,
)
from supple.engines.soft_skeleton.flesh.soft_layer import FleshLayer
from supple.linalg.cholesky import SparseCholesky


class DeformationBasis(NamedTuple):
    """Ψ of flesh, and handles."""

    shapes: list[sp.csr_array]
    """x, y and z of Ψ (n, m), with the same entries."""
    handles: Ints
    """(h,) tet vertices that it is spread from."""


def _handles(layer: FleshLayer, count: int, wanted: Floats | None) -> DeformationBasis:
    """Handles on the skin, smoothest between bone and each other: the default."""
    at = farthest_handles(layer.mesh, layer.outer, count, wanted)
    return _in_order(handle_weights(layer.mesh, layer.held, at), at)


def _paper(layer: FleshLayer, count: int, wanted: Floats | None) -> DeformationBasis:
    """Handles on the skin with coordinates that are linearly precise (tapia2021 §3.2)."""
    at = farthest_handles(layer.mesh, layer.outer, count, wanted)
    reach = handle_weights(layer.mesh, layer.held, at, precise_energy(layer.mesh))
    return _in_order(reach, at)


def _interior(layer: FleshLayer, count: int, wanted: Floats | None) -> DeformationBasis:
    """Handles inside, too: as far from each other as they can be in all of the flesh."""
    at = farthest_handles(layer.mesh, layer.free, count, wanted)
    return _in_order(handle_weights(layer.mesh, layer.held, at), at)


def _in_order(reach: sp.csr_array, at: Ints) -> DeformationBasis:
    """Number handles along the body, so that few entries of a step's factor are not zero."""
    neighbours = sp.csr_array(abs(reach).T @ abs(reach))
    order = reverse_cuthill_mckee(neighbours, symmetric_mode=True)
    ordered = sp.csr_array(reach[:, order])
    ordered.sort_indices()
    return DeformationBasis(three_coordinates(ordered), at[order])


def _modal(layer: FleshLayer, count: int, wanted: Floats | None) -> DeformationBasis:
    """Softest modes of flesh on bone, three for each handle asked for: all move everything."""
    del wanted
    stiffness, unknown = _flesh_stiffness(layer)
    masses = np.repeat(layer.body.vertex_masses(), 3)[unknown]
    factor = SparseCholesky(stiffness, block=3).factorise(stiffness)
    solve = scipy.sparse.linalg.LinearOperator(
        stiffness.shape, matvec=lambda b: factor.solve(np.ravel(b)), dtype=np.float64
    )
    most = min(3 * count, len(unknown) - 2)
    start = np.cos(np.arange(len(unknown)))  # the same for the same body
    _, modes = scipy.sparse.linalg.eigsh(
        stiffness, most, sp.diags_array(masses), 0.0, OPinv=solve, v0=start
    )
    found = np.zeros((3 * len(layer.mesh.vertices), most))
    found[unknown] = modes * np.sign(modes[np.abs(modes).argmax(axis=0), np.arange(most)])
    at = farthest_handles(layer.mesh, layer.outer, count)
    return DeformationBasis(same_entries([sp.csr_array(found[i::3]) for i in range(3)]), at)


def _responses(layer: FleshLayer, count: int, wanted: Floats | None) -> DeformationBasis:
    """Handles, half of them, beside answers of the flesh to loads on patches around as many.

    Answers end where they have faded to 0.03 to 0.1 of their largest.
    """
    at = farthest_handles(layer.mesh, layer.outer, max(count, 2), wanted)
    half = len(at) // 2
    handles = three_coordinates(handle_weights(layer.mesh, layer.held, at[: len(at) - half]))
    stiffness, unknown = _flesh_stiffness(layer)
    factor = SparseCholesky(stiffness, block=3).factorise(stiffness)
    places = layer.mesh.vertices
    spacing = np.median(
        np.sort(np.linalg.norm(places[at][:, None] - places[at], axis=2), axis=1)[:, 1]
    )
    load = np.zeros((3 * len(places), 3 * half))
    for k, middle in enumerate(at[len(at) - half :]):
        away = np.linalg.norm(places[layer.outer] - places[middle], axis=1) / (0.5 * spacing)
        for i in range(3):
            load[3 * layer.outer + i, 3 * k + i] = np.exp(-(away**2))
    answers = np.zeros_like(load)
    answers[unknown] = factor.solve(np.ascontiguousarray(load[unknown]))
    sizes = np.linalg.norm(answers.reshape(len(places), 3, -1), axis=1)
    largest = sizes.max(axis=0)
    answers = answers / largest * np.repeat(faded(sizes / largest), 3, axis=0)
    joined = [sp.csr_array(sp.hstack([handles[i], sp.csr_array(answers[i::3])])) for i in range(3)]
    return DeformationBasis(same_entries(joined), at)


def _flesh_stiffness(layer: FleshLayer) -> tuple[sp.csr_array, Ints]:
    """K of what is not bone, and its rows among all."""
    unknown = (3 * layer.free[:, None] + np.arange(3)).ravel()
    whole = sp.csr_array(layer.body.stiffness(layer.body.rest))
    return sp.csr_array(whole[unknown][:, unknown]), unknown


#: Bases by name: basis(layer, handles, how much nearer to each other at each vertex).
BASES: dict[str, Callable[[FleshLayer, int, Floats | None], DeformationBasis]] = {
    "handles": _handles,
    "paper": _paper,
    "interior": _interior,
    "modal": _modal,
    "responses": _responses,
}
