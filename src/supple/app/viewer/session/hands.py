"""Hands: springs from a round patch of the skin to where a pointer is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from supple.anatomy.flesh_presets import flesh_material
from supple.arrays import Floats, Ints, Singles
from supple.engines.stvk.free.simulator import free_moments
from supple.mesh.surface import SurfaceMesh

#: Radius of the patch that a hand takes hold of, as a part of the body's size.
PATCH_RADIUS = 0.04
#: Vertices of the patch; more only cost time.
MOST_VERTICES = 24


class Patch(NamedTuple):
    """Round piece of skin."""

    vertices: Ints
    """(k,) the nearest to where it was taken first."""
    shares: Floats
    """(k,) part of a force that each vertex takes; they add up to 1."""
    radius: float
    """In m."""


def patch_around(skin: Singles, where: Floats, size: float) -> Patch:
    """Return the piece of skin (n̄, 3) nearest to a point (3,), of a body of this size in m."""
    away = np.linalg.norm(skin - where, axis=1)
    radius = PATCH_RADIUS * size
    nearest = int(np.argmin(away))
    around = np.linalg.norm(skin - skin[nearest], axis=1)
    close = np.argsort(around, kind="stable")[:MOST_VERTICES]
    shares = np.clip(1 - (around[close] / radius) ** 2, 0, None) ** 2
    held = shares > 0  # at least the nearest is
    shares = np.asarray(shares[held] / shares[held].sum(), np.float64)
    return Patch(close[held].astype(np.int64), shares, radius)


def _shared(patch: Patch, force: Floats) -> dict[int, Floats]:
    return dict(zip(patch.vertices.tolist(), patch.shares[:, None] * force, strict=True))


def _added(grips: Iterable[dict[int, Floats]]) -> dict[int, Floats]:
    """Return the sum of the forces of several hands, in N by vertex."""
    total: dict[int, Floats] = {}
    for forces in grips:
        for vertex, force in forces.items():
            total[vertex] = total[vertex] + force if vertex in total else force
    return total


# The skin of a character -----------------------------------------------------------------------

#: Longest pull of a hand at flesh, as a part of the body's size.
LONGEST_PULL = 0.3
#: Stiffness of a hand, in times that of the flesh it holds: it wins, but does not tear.
FLESH_STRENGTH = 3.0
#: The hand's force is that of the skin a step ago, so that a stiffer one would feed a swing: the
#: most of k dt² / m, where m is the mass that it holds, and c dt / m, which takes that swing away.
FLESH_STEADY, FLESH_CALM = 0.25, 0.25


@dataclass(eq=False)
class SkinGrip:
    """Hold of a character's flesh: a damped spring, and forces on vertices of the skin.

    Attributes
    ----------
    target
        (3,) place of the hand, in the world.
    stiffness, friction
        In N/m and N s/m.
    longest
        Metres beyond which the force grows no more.
    dt
        Seconds from one call of `forces` to the next.
    before
        (3,) place of the skin at the last, None at first.
    """

    patch: Patch
    target: Floats
    stiffness: float
    longest: float
    friction: float
    dt: float
    before: Floats | None = None

    @classmethod
    def take(cls, model: Any, skin: Singles, where: Floats, dt: float) -> SkinGrip:
        """Take hold of the skin (n̄, 3) near a point (3,), for steps of `dt` seconds.

        The model's own `young` and `density` say how strong the hand is, those of usual flesh
        where it has none.
        """
        size = model.surface.size
        patch, usual = patch_around(skin, where, size), flesh_material(size)
        young, density = (
            float(np.median(getattr(model, name, getattr(usual, name))))
            for name in ("young", "density")
        )
        # A round patch pressed on flesh gives way by F / (2 E a), but for Poisson's ratio.
        stiffness = FLESH_STRENGTH * 2 * young * patch.radius
        mass = density * 2 / 3 * np.pi * patch.radius**3
        steady = min(stiffness, FLESH_STEADY * mass / dt**2)
        return cls(patch, where, steady, LONGEST_PULL * size, FLESH_CALM * mass / dt, dt)

    def forces(self, skin: Singles) -> dict[int, Floats]:
        """Return the forces in N at each vertex that is held, for the skin as it is now."""
        now = self.patch.shares @ skin[self.patch.vertices]
        rate = np.zeros(3) if self.before is None else (now - self.before) / self.dt
        self.before = now
        way = self.target - now
        length = float(np.linalg.norm(way))
        if length > self.longest:
            way *= self.longest / length
        return _shared(self.patch, self.stiffness * way - self.friction * rate)

    @staticmethod
    def total(grips: Iterable[SkinGrip], skin: Singles) -> dict[int, Floats]:
        """Return the forces of several hands, in N by vertex, for the skin as it is now."""
        return _added(grip.forces(skin) for grip in grips)


#: Radius of what a hand takes hold of to move a bone, as a part of the body's size.
BONE_RADIUS = 0.12
#: The most of k dt² / m and c dt / m, where m is the mass of the bone's part of the body: forces
#: of a step ago act on skin that is lighter than all of it.
BONE_STEADY, BONE_CALM = 0.04, 0.04


@dataclass(eq=False)
class BoneGrip(SkinGrip):
    """Hold of a bone by the skin around it, strong enough to move a limb."""

    @classmethod
    def hold(cls, model: Any, owners: Ints, skin: Singles, where: Floats, dt: float) -> BoneGrip:
        """Take hold of the bone below the skin (n̄, 3) near a point (3,).

        Parameters
        ----------
        model
            With a `surface`, and `density` where it is not that of usual flesh.
        owners
            (n̄,) bone that each vertex goes with.
        skin, where, dt
            As for `take`.
        """
        size = model.surface.size
        nearest = int(np.argmin(np.linalg.norm(skin - where, axis=1)))
        own = np.flatnonzero(owners == owners[nearest])
        around = np.linalg.norm(skin[own] - skin[nearest], axis=1)
        shares = np.clip(1 - (around / (BONE_RADIUS * size)) ** 2, 0, None)
        held = shares > 0
        patch = Patch(own[held], np.asarray(shares[held] / shares[held].sum(), float), size)
        usual = flesh_material(size)
        density = float(np.median(np.asarray(getattr(model, "density", usual.density))))
        mass = density * _part_volume(model.surface, owners == owners[nearest])
        stiffness, friction = BONE_STEADY * mass / dt**2, BONE_CALM * mass / dt
        return cls(patch, where, stiffness, LONGEST_PULL * size, friction, dt)


def _part_volume(surface: SurfaceMesh, own: NDArray[np.bool_]) -> float:
    """Return about the volume in m³ below vertices (n̄,) of the skin, which need not close."""
    triangles = surface.triangles[own[surface.triangles].sum(axis=1) >= 2]
    corners = surface.vertices[triangles] - surface.vertices[own].mean(axis=0)
    return max(abs(float(np.linalg.det(corners).sum())) / 6, 1e-9)


# A body in its basis, as strong as the body is stiff where it is held, and no stronger ----------

#: Stiffness of a hand, in times that of the body where it holds: it follows nine tenths of a way.
BODY_STRENGTH = 10.0
#: Along what is stiffer it is stiffer, but no more than so many times: a tip that is pulled aside
#: goes in an arc, and would be torn lengthwise.
LOPSIDED = 10.0
#: The hand's force is that of a step ago: the most of k dt²/m, where m is what it moves.
BODY_STEADY = 0.25
#: A hand's own damping, of the critical one of what it moves.
BODY_CALM = 0.25
#: A force is at most what would move something by this part of the body's size, were it linear.
FARTHEST = 0.4
#: Where it holds what gives way by less than this part of what moves most, it is weaker.
STIFF = 0.1


@dataclass(eq=False)
class BasisGrip:
    """Hold of a body that is fixed somewhere: a damped spring, and forces in the basis.

    Attributes
    ----------
    target
        (3,) place of the hand, in m.
    rest, rows
        (3,), (3, r): along the directions in which the body is softest and stiffest there, the
        patch is at rest + rows q.
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

    @classmethod
    def fit(cls, model: Any, patch: Patch, target: Floats, dt: float) -> BasisGrip:
        """Fit a hand to a body, a `StvkModel`, that is stepped by `dt` seconds."""
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
            return cls(patch, target, axes.T @ rest, rows, axes, none, none, none)
        gives, most = (np.maximum(each, 1e-9 * each.max()) for each in (gives, most))
        firm = BODY_STRENGTH / np.maximum(gives, gives[-1] / LOPSIDED)
        firm = np.minimum(firm, BODY_STEADY / (light * dt**2))
        # A force of a step ago feeds a swing as much as stiffness times dt would damp it.
        friction = firm * dt + 2 * BODY_CALM * np.sqrt(firm / light)
        strongest = FARTHEST * model.surface.size / most * np.minimum(1.0, gives / (STIFF * most))
        return cls(patch, target, axes.T @ rest, rows, axes, firm, friction, strongest)

    def force(self, simulator: Any) -> Floats:
        """Return the reduced force (r,) for the body as it is now."""
        way = self.target @ self.axes - self.rest - self.rows @ simulator.q
        pull = self.stiffness * way - self.friction * (self.rows @ simulator.velocity)
        np.minimum(pull, self.strongest, out=pull)
        np.maximum(pull, -self.strongest, out=pull)
        return np.asarray(pull @ self.rows)

    @staticmethod
    def total(grips: Iterable[BasisGrip], simulator: Any) -> Floats:
        """Return the reduced force (r,) of several hands."""
        return np.sum([grip.force(simulator) for grip in grips], axis=0)


# A body that nothing holds ------------------------------------------------------------------------

#: Quickness with which a hand takes a whole body along: swings in a second, and its part of the
#: critical damping of them. The most of k dt²/m and of c dt/m is as for bodies that are held.
QUICKNESS, FLIGHT_CALM = 1.5, 0.7


@dataclass(eq=False)
class FlightGrip:
    """Hold of a body that nothing fixes; see `BasisGrip`. Force is along the way to the hand.

    Attributes
    ----------
    rest, rows
        (3,), (3, r): in the body's frame the patch is at rest + rows q.
    stiffness, friction, strongest
        In N/m, N·s/m and N.
    """

    patch: Patch
    target: Floats
    rest: Floats
    rows: Floats
    stiffness: float
    friction: float
    strongest: float

    @classmethod
    def fit(cls, model: Any, patch: Patch, target: Floats, dt: float) -> FlightGrip:
        """Fit a hand to a body, a `StvkModel`, that is stepped by `dt` seconds."""
        moments, r = free_moments(model), model.modes
        rows = np.einsum("k,kir->ir", patch.shares, model.surface_basis[patch.vertices])
        rest = patch.shares @ model.surface.vertices[patch.vertices]
        gives = np.linalg.solve(model.stiffness(np.zeros(r)), rows.T)
        moves = model.surface_basis.reshape(-1, r) @ gives
        most = float(np.sqrt((moves**2).reshape(-1, 9).sum(axis=1).max()))
        # What a newton there speeds up: the shape, the whole, and its turning.
        arm = float(np.linalg.norm(rest - moments.centre))
        light = float(np.linalg.eigvalsh(rows @ np.linalg.solve(model.mass, rows.T))[-1])
        light += 1 / moments.mass + arm**2 / float(np.linalg.eigvalsh(moments.inertia_terms[0])[0])
        quick = moments.mass * (2 * np.pi * QUICKNESS) ** 2
        stiffness = min(quick, BODY_STEADY / (light * dt**2))
        friction = 2 * FLIGHT_CALM * float(np.sqrt(stiffness * moments.mass))
        friction = min(friction, BODY_STEADY / (light * dt))
        # It bends nothing by more than this part of the body's size, were it linear.
        strongest = FARTHEST * model.surface.size / max(most, np.finfo(float).tiny)
        return cls(patch, target, rest, rows, stiffness, friction, strongest)

    def force(self, simulator: Any) -> Floats:
        """Return the force (3,) in the world, in N, for the body as it is now."""
        root = simulator.root
        at = root[:3, :3] @ (self.rest + self.rows @ simulator.q) + root[:3, 3]
        moving = root[:3, :3] @ (self.rows @ simulator.velocity) + simulator.linear_velocity
        moving += np.cross(simulator.angular_velocity, at - simulator.centre)
        pull = self.stiffness * (self.target - at) - self.friction * moving
        size = float(np.linalg.norm(pull))
        return pull * (self.strongest / size) if size > self.strongest else pull

    @staticmethod
    def total(grips: Iterable[FlightGrip], simulator: Any) -> dict[int, Floats]:
        """Return the forces of several hands, in N by vertex."""
        return _added(_shared(grip.patch, grip.force(simulator)) for grip in grips)
