"""Static condensation of the interior, and snapshots of it when the rig moves far (METHOD §11)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from supple.arrays import Bools, Floats, Ints
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import static_equilibrium
from supple.engines.rig_space.flesh_rig import CorotatedFlesh
from supple.errors import SuppleError
from supple.linalg.cholesky import SparseCholesky
from supple.linalg.sparse import PrincipalSubmatrix
from supple.mesh.tets import TetMesh
from supple.reduction.cubature.samples import AMPLITUDE
from supple.reduction.modes import linear_modes
from supple.reduction.null_space import null_space

#: Corrections below this fraction of the largest displacement of their column are dropped.
FAINT = 1e-3
#: Amplitudes of the snapshots, relative to that of typical samples.
REACHES = (0.5, 1.0, 2.0, 4.0)
#: Newton iterations and tolerance of the interior's equilibrium. With 1e-5 the modes agree to three
#: digits, and a build takes nearly twice as long.
ITERATIONS, TOLERANCE = 20, 3e-4


def interior_vertices(mesh: TetMesh, held: Ints) -> Ints:
    """Return tet vertices (q,) that are neither on the boundary nor in bone, ascending."""
    inside = np.zeros(len(mesh.vertices), bool)
    inside[mesh.tets] = True
    inside[mesh.boundary()] = False
    inside[held] = False
    return np.flatnonzero(inside)


def moved_vertices(jacobian: Floats) -> Bools:
    """Return a mask (n, k) of displacements by ∂Φ/∂p (n, 3, k) above `FAINT` times the largest."""
    displacements = np.abs(jacobian).max(axis=1)
    return np.asarray(
        displacements > FAINT * np.maximum(displacements.max(axis=0, initial=0.0), 1e-300)
    )


def vertices_near(mesh: TetMesh, jacobians: Iterable[Floats], rings: int) -> Bools:
    """Return a mask (n,) of vertices within `rings` tets of one that the rig moves at any pose.

    `jacobians` are ∂Φ/∂p (n, 3, k), one per pose. A swinging trunk does not affect the belly: with
    modes and cubature on the flesh of a whole elephant, the error was 8 % of the height, not 4 %.
    """
    near = np.zeros(len(mesh.vertices), bool)
    for jacobian in jacobians:
        near |= moved_vertices(jacobian).any(axis=1)
    for _ in range(rings):
        near[mesh.tets[near[mesh.tets].any(axis=1)]] = True
    return near


@dataclass(frozen=True, eq=False)
class Condensation:
    """Interior displacements by free parameters and modes, and the body in these coordinates.

    `corrections` (q, 3, K) of interior vertices are added to ∂Φ/∂p: first Z of each parameter,
    condensation − ∂Φ/∂p, then `n_modes` modes of the interior. `mass` and `stiffness` (K, K) are
    YᵀMY and YᵀKY at rest, with Y = [∂Φ/∂p, 0] + corrections.
    """

    corrections: Floats
    mass: Floats
    stiffness: Floats
    n_modes: int


def condensed_columns(body: ElasticBody, jacobian: Floats, interior: Ints) -> Floats:
    """Return Z (q, 3, k) = −K_QQ⁻¹ K_QS ∂Φ_S/∂p − ∂Φ_Q/∂p at rest, of the interior vertices Q."""
    n, _, k = jacobian.shape
    if not len(interior):
        return np.zeros((0, 3, k))
    stiffness = body.stiffness(body.rest).copy()
    free = (3 * interior[:, None] + np.arange(3)).ravel()
    part = PrincipalSubmatrix(stiffness, free)
    factor = SparseCholesky(part.pattern, block=3).factorise(part.take(stiffness.data))
    surface = jacobian.reshape(3 * n, k).copy()
    surface[free] = 0.0
    pull = np.ascontiguousarray((stiffness @ surface)[free])
    return -factor.solve(pull).reshape(len(interior), 3, k) - jacobian[interior]


def held_modes(body: ElasticBody, interior: Ints, count: int) -> Floats:
    """Return the lowest modes (q, 3, m) of the interior with the surface fixed, at most `count`."""
    count = min(count, 3 * len(interior))
    if not count:
        return np.zeros((len(interior), 3, 0))
    n = len(body.rest)
    space = null_space(None, n, interior)
    modes = linear_modes(body.stiffness(body.rest), body.vertex_masses(), count, null_space=space)
    return modes.vectors.reshape(n, 3, count)[interior]


def _without_faint(corrections: Floats, jacobian: Floats) -> Floats:
    """Return corrections with small entries set to zero, rounded to float32 as in model files.

    The effect of a shape of the belly on the inside of a leg is negligible, but costs as much.
    """
    sizes = np.abs(corrections).max(axis=1, keepdims=True)
    largest = sizes.max(axis=0, keepdims=True, initial=0.0)
    k = jacobian.shape[2]
    largest[:, :, :k] = np.maximum(largest[:, :, :k], np.abs(jacobian).max(axis=(0, 1)))
    rounded: Floats = np.where(sizes > FAINT * largest, corrections, 0.0)
    return rounded.astype(np.float32).astype(np.float64)


def reduced(
    body: ElasticBody, jacobian: Floats, interior: Ints, corrections: Floats
) -> Condensation:
    """Return the body in coordinates of parameters and modes, from Z and modes (q, 3, K)."""
    n, _, k = jacobian.shape
    corrections = _without_faint(corrections, jacobian)
    basis = np.zeros((n, 3, corrections.shape[2]))
    basis[:, :, :k] = jacobian
    basis[interior] += corrections
    flat = basis.reshape(3 * n, -1)
    mass = flat.T @ (np.repeat(body.vertex_masses(), 3)[:, None] * flat)
    if not np.diag(mass)[:k].max() > 0:
        raise SuppleError("the free parameters move no flesh; name others as free")
    stiffness = flat.T @ (body.stiffness(body.rest) @ flat)
    both = 0.5 * (mass + mass.T), 0.5 * (stiffness + stiffness.T)
    return Condensation(corrections, *both, corrections.shape[2] - k)


@dataclass(frozen=True, eq=False)
class Snapshot:
    """State of the flesh with the interior in equilibrium.

    `pose` (s,) is the key pose, and `offsets` (k,) are those of the free parameters from it.
    `residual` (q, 3) has the interior displacements that linear condensation lacks, in frames that
    rotate with the flesh.
    """

    pose: Floats
    offsets: Floats
    residual: Floats


def interior_snapshots(
    flesh: CorotatedFlesh,
    body: ElasticBody,
    condensed: Condensation,
    poses: Sequence[Floats],
    count: int,
    rng: np.random.Generator,
) -> list[Snapshot]:
    """Return up to `count` random states at the key poses, with the interior in equilibrium.

    Condensation is linear, and without modes of the nonlinear response at large motions a body is
    too stiff: for a trunk that swings by a third of its length, six such modes were worth more than
    sixty modes of vibration. `flesh` and `condensed` have coordinates of parameters alone.
    """
    flesh.set_key(np.asarray(flesh.rig.rig.rest_pose, np.float64))
    draw = _Drawing(flesh, body, condensed, rng)
    outside = np.setdiff1d(np.arange(len(flesh.key)), flesh.interior)
    snapshots = []
    for i in range(count):
        pose, offsets = np.asarray(poses[i % len(poses)], np.float64), draw(i)
        flesh.set_key(pose)
        flesh.move(1e-6 * offsets, columns=False)
        distances = np.linalg.norm(flesh.x - flesh.key, axis=1) / 1e-6
        far = AMPLITUDE * REACHES[i % len(REACHES)] * _extent(flesh.key, distances)
        offsets = offsets * (far / max(distances.max(), 1e-12))
        flesh.turn(offsets)
        flesh.move(offsets, columns=False)
        residual = np.zeros((len(flesh.interior), 3))
        if len(flesh.interior):
            try:
                rest = static_equilibrium(
                    body,
                    start=flesh.x,
                    fixed=outside,
                    rest=flesh.key,
                    tolerance=TOLERANCE,
                    max_iterations=ITERATIONS,
                )
            except SuppleError:  # no equilibrium at this state
                continue
            back = (rest.positions - flesh.x)[flesh.interior]
            residual = np.einsum("vji,vj->vi", flesh.rotations.matrices, back)
        snapshots.append(Snapshot(pose, offsets, residual))
    flesh.rotations.reset()
    return snapshots


def _extent(points: Floats, moved: Floats) -> float:
    """Return the diagonal in m of the part that moves by at least a fifth of the maximum."""
    part = points[moved >= 0.2 * moved.max()]
    return float(np.linalg.norm(np.ptp(part, axis=0)))


class _Drawing:
    """Random directions (k,) of free parameters: soft, and responses to shaking, in turn."""

    def __init__(
        self,
        flesh: CorotatedFlesh,
        body: ElasticBody,
        condensed: Condensation,
        rng: np.random.Generator,
    ) -> None:
        k = flesh.n_free
        mass, stiffness = condensed.mass[:k, :k], condensed.stiffness[:k, :k]
        # Regularised for parameters with the same effect.
        diagonal = np.diag(mass)
        lift = np.diag(1e-6 * diagonal + 1e-12 * diagonal.max())
        squares, shapes = scipy.linalg.eigh(stiffness, mass + lift)
        self._squares = np.maximum(squares, 1e-3 * np.median(np.abs(squares)) + 1e-12)
        self._shapes, self._rng = shapes, rng
        flesh.move(np.zeros(flesh.size))
        self._columns, self._masses = flesh.Y[:, :, :k].copy(), body.vertex_masses()
        self._centre = self._masses @ flesh.key / self._masses.sum()
        self._key = flesh.key.copy()

    def __call__(self, number: int) -> Floats:
        rng = self._rng
        if number % 2 == 0:
            return self._shapes @ (rng.standard_normal(len(self._squares)) / np.sqrt(self._squares))
        size = np.ptp(self._key, axis=0).max()
        turn = rng.standard_normal(3) / size
        acceleration = rng.standard_normal(3) + np.cross(turn, self._key - self._centre)
        pull = np.einsum("v,vi,vik->k", self._masses, acceleration, self._columns)
        response: Floats = self._shapes @ ((self._shapes.T @ pull) / self._squares)
        return response


def snapshot_modes(
    snapshots: Sequence[Snapshot], stiffness: Floats, others: Floats, count: int
) -> Floats:
    """Return unit principal modes (q, 3, m) of the snapshots' `residual`, by elastic energy.

    `stiffness` (3q, 3q) is sparse, of the interior at rest; `others` (q, 3, e) are projected out.
    """
    q = len(others)
    count = min(count, len(snapshots))
    if not (q and count):
        return np.zeros((q, 3, 0))
    residuals = np.array([each.residual.ravel() for each in snapshots]).T
    basis = others.reshape(3 * q, -1)
    if basis.shape[1]:
        pulled = stiffness @ basis
        parts = np.linalg.lstsq(basis.T @ pulled, pulled.T @ residuals, rcond=None)[0]
        residuals = residuals - basis @ parts
    # Reduce the weight of large snapshots.
    energy = np.sqrt(np.maximum(np.einsum("is,is->s", residuals, stiffness @ residuals), 1e-300))
    residuals = residuals / np.sqrt(energy * np.median(energy))
    values, vectors = scipy.linalg.eigh(residuals.T @ (stiffness @ residuals))
    order = np.argsort(-values)[:count]
    order = order[values[order] > 1e-9 * values.max()]
    modes = residuals @ vectors[:, order]
    return np.ascontiguousarray(modes / np.linalg.norm(modes, axis=0)).reshape(q, 3, -1)
