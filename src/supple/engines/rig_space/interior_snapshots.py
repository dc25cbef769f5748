"""Snapshots of the interior at rest inside of a surface that the rig has moved far.

Condensation is linear: how flesh gives way when the rig bends it far is not in it, and a body
without that is too stiff. Modes of the differences at such states bring it in: of a trunk that
swings by a third of its length, six of them were worth more than sixty modes of vibration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from supple.arrays import Floats
from supple.elastic.body import ElasticBody
from supple.elastic.equilibrium import static_equilibrium
from supple.engines.rig_space.condensation import Condensation
from supple.engines.rig_space.turned_flesh import TurnedFlesh
from supple.errors import SuppleError
from supple.reduction.cubature.samples import AMPLITUDE

#: How far states go, in typical amplitudes of samples.
REACHES = (0.5, 1.0, 2.0, 4.0)
#: Newton iterations and tolerance of the interior's equilibrium. With 1e-5 modes are the same to
#: three digits, and a build takes nearly twice as long.
ITERATIONS, TOLERANCE = 20, 3e-4


@dataclass(frozen=True, eq=False)
class Snapshot:
    """State of the flesh in which the interior rests.

    Attributes
    ----------
    pose
        (s,) key pose.
    away
        (k,) free parameters, away from the key.
    left
        (q, 3) interior displacements that condensation misses, in frames of the flesh.
    """

    pose: Floats
    away: Floats
    left: Floats


def interior_snapshots(
    flesh: TurnedFlesh,
    body: ElasticBody,
    condensed: Condensation,
    poses: Sequence[Floats],
    count: int,
    rng: np.random.Generator,
) -> list[Snapshot]:
    """Draw states, and let the interior come to rest in each.

    Parameters
    ----------
    flesh, condensed
        Flesh without modes, and the body in coordinates of parameters alone.
    body
        Elasticity.
    poses
        Key poses, taken in turn.
    count
        How many.
    rng
        Random numbers.
    """
    flesh.set_key(np.asarray(flesh.rig.rig.rest_pose, np.float64))
    draw = _Drawing(flesh, body, condensed, rng)
    outside = np.setdiff1d(np.arange(len(flesh.key)), flesh.interior)
    found = []
    for i in range(count):
        pose, away = np.asarray(poses[i % len(poses)], np.float64), draw(i)
        flesh.set_key(pose)
        flesh.move(1e-6 * away, columns=False)
        moved = np.linalg.norm(flesh.x - flesh.key, axis=1) / 1e-6
        far = AMPLITUDE * REACHES[i % len(REACHES)] * _extent(flesh.key, moved)
        away = away * (far / max(moved.max(), 1e-12))
        flesh.turn(away)
        flesh.move(away, columns=False)
        left = np.zeros((len(flesh.interior), 3))
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
            except SuppleError:  # the key pose or the state is too much for some tet
                continue
            back = (rest.positions - flesh.x)[flesh.interior]
            left = np.einsum("vji,vj->vi", flesh.turns.matrices, back)
        found.append(Snapshot(pose, away, left))
    flesh.turns.reset()
    return found


def _extent(points: Floats, moved: Floats) -> float:
    """Return the size of what moves by a fifth of the most or more: a tail is not its dog."""
    part = points[moved >= 0.2 * moved.max()]
    return float(np.linalg.norm(np.ptp(part, axis=0)))


class _Drawing:
    """Directions of free parameters: what shaking does, and soft ways of the rig, in turn."""

    def __init__(
        self,
        flesh: TurnedFlesh,
        body: ElasticBody,
        condensed: Condensation,
        rng: np.random.Generator,
    ) -> None:
        k = flesh.n_free
        mass, stiffness = condensed.mass[:k, :k], condensed.stiffness[:k, :k]
        # Parameters that do the same are no reason to fail.
        own = np.diag(mass)
        lift = np.diag(1e-6 * own + 1e-12 * own.max())
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
        away: Floats = self._shapes @ ((self._shapes.T @ pull) / self._squares)
        return away


def snapshot_modes(
    snapshots: Sequence[Snapshot], stiffness: Floats, others: Floats, count: int
) -> Floats:
    """(q, 3, m) modes of what condensation misses, by the energy that it takes.

    Parameters
    ----------
    snapshots
        States.
    stiffness
        (3q, 3q) sparse, of the interior at rest.
    others
        (q, 3, e) modes that are there already: only what they leave counts.
    count
        How many at most.
    """
    q = len(others)
    count = min(count, len(snapshots))
    if not (q and count):
        return np.zeros((q, 3, 0))
    left = np.array([each.left.ravel() for each in snapshots]).T
    known = others.reshape(3 * q, -1)
    if known.shape[1]:
        pulled = stiffness @ known
        left = left - known @ np.linalg.lstsq(known.T @ pulled, pulled.T @ left, rcond=None)[0]
    # A snapshot counts by its shape as well as by its size.
    energy = np.sqrt(np.maximum(np.einsum("is,is->s", left, stiffness @ left), 1e-300))
    left = left / np.sqrt(energy * np.median(energy))
    values, vectors = scipy.linalg.eigh(left.T @ (stiffness @ left))
    order = np.argsort(-values)[:count]
    order = order[values[order] > 1e-9 * values.max()]
    modes = left @ vectors[:, order]
    return np.ascontiguousarray(modes / np.linalg.norm(modes, axis=0)).reshape(q, 3, -1)
