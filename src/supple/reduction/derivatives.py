"""Modal derivatives: how modes bend as a body deforms along them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.checks import checked_array
from supple.compiled import taking_turns
from supple.elastic.body import ElasticBody
from supple.elastic.partition import Partition
from supple.errors import MeshError, SuppleError
from supple.reduction.checks import checked_indices
from supple.reduction.derivative_kernels import add_second_forces
from supple.reduction.modes import Modes

__all__ = ["modal_derivatives", "second_forces"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_kernel: Callable[..., float] = add_second_forces
#: Entries of the right-hand sides, 0.5 GB.
_MOST_ENTRIES = 62_500_000
#: And of those solved for at once, 16 MB: a solution takes several times its own room.
_BLOCK_ENTRIES = 2_000_000


def modal_derivatives(
    body: ElasticBody,
    rest: ArrayLike,
    modes: Modes,
    *,
    tets: ArrayLike | None = None,
    vertices: ArrayLike | None = None,
) -> Floats:
    """ψ_ij = W Z z_ij with (ZᵀKZ) z_ij = −Zᵀ((H : φ_i) Z y_j), i ≤ j (xu2016 eq. 28, 33–35).

    They are the second derivatives of where the body comes to rest under loads that modes resist
    (barbic2005 eq. 13–14). A body that nothing holds is balanced by inertial forces, and the
    derivatives have no rigid part.

    Parameters
    ----------
    body, rest
        The body and (n, 3) its rest shape at the pose.
    modes
        From `linear_modes` at that pose; they carry its constraints, weights and factorisation.
    tets
        Tets that the modes deform; by default all that touch `vertices`.
    vertices
        (k,) the body's vertices that the modes' rows belong to, ascending; by default all.

    Returns
    -------
    (3k, c(c + 1)/2) array
        Columns (0, 0), (0, 1), …, (0, c − 1), (1, 1), …
    """
    listed = np.arange(body.n_vertices)
    if vertices is not None:
        listed = checked_indices("vertex", vertices, body.n_vertices)
        if (np.diff(listed) <= 0).any():
            raise SuppleError("vertices must be ascending, as the modes' rows are")
    if modes.vectors.shape[0] != 3 * len(listed):
        raise SuppleError(
            f"modes with {modes.vectors.shape[0]} rows for {len(listed)} vertices; "
            "say with `vertices` which they belong to"
        )
    forces = second_forces(body, rest, listed, modes.vectors, modes.unweighted, tets=tets)
    return _bent(modes, np.negative(forces, out=forces))


def _bent(modes: Modes, forces: Floats) -> Floats:
    """W Z (ZᵀKZ)⁻¹ Zᵀ of forces, in their place, some columns at a time."""
    stretch = None if modes.weights is None else np.repeat(modes.weights, 3)[:, None]
    step = max(1, _BLOCK_ENTRIES // max(1, len(forces)))
    for first in range(0, forces.shape[1], step):
        some = slice(first, first + step)
        moved = modes.compliance(np.ascontiguousarray(forces[:, some]))
        forces[:, some] = moved if stretch is None else stretch * moved
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
    """(H : a_i) b_j for i ≤ j, (3k, pairs) in N: second derivatives of the internal force at rest.

    Parameters
    ----------
    body, rest
        The body and (n, 3) its rest shape, which is where it is.
    vertices
        (k,) vertices that move, ascending.
    first, second
        (3k, r) displacements a_i and b_j.
    tets
        Tets to look at; by default all that touch `vertices`.
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
        with taking_turns():
            smallest = _kernel(
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
    """Corners of the tets that touch `vertices`, renumbered; which tets; and all their vertices.

    `vertices` come first, then those beside them, which do not move.
    """
    moves = np.zeros(body.n_vertices, bool)
    moves[vertices] = True
    touching = moves[body.mesh.tets].any(axis=1)
    if tets is not None:
        wanted = np.zeros(body.n_tets, bool)
        wanted[checked_indices("tet", tets, body.n_tets)] = True
        touching &= wanted
    chosen = np.flatnonzero(touching)
    corners = np.asarray(body.mesh.tets[chosen], np.int64)
    beside = np.setdiff1d(corners, vertices)
    around = np.concatenate([vertices, beside])
    number = np.full(body.n_vertices, -1)
    number[around] = np.arange(len(around))
    return number[corners], chosen, around


def _on_vertices(u: Floats, k: int, n_around: int) -> Floats:
    """Displacements (3k, r) as (n, 3, r), zero on the vertices beside."""
    padded = np.zeros((n_around, 3, u.shape[1]))
    padded[:k] = u.reshape(k, 3, -1)
    return padded
