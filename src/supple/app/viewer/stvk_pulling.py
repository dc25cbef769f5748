"""Hands that pull at a body in its basis: as strong as the body is stiff there, and no stronger."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from supple.app.viewer.pulling import Patch, patch_around
from supple.reduction.stvk_model import StvkModel

__all__ = ["StvkPull", "grip"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

#: Stiffness of a hand, in times that of the body where it holds: it follows nine tenths of a way.
STRENGTH = 10.0
#: Along what is stiffer it is stiffer, but no more than so many times: a tip that is pulled aside
#: goes in an arc, and would be torn lengthwise.
LOPSIDED = 10.0
#: The hand's force is that of a step ago: the most of k dt²/m, where m is what it moves.
STEADY = 0.25
#: A hand's own damping, of the critical one of what it moves.
CALM = 0.25
#: A force is at most what would move something by this part of the body's size, were it linear.
FARTHEST = 0.4
#: Where it holds what gives way by less than this part of what moves most, it is weaker.
STIFF = 0.1


@dataclass(frozen=True, eq=False)
class StvkPull:
    """One hand.

    Attributes
    ----------
    patch
        What it holds.
    target
        (3,) where it is, in m.
    rest, rows
        (3,), (3, r) where what is held is, along each of the directions in which the body is
        softest and stiffest there: rest + rows q.
    axes
        (3, 3) those directions, as columns.
    stiffness, friction, strongest
        (3,) along each, in N/m, N·s/m and N.
    """

    patch: Patch
    target: Floats
    rest: Floats
    rows: Floats
    axes: Floats
    stiffness: Floats
    friction: Floats
    strongest: Floats

    def force(self, q: Floats, velocity: Floats) -> Floats:
        """(r,) for the body as it is now."""
        way = self.target @ self.axes - self.rest - self.rows @ q
        pull = self.stiffness * way - self.friction * (self.rows @ velocity)
        np.minimum(pull, self.strongest, out=pull)
        np.maximum(pull, -self.strongest, out=pull)
        return np.asarray(pull @ self.rows)

    def place(self, q: Floats) -> Floats:
        """(3,) the middle of what is held, in m."""
        return np.asarray(self.axes @ (self.rest + self.rows @ q))

    def moved(self, target: Floats) -> StvkPull:
        """The same hand elsewhere."""
        return replace(self, target=target)

    def on(self, model: StvkModel, dt: float) -> StvkPull:
        """The same hand on the body changed."""
        return _fitted(model, self.patch, self.target, dt)


def grip(model: StvkModel, skin: Singles, where: Floats, dt: float) -> StvkPull:
    """Take hold of a body near a point.

    Parameters
    ----------
    model
        The body.
    skin
        (n̄, 3) where it is.
    where
        (3,) the point, and where the hand is for now.
    dt
        Seconds of a step.
    """
    return _fitted(model, patch_around(skin, where, model.surface.size), where, dt)


def _fitted(model: StvkModel, patch: Patch, target: Floats, dt: float) -> StvkPull:
    along = np.einsum("k,kir->ir", patch.shares, model.surface_basis[patch.vertices])
    rest = patch.shares @ model.surface.vertices[patch.vertices]
    stiffness = model.stiffness(np.zeros(model.modes))
    gives, axes = np.linalg.eigh(along @ np.linalg.solve(stiffness, along.T))
    rows = axes.T @ along
    # What a newton along each axis moves by most, wherever that is.
    moves = model.surface_basis.reshape(-1, model.modes) @ np.linalg.solve(stiffness, rows.T)
    most = np.sqrt((moves.reshape(-1, 3, 3) ** 2).sum(axis=1).max(axis=0))
    light = float(np.linalg.eigvalsh(rows @ np.linalg.solve(model.mass, rows.T))[-1])
    if not (gives[-1] > 0 and light > 0):  # held fast: there is nothing to pull at
        none = np.zeros(3)
        return StvkPull(patch, target, axes.T @ rest, rows, axes, none, none, none)
    gives, most = (np.maximum(each, 1e-9 * each.max()) for each in (gives, most))
    firm = STRENGTH / np.maximum(gives, gives[-1] / LOPSIDED)
    firm = np.minimum(firm, STEADY / (light * dt**2))
    # A force of a step ago feeds a swing as much as stiffness times dt would damp it.
    friction = firm * dt + 2 * CALM * np.sqrt(firm / light)
    strongest = FARTHEST * model.surface.size / most * np.minimum(1.0, gives / (STIFF * most))
    return StvkPull(patch, target, axes.T @ rest, rows, axes, firm, friction, strongest)
