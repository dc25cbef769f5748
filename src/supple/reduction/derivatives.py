"""Modal derivatives: second derivatives of a body's equilibrium under loads along its modes."""

from __future__ import annotations

import numpy as np
from numba import prange
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import checked_array, checked_indices
from supple.compiled.jit import compiled, compiled_parallel, serialised_loops
from supple.elastic.assembly import Partition
from supple.elastic.body import ElasticBody
from supple.elastic.densities.dispatch import is_quartic, stress_derivative
from supple.elastic.element import tet_gradients
from supple.errors import MeshError, SuppleError
from supple.reduction.modes import Modes

#: Largest number of entries of the right-hand sides: 0.5 GB.
_MOST_ENTRIES = 62_500_000
#: Entries of the right-hand sides of one solve, 16 MB, which needs several times that memory.
_BLOCK_ENTRIES = 2_000_000
#: Strain of the finite differences of materials other than StVK: their error is about its square,
#: and the rounding error 1e-16 divided by it.
_STRAIN = 1e-5


def modal_derivatives(
    body: ElasticBody,
    rest: ArrayLike,
    modes: Modes,
    *,
    tets: ArrayLike | None = None,
    vertices: ArrayLike | None = None,
) -> Floats:
    """Compute modal derivatives ψ_ij = W Z z_ij, i ≤ j (xu2016 eq. 28, 33–35).

    (ZᵀKZ) z_ij = −Zᵀ((H : φ_i) Z y_j). They are second derivatives of the equilibrium under loads
    in the directions of modes (barbic2005 eq. 13–14). A free body is balanced by inertial forces,
    and its derivatives have no rigid part.

    Parameters
    ----------
    body, rest
        The body and (n, 3) its rest shape at the pose.
    modes
        Modes of `linear_modes` at that pose, with constraints, weights and factorisation.
    tets
        Tets that the modes deform; by default all that touch `vertices`.
    vertices
        (k,) vertices of the modes' rows, ascending; by default all.

    Returns
    -------
    (3k, c(c + 1)/2) array
        Columns (0, 0), (0, 1), …, (0, c − 1), (1, 1), …
    """
    rows = np.arange(body.n_vertices)
    if vertices is not None:
        rows = checked_indices("vertex", vertices, body.n_vertices)
        if (np.diff(rows) <= 0).any():
            raise SuppleError("vertices must be ascending, as the modes' rows are")
    if modes.vectors.shape[0] != 3 * len(rows):
        raise SuppleError(
            f"modes with {modes.vectors.shape[0]} rows for {len(rows)} vertices; "
            "pass their numbers as `vertices`"
        )
    forces = second_forces(body, rest, rows, modes.vectors, modes.unweighted, tets=tets)
    return _displacements(modes, np.negative(forces, out=forces))


def _displacements(modes: Modes, forces: Floats) -> Floats:
    """Replace forces by W Z (ZᵀKZ)⁻¹ Zᵀ of them, a few columns at a time."""
    stretch = None if modes.weights is None else np.repeat(modes.weights, 3)[:, None]
    step = max(1, _BLOCK_ENTRIES // max(1, len(forces)))
    for first in range(0, forces.shape[1], step):
        some = slice(first, first + step)
        displacement = modes.compliance(np.ascontiguousarray(forces[:, some]))
        forces[:, some] = displacement if stretch is None else stretch * displacement
    return forces


def second_forces(
    body: ElasticBody,
    rest: ArrayLike,
    vertices: Ints,
    first: Floats,
    second: Floats,
    *,
    tets: ArrayLike | None = None,
) -> Floats:
    """Compute second derivatives (H : a_i) b_j of the internal force, i ≤ j, (3k, pairs) in N.
    `first` and `second` are displacements a_i and b_j (3k, r) of ascending `vertices` (k,); other
    vertices do not move. `tets` to sum over are by default all that touch `vertices`.
    """
    shape = checked_array("rest shape", rest, body.rest.shape)
    r = first.shape[1]
    if 3 * len(vertices) * r * (r + 1) // 2 > _MOST_ENTRIES:
        raise SuppleError(
            f"{r * (r + 1) // 2} derivatives of {len(vertices)} vertices need more than 0.5 GB; "
            "use fewer modes or regions"
        )
    corners, chosen, around = _tets_around(body, vertices, tets)
    out = np.zeros((len(around), 3, r * (r + 1) // 2))
    if len(chosen):
        local = np.ascontiguousarray(shape[around])
        partition = Partition.of(local, corners)
        parameters = body.material.element_parameters(body.n_tets)[chosen]
        with serialised_loops():
            smallest = _add_second_forces(
                body.material.code,
                local,
                np.ascontiguousarray(corners[partition.order]),
                np.ascontiguousarray(parameters[partition.order]),
                partition.chunk_start,
                partition.colour_start,
                *(_on_vertices(u, len(vertices), len(around)) for u in (first, second)),
                out,
            )
        if not smallest > 0:
            raise MeshError(
                f"the rest shape inverts or flattens a tet (volume {smallest:.3g} m³); "
                "a rest shape must keep every tet positively oriented"
            )
    return out[: len(vertices)].reshape(3 * len(vertices), -1)


def _tets_around(
    body: ElasticBody, vertices: Ints, tets: ArrayLike | None
) -> tuple[Ints, Ints, Ints]:
    """Return tets that touch `vertices`: renumbered corners, numbers of tets, all their vertices.
    `vertices` come first, then their neighbours, which do not move.
    """
    moves = np.zeros(body.n_vertices, bool)
    moves[vertices] = True
    touching = moves[body.mesh.tets].any(axis=1)
    if tets is not None:
        selected = np.zeros(body.n_tets, bool)
        selected[checked_indices("tet", tets, body.n_tets)] = True
        touching &= selected
    chosen = np.flatnonzero(touching)
    corners = np.asarray(body.mesh.tets[chosen], np.int64)
    neighbours = np.setdiff1d(corners, vertices)
    around = np.concatenate([vertices, neighbours])
    number = np.full(body.n_vertices, -1)
    number[around] = np.arange(len(around))
    return number[corners], chosen, around


def _on_vertices(u: Floats, k: int, n_around: int) -> Floats:
    """Return displacements (3k, r) as (n, 3, r), zero at the neighbours."""
    padded = np.zeros((n_around, 3, u.shape[1]))
    padded[:k] = u.reshape(k, 3, -1)
    return padded


# Second derivatives of the internal force along pairs of displacements, for all tets.


@compiled_parallel
def _add_second_forces(
    kind: int,
    rest: Floats,
    tets: Ints,
    parameters: Floats,
    chunk_start: Ints,
    colour_start: Ints,
    first: Floats,
    second: Floats,
    out: Floats,
) -> float:
    """Add (H : a_i) b_j for i ≤ j to `out` (n, 3, pairs); return the smallest rest volume.
    `first` and `second` are (n, 3, r): displacements a_i and b_j. Column (i, j) of `out` is
    number i·r − i(i − 1)/2 + j − i.
    """
    smallest = np.inf
    r = first.shape[2]
    for colour in range(len(colour_start) - 1):
        for k in prange(colour_start[colour], colour_start[colour + 1]):
            g, A, B = np.empty((4, 3)), np.empty((3, 3, r)), np.empty((3, 3, r))
            P, F, H = np.empty((3, 3, r)), np.empty((3, 3)), np.empty((2, 9, 9))
            scratch = np.empty((6, 3, 3))
            lowest = np.inf
            for e in range(chunk_start[k], chunk_start[k + 1]):
                volume = tet_gradients(rest, tets, e, g)
                lowest = min(lowest, volume)
                _displacement_gradients(first, tets[e], g, A)
                _displacement_gradients(second, tets[e], g, B)
                column = 0
                for i in range(r):
                    if _second_derivative(kind, A, i, parameters[e], F, H, scratch):
                        _times_gradients(H[0], B, i, P)
                        _scatter(volume, g, P, i, tets[e], column, out)
                    column += r - i
            smallest = min(smallest, lowest)
    return smallest


@compiled
def _displacement_gradients(u: Floats, tet: Ints, g: Floats, G: Floats) -> None:
    """Write ∂u/∂X of all columns to G (3, 3, r); differences keep the digits of distant bodies."""
    for c in range(3):
        u0, u1, u2, u3 = u[tet[0], c], u[tet[1], c], u[tet[2], c], u[tet[3], c]
        for d in range(3):
            g1, g2, g3 = g[1, d], g[2, d], g[3, d]
            row = G[c, d]
            for j in range(len(row)):
                row[j] = (u1[j] - u0[j]) * g1 + (u2[j] - u0[j]) * g2 + (u3[j] - u0[j]) * g3


@compiled
def _second_derivative(
    kind: int, A: Floats, i: int, p: Floats, F: Floats, H: Floats, scratch: Floats
) -> bool:
    """Write ∂²P/∂F² : A_i at F = I to H[0] (9, 9); return False if A_i is zero. The derivative is a
    central difference of ∂P/∂F at I ± hA_i, which is exact for StVK, whose ∂P/∂F is quadratic.
    """
    size = 0.0
    for c in range(3):
        for d in range(3):
            size = max(size, abs(A[c, d, i]))
    if size == 0.0:
        return False
    h = (1.0 if is_quartic(kind) else _STRAIN) / size
    for side in range(2):
        step = h if side == 0 else -h
        for c in range(3):
            for d in range(3):
                F[c, d] = step * A[c, d, i]
            F[c, c] += 1.0
        stress_derivative(kind, F, p, H[side], scratch)
    for m in range(9):
        plus, minus = H[0, m], H[1, m]
        for n in range(9):
            plus[n] = (plus[n] - minus[n]) * (0.5 / h)
    return True


@compiled
def _times_gradients(H: Floats, B: Floats, i: int, P: Floats) -> None:
    """Write H B_j (H as a matrix (9, 9)) to column j of P (3, 3, r), for j ≥ i."""
    b0, b1, b2 = B[0, 0, i:], B[0, 1, i:], B[0, 2, i:]
    b3, b4, b5 = B[1, 0, i:], B[1, 1, i:], B[1, 2, i:]
    b6, b7, b8 = B[2, 0, i:], B[2, 1, i:], B[2, 2, i:]
    for m in range(9):
        h0, h1, h2, h3, h4 = H[m, 0], H[m, 1], H[m, 2], H[m, 3], H[m, 4]
        h5, h6, h7, h8 = H[m, 5], H[m, 6], H[m, 7], H[m, 8]
        row = P[m // 3, m % 3, i:]
        # Views from i on, instead of indices from i on, so that the loop is vectorised.
        for j in range(len(row)):
            row[j] = (
                (h0 * b0[j] + h1 * b1[j] + h2 * b2[j])
                + (h3 * b3[j] + h4 * b4[j] + h5 * b5[j])
                + (h6 * b6[j] + h7 * b7[j] + h8 * b8[j])
            )


@compiled
def _scatter(
    volume: float, g: Floats, P: Floats, i: int, tet: Ints, column: int, out: Floats
) -> None:
    n = P.shape[2] - i
    for c in range(3):
        p0, p1, p2 = P[c, 0, i:], P[c, 1, i:], P[c, 2, i:]
        for a in range(4):
            g0, g1, g2 = volume * g[a, 0], volume * g[a, 1], volume * g[a, 2]
            row = out[tet[a], c, column : column + n]
            for j in range(len(row)):
                row[j] += p0[j] * g0 + p1[j] * g1 + p2[j] * g2
