"""Bases U (n, 3, r) in which a body moves: modes, modal derivatives, shapes of a motion.

All are mass-orthonormal, UᵀMU = I with lumped masses, and zero at fixed vertices. They are made
for any `VibratingBody`, of tets or hexahedra, held or free. Bases of sketched loads are in
`supple.engines.stvk.sketch`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike

from supple.arrays import Floats, Ints
from supple.checks import (
    checked_array,
    checked_count,
    checked_indices,
    checked_masses,
    checked_number,
    numbers,
    plain_array,
)
from supple.elastic.body import ElasticBody
from supple.errors import SuppleError
from supple.progress import PartDone, unreported
from supple.reduction.compliance import LoosePieceError
from supple.reduction.derivatives import modal_derivatives
from supple.reduction.mass_pca import mass_pca, scaled_candidates
from supple.reduction.modes import Modes, linear_modes
from supple.reduction.null_space import null_space

#: Displacement, as a fraction of the body's size, for differences of the stiffness. They are exact
#: for StVK at any distance; other materials need a small one.
_STVK_STEP, _STEP = 0.05, 1e-4
#: Largest number of entries of the derivatives, 0.5 GB.
_MOST_ENTRIES = 62_500_000
#: Largest default number of linear modes; more give many small derivatives.
MOST_LINEAR = 20
#: Progress after the modes, and after the derivatives.
_MODES_DONE, _DERIVATIVES_DONE = 0.6, 0.95


class VibratingBody(Protocol):
    """Interface of a body for which bases can be computed, such as `ElasticBody` and `HexBody`."""

    rest: Floats

    def force(self, x: Any, /) -> Floats:
        """Return the gradient of the energy at positions (n, 3)."""

    def stiffness(self, x: Any, /) -> sp.csr_array:
        """Return the derivative of the force, (3n, 3n); it may be the same object every time."""

    def vertex_masses(self) -> Floats:
        """Return lumped masses, (n,)."""


def masses_of(body: VibratingBody) -> Floats:
    """Return the masses of a body's vertices, (n,), none negative."""
    return checked_masses(body.vertex_masses(), len(body.rest))


def fixed_vertices(fixed: ArrayLike, n_vertices: int) -> Ints:
    """Return indices of fixed vertices, ascending, from indices or a mask."""
    listed = plain_array("fixed vertices", fixed)
    if listed.dtype == bool and listed.shape == (n_vertices,):
        return np.flatnonzero(listed)
    if not listed.size:
        return np.empty(0, np.int64)
    return np.unique(checked_indices("fixed vertex", listed, n_vertices))


def free_vertices(body: VibratingBody, fixed: ArrayLike) -> Ints:
    """Return indices of vertices that may move: not fixed, and part of an element."""
    free = masses_of(body) > 0
    free[fixed_vertices(fixed, len(free))] = False
    if not free.any():
        raise SuppleError("every vertex is fixed; leave some free")
    return np.flatnonzero(free)


def check_pieces(body: VibratingBody, fixed: ArrayLike) -> None:
    """Raise LoosePieceError for a body of several pieces of which only some are fixed.

    If one piece is fixed entirely, the others would count as a free body.
    """
    mesh = getattr(body, "mesh", None)
    held = np.zeros(len(body.rest), bool)
    held[fixed_vertices(fixed, len(held))] = True
    if mesh is None or not held.any():
        return
    piece = mesh.components()
    anchored = np.zeros(int(piece.max()) + 1, bool)
    anchored[piece[held[mesh.elements].any(axis=1)]] = True
    if anchored.any() and not anchored.all():
        raise LoosePieceError(np.unique(mesh.elements[piece == anchored.argmin()]))


def mode_basis(body: VibratingBody, count: int, *, fixed: ArrayLike = ()) -> Floats:
    """Return the `count` lowest linear modes, (n, 3, count), without rigid modes of a free body.

    Parameters
    ----------
    body, count
        The body at rest, and the number of modes.
    fixed
        Vertices that do not move, or a mask; none for a free body.

    Examples
    --------
    >>> from supple.elastic import ElasticBody, Material
    >>> from supple.scenes import beam
    >>> body = ElasticBody(beam(cells=(4, 1, 1)), Material("stvk"))
    >>> mode_basis(body, 2, fixed=[0, 1, 2, 3]).shape
    (20, 3, 2)
    """
    return _shaped(body_modes(body, count, fixed=fixed).vectors)


def derivative_basis(
    body: VibratingBody,
    count: int,
    *,
    fixed: ArrayLike = (),
    linear: int | None = None,
    swing: float | None = None,
    progress: PartDone | None = None,
) -> Floats:
    """Reduce linear modes and their derivatives to `count` directions, the first mode first.

    Mass-PCA of {(λ₁/λ_i) Ψ_i} ∪ {(λ₁²/(λ_i λ_j)) Φ_ij}, i ≤ j, with mass-normalised derivatives
    Φ_ij (barbic2005 §5.1, eq. 16). The first column is Ψ₁, and the others are principal directions
    of what is left: mass-PCA alone can put a derivative first, which is far stiffer. Derivatives of
    a free body are balanced by inertial forces and have no rigid part (appendix D).

    Parameters
    ----------
    body
        The body at rest.
    count
        Size of the basis.
    fixed
        Vertices that do not move, or a mask; none for a free body.
    linear
        Number k of linear modes to start from, which give k + k(k + 1)/2 shapes. By default two
        fifths of `count`, at most 20.
    swing
        Amplitude of the first mode, in m·√kg; derivatives are then weighted as they occur at that
        amplitude, otherwise they are normalised.
    progress
        Called with the fraction done, 0 to 1.
    """
    size = checked_count("the number of basis vectors", count)
    k = linear_mode_count(size) if linear is None else checked_count("linear modes", linear)
    if size > k + k * (k + 1) // 2:
        raise SuppleError(
            f"{size} basis vectors requested, but {k} modes with their derivatives give only "
            f"{k + k * (k + 1) // 2} shapes; use more linear modes, or fewer basis vectors"
        )
    if swing is not None and not checked_number("swing", swing) > 0:
        raise SuppleError(f"swing must be positive, not {swing}")
    report = progress or unreported
    basis = BentModes.of(body, k, fixed, normalised=swing is None, progress=report).basis(
        size, k, swing
    )
    report(1.0)
    return basis


class BentModes(NamedTuple):
    """Linear modes of a body, and their derivatives."""

    body: VibratingBody
    fixed: ArrayLike
    modes: Modes
    derivatives: Floats  # (3n, k(k + 1)/2)

    @classmethod
    def of(
        cls,
        body: VibratingBody,
        linear: int,
        fixed: ArrayLike,
        *,
        normalised: bool = True,
        progress: PartDone = unreported,
    ) -> BentModes:
        """Compute `linear` modes, and their derivatives, mass-normalised unless asked otherwise."""
        _check_room(len(body.rest), linear)
        progress(0.0)
        modes = body_modes(body, linear, fixed=fixed)
        progress(_MODES_DONE)
        bent = body_derivatives(body, modes, progress=progress)
        if normalised:
            masses = np.repeat(masses_of(body), 3)
            sizes = np.sqrt(np.einsum("i,ij,ij->j", masses, bent, bent))
            bent /= np.where(sizes > 0, sizes, 1.0)
        return cls(body, fixed, modes, bent)

    def basis(self, count: int, linear: int, swing: float | None = None) -> Floats:
        """Return the basis (n, 3, count) of the first `linear` modes and their derivatives."""
        first = self.modes.vectors[:, :1]
        out = np.zeros((len(self.body.rest), 3, count))
        free = free_vertices(self.body, self.fixed)
        out[free, :, :1] = _shaped(first)[free]
        if count > 1:
            candidates = self.candidates(linear, swing)
            heavy = np.repeat(masses_of(self.body), 3)[:, None]
            candidates -= first @ ((heavy * first).T @ candidates)
            rest = principal_basis(self.body, candidates[:, 1:], count - 1, self.fixed)
            columns = rest.reshape(-1, count - 1)
            columns -= first @ (
                (heavy * first).T @ columns
            )  # small candidates have rounding errors
            out[free, :, 1:] = rest[free]
        return out

    def candidates(self, linear: int, swing: float | None = None) -> Floats:
        """Return the scaled modes and derivatives of eq. 16, (3n, k + k(k + 1)/2)."""
        number = len(self.modes.eigenvalues)
        first, second = np.triu_indices(number)
        chosen = (first < linear) & (second < linear)
        vectors = self.modes.vectors[:, :linear]
        bent = self.derivatives if linear == number else self.derivatives[:, chosen]
        return scaled_candidates(self.modes.eigenvalues[:linear], vectors, bent, swing)


def motion_basis(
    body: VibratingBody, frames: ArrayLike, count: int, *, fixed: ArrayLike = ()
) -> Floats:
    """Return `count` principal directions of a recorded motion of the full body.

    Mass-PCA through the rest shape, as in barbic2005 §7 and appendix A. Frames of a free body are
    first aligned rigidly with the rest shape.

    Parameters
    ----------
    body, fixed
        The body, and its fixed vertices (or a mask).
    frames
        (t, n, 3) positions, as in `FullSimulator.positions`.
    count
        Size of the basis.
    """
    positions = numbers("frames", frames)
    if positions.ndim != 3 or positions.shape[1:] != body.rest.shape or not len(positions):
        raise SuppleError(
            f"frames of shape {positions.shape}; expected (t, {len(body.rest)}, 3) positions"
        )
    shapes = checked_array("frames", positions, positions.shape) - body.rest
    held = np.delete(np.arange(len(body.rest)), free_vertices(body, fixed))
    shapes[:, held] = 0.0
    if not (masses_of(body)[held] > 0).any():  # a free body
        shapes = without_rigid_motion(body.rest, shapes, masses_of(body))
    columns = np.ascontiguousarray(shapes.reshape(len(shapes), -1).T)
    return principal_basis(body, columns, count, fixed)


def principal_basis(body: VibratingBody, shapes: Floats, count: int, fixed: ArrayLike) -> Floats:
    """Return mass-PCA directions (n, 3, count) of shapes (3n, c), zero at fixed vertices."""
    columns = _shaped(mass_pca(shapes, masses_of(body), count)[0])
    basis = np.zeros_like(columns)
    free = free_vertices(body, fixed)
    basis[free] = columns[free]
    return basis


def linear_mode_count(count: int) -> int:
    """Return the number of linear modes to start from: ⅖ `count`, at most 20 if that suffices."""
    k = min(MOST_LINEAR, max(1, round(0.4 * count)))
    while k + k * (k + 1) // 2 < count:
        k += 1
    return k


def body_modes(body: VibratingBody, count: int, *, fixed: ArrayLike = ()) -> Modes:
    """Return the lowest modes with their eigenvalues; see `mode_basis`."""
    check_pieces(body, fixed)
    allowed = null_space(None, len(body.rest), free_vertices(body, fixed))
    stiffness = sp.csr_array(body.stiffness(body.rest))
    return linear_modes(stiffness, masses_of(body), count, null_space=allowed)


def body_derivatives(
    body: VibratingBody, modes: Modes, *, progress: PartDone = unreported
) -> Floats:
    """Return derivatives Φ_ij, i ≤ j, of a body's modes, (3n, k(k + 1)/2) (barbic2005 eq. 14).

    For tets and hexahedra; columns are (0, 0), (0, 1), …, as those of `modal_derivatives`. They are
    not normalised.
    """
    if isinstance(body, ElasticBody):
        bent = modal_derivatives(body, body.rest, modes)
        progress(_DERIVATIVES_DONE)
        return bent
    k = modes.vectors.shape[1]
    out = np.empty((modes.vectors.shape[0], k * (k + 1) // 2))
    stvk = getattr(getattr(body, "material", None), "kind", "stvk") == "stvk"
    reach = (_STVK_STEP if stvk else _STEP) * float(np.linalg.norm(np.ptp(body.rest, axis=0)))
    first = 0
    for i in range(k):
        step = modes.vectors[:, i].reshape(-1, 3)
        h = reach / float(np.abs(step).max())
        along = np.ascontiguousarray(modes.vectors[:, i:])
        ahead = body.stiffness(body.rest + h * step) @ along
        behind = body.stiffness(body.rest - h * step) @ along
        out[:, first : first + k - i] = modes.compliance((behind - ahead) / (2 * h))
        first += k - i
        progress(_MODES_DONE + (_DERIVATIVES_DONE - _MODES_DONE) * first / out.shape[1])
    return out


def _check_room(n_vertices: int, linear: int) -> None:
    if 3 * n_vertices * linear * (linear + 1) // 2 > _MOST_ENTRIES:
        raise SuppleError(
            f"{linear * (linear + 1) // 2} derivatives of {n_vertices} vertices need more than "
            "0.5 GB; start from fewer linear modes"
        )


def _shaped(columns: Floats) -> Floats:
    """Return (3n, r) columns as (n, 3, r)."""
    return columns.reshape(-1, 3, columns.shape[1])


def without_rigid_motion(rest: Floats, displacements: Floats, masses: Floats) -> Floats:
    """Return displacements (t, n, 3) of frames aligned rigidly with the rest shape.

    They are pure deformation: without momentum and angular momentum about the mass centre of the
    rest shape, and mass-orthogonal to all infinitesimal rigid motions.
    """
    share = masses / masses.sum()
    arms = rest - share @ rest
    shapes = np.empty_like(displacements)
    for shape, displacement in zip(shapes, displacements, strict=True):
        placed = rest + displacement
        placed = placed - share @ placed
        shape[:] = placed @ _aligning_rotation(arms, placed, share) - arms
    rigid = rigid_motions(rest, masses)
    heavy = np.repeat(masses, 3)
    flat = shapes.reshape(len(shapes), -1)
    flat -= ((flat * heavy) @ rigid) @ rigid.T
    return shapes


def rigid_motions(rest: Floats, masses: Floats) -> Floats:
    """Return infinitesimal rigid motions (3n, 6), orthonormal in the metric of mass."""
    arms = rest - masses @ rest / masses.sum()
    fields = np.zeros((len(rest), 3, 6))
    fields[:, range(3), range(3)] = 1.0
    for axis in range(3):
        fields[:, :, 3 + axis] = np.cross(np.eye(3)[axis], arms)
    root = np.repeat(np.sqrt(masses), 3)[:, None]
    weighed = scipy.linalg.qr(root * fields.reshape(-1, 6), mode="economic")[0]
    unit: Floats = np.divide(weighed, root, out=np.zeros_like(weighed), where=root > 0)
    return unit


def _aligning_rotation(arms: Floats, placed: Floats, share: Floats) -> Floats:
    """Return R with placed @ R ≈ arms in the least-squares sense (Kabsch)."""
    u, _, vt = np.linalg.svd(placed.T @ (share[:, None] * arms))
    keep = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt))])
    rotation: Floats = u @ keep @ vt
    return rotation
