"""Grips: springs from a round patch of the skin to the position of a hand (a pointer)."""

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

#: Radius of a patch, relative to the body's size.
PATCH_RADIUS = 0.04
#: Most vertices of a patch.
MOST_VERTICES = 24


class Patch(NamedTuple):
    """Round patch of skin."""

    vertices: Ints  # (k,), the nearest to the grip point first
    shares: Floats  # (k,) fraction of a force on each vertex; their sum is 1
    radius: float  # in m


def patch_around(skin: Singles, where: Floats, size: float) -> Patch:
    """Return the patch of skin (n̄, 3) nearest to a point (3,), for a body of this size in m."""
    distance = np.linalg.norm(skin - where, axis=1)
    radius = PATCH_RADIUS * size
    nearest = int(np.argmin(distance))
    around = np.linalg.norm(skin - skin[nearest], axis=1)
    close = np.argsort(around, kind="stable")[:MOST_VERTICES]
    shares = np.clip(1 - (around[close] / radius) ** 2, 0, None) ** 2
    inside = shares > 0  # at least the nearest vertex
    shares = np.asarray(shares[inside] / shares[inside].sum(), np.float64)
    return Patch(close[inside].astype(np.int64), shares, radius)


def _shared(patch: Patch, force: Floats) -> dict[int, Floats]:
    return dict(zip(patch.vertices.tolist(), patch.shares[:, None] * force, strict=True))


def _added(grips: Iterable[dict[int, Floats]]) -> dict[int, Floats]:
    """Return the sum of the forces of several grips, in N by vertex."""
    total: dict[int, Floats] = {}
    for forces in grips:
        for vertex, force in forces.items():
            total[vertex] = total[vertex] + force if vertex in total else force
    return total


# The skin of a character -----------------------------------------------------------------------

#: Distance beyond which the force on flesh no longer grows, relative to the body's size.
LONGEST_PULL = 0.3
#: Stiffness of a grip, relative to that of the gripped flesh.
FLESH_STRENGTH = 3.0
#: Upper bounds of k dt²/m and c dt/m, where m is the gripped mass. The force is explicit (it uses
#: the skin of the previous step), so a stiffer spring would be unstable.
FLESH_STEADY, FLESH_CALM = 0.25, 0.25


@dataclass(eq=False)
class SkinGrip:
    """Grip of a character's flesh: a damped spring, and forces on vertices of the skin."""

    patch: Patch
    target: Floats  # (3,) position of the hand, in the world
    stiffness: float  # in N/m
    longest: float  # distance in m beyond which the force no longer grows
    friction: float  # in N·s/m
    dt: float  # seconds between two calls of `forces`
    before: Floats | None = None  # (3,) position of the patch at the previous call

    @classmethod
    def take(cls, model: Any, skin: Singles, where: Floats, dt: float) -> SkinGrip:
        """Grip the skin (n̄, 3) near a point (3,), for steps of `dt` seconds.

        The spring depends on the model's `young` and `density`, or else on those of default flesh.
        """
        size = model.surface.size
        patch, usual = patch_around(skin, where, size), flesh_material(size)
        young, density = (
            float(np.median(getattr(model, name, getattr(usual, name))))
            for name in ("young", "density")
        )
        # A round patch pressed on flesh moves by F / (2 E a), up to a factor of Poisson's ratio.
        stiffness = FLESH_STRENGTH * 2 * young * patch.radius
        mass = density * 2 / 3 * np.pi * patch.radius**3
        steady = min(stiffness, FLESH_STEADY * mass / dt**2)
        return cls(patch, where, steady, LONGEST_PULL * size, FLESH_CALM * mass / dt, dt)

    def forces(self, skin: Singles) -> dict[int, Floats]:
        """Return the forces in N by vertex, for the current skin."""
        now = self.patch.shares @ skin[self.patch.vertices]
        rate = np.zeros(3) if self.before is None else (now - self.before) / self.dt
        self.before = now
        offset = self.target - now
        length = float(np.linalg.norm(offset))
        if length > self.longest:
            offset *= self.longest / length
        return _shared(self.patch, self.stiffness * offset - self.friction * rate)

    @staticmethod
    def total(grips: Iterable[SkinGrip], skin: Singles) -> dict[int, Floats]:
        """Return the forces of several grips, in N by vertex, for the current skin."""
        return _added(grip.forces(skin) for grip in grips)


#: Radius of the patch of a grip of a bone, relative to the body's size.
BONE_RADIUS = 0.12
#: Upper bounds of k dt²/m and c dt/m, where m is the mass of the bone's part of the body. The
#: explicit forces act on skin that is much lighter.
BONE_STEADY, BONE_CALM = 0.04, 0.04


@dataclass(eq=False)
class BoneGrip(SkinGrip):
    """Grip of a bone by the skin around it, strong enough to move a limb."""

    @classmethod
    def hold(cls, model: Any, owners: Ints, skin: Singles, where: Floats, dt: float) -> BoneGrip:
        """Grip the bone below the skin (n̄, 3) near a point (3,).

        `owners` (n̄,) is the bone of each vertex. If the model has no `density`, the density of
        default flesh is used.
        """
        size = model.surface.size
        nearest = int(np.argmin(np.linalg.norm(skin - where, axis=1)))
        part = np.flatnonzero(owners == owners[nearest])
        around = np.linalg.norm(skin[part] - skin[nearest], axis=1)
        shares = np.clip(1 - (around / (BONE_RADIUS * size)) ** 2, 0, None)
        inside = shares > 0
        shares = np.asarray(shares[inside] / shares[inside].sum(), float)
        patch = Patch(part[inside], shares, size)
        usual = flesh_material(size)
        density = float(np.median(np.asarray(getattr(model, "density", usual.density))))
        mass = density * _part_volume(model.surface, owners == owners[nearest])
        stiffness, friction = BONE_STEADY * mass / dt**2, BONE_CALM * mass / dt
        return cls(patch, where, stiffness, LONGEST_PULL * size, friction, dt)


def _part_volume(surface: SurfaceMesh, part: NDArray[np.bool_]) -> float:
    """Return the approximate volume in m³ of a part (n̄,) of the skin, which may be open."""
    triangles = surface.triangles[part[surface.triangles].sum(axis=1) >= 2]
    corners = surface.vertices[triangles] - surface.vertices[part].mean(axis=0)
    return max(abs(float(np.linalg.det(corners).sum())) / 6, 1e-9)


# A fixed body in its basis ----------------------------------------------------------------------

#: Stiffness of a grip relative to the body's at the patch: it covers about 9/10 of the distance.
BODY_STRENGTH = 10.0
#: Largest ratio of a grip's stiffnesses along its axes: a tip pulled sideways moves in an arc, and
#: must be able to yield lengthwise.
LOPSIDED = 10.0
#: Upper bound of k dt²/m, where m is the effective mass; the force is explicit.
BODY_STEADY = 0.25
#: Damping ratio of a grip with the effective mass.
BODY_CALM = 0.25
#: Largest displacement by a force in the linear model, relative to the body's size.
FARTHEST = 0.4
#: Compliance relative to the largest one below which the grip becomes weaker.
STIFF = 0.1


@dataclass(eq=False)
class BasisGrip:
    """Grip of a body that is fixed somewhere: a damped spring, and forces in the basis.

    Coordinates of the patch along `axes` are rest + rows q.
    """

    patch: Patch
    target: Floats  # (3,) position of the hand, in m
    rest: Floats  # (3,)
    rows: Floats  # (3, r)
    axes: Floats  # (3, 3) principal axes of the compliance at the patch, as columns
    stiffness: Floats  # (3,) along the axes, in N/m
    friction: Floats  # (3,) in N·s/m
    strongest: Floats  # (3,) in N

    @classmethod
    def fit(cls, model: Any, patch: Patch, target: Floats, dt: float) -> BasisGrip:
        """Fit a grip to a body, a `StvkModel`, for steps of `dt` seconds."""
        along = np.einsum("k,kir->ir", patch.shares, model.surface_basis[patch.vertices])
        rest = patch.shares @ model.surface.vertices[patch.vertices]
        stiffness = model.stiffness(np.zeros(model.modes))
        gives, axes = np.linalg.eigh(along @ np.linalg.solve(stiffness, along.T))
        rows = axes.T @ along
        # Largest displacement anywhere by 1 N along each axis.
        moves = model.surface_basis.reshape(-1, model.modes) @ np.linalg.solve(stiffness, rows.T)
        reach = np.sqrt((moves.reshape(-1, 3, 3) ** 2).sum(axis=1).max(axis=0))
        light = float(np.linalg.eigvalsh(rows @ np.linalg.solve(model.mass, rows.T))[-1])
        if not (gives[-1] > 0 and light > 0):  # the patch cannot move
            none = np.zeros(3)
            return cls(patch, target, axes.T @ rest, rows, axes, none, none, none)
        gives, reach = (np.maximum(each, 1e-9 * each.max()) for each in (gives, reach))
        firm = BODY_STRENGTH / np.maximum(gives, gives[-1] / LOPSIDED)
        firm = np.minimum(firm, BODY_STEADY / (light * dt**2))
        # The explicit force adds energy, which friction k dt removes.
        friction = firm * dt + 2 * BODY_CALM * np.sqrt(firm / light)
        strongest = FARTHEST * model.surface.size / reach * np.minimum(1.0, gives / (STIFF * reach))
        return cls(patch, target, axes.T @ rest, rows, axes, firm, friction, strongest)

    def force(self, simulator: Any) -> Floats:
        """Return the reduced force (r,) for the current state."""
        offset = self.target @ self.axes - self.rest - self.rows @ simulator.q
        pull = self.stiffness * offset - self.friction * (self.rows @ simulator.velocity)
        np.minimum(pull, self.strongest, out=pull)
        np.maximum(pull, -self.strongest, out=pull)
        return np.asarray(pull @ self.rows)

    @staticmethod
    def total(grips: Iterable[BasisGrip], simulator: Any) -> Floats:
        """Return the reduced force (r,) of several grips."""
        return np.sum([grip.force(simulator) for grip in grips], axis=0)


# A free body ------------------------------------------------------------------------------------

#: Frequency in Hz and damping ratio of a whole body on the grip's spring. The upper bounds of
#: k dt²/m and c dt/m are as for fixed bodies.
FREQUENCY, FLIGHT_CALM = 1.5, 0.7


@dataclass(eq=False)
class FlightGrip:
    """Grip of a free body; see `BasisGrip`. The force points towards the hand.

    The position of the patch in the body's frame is rest + rows q.
    """

    patch: Patch
    target: Floats  # (3,)
    rest: Floats  # (3,)
    rows: Floats  # (3, r)
    stiffness: float  # in N/m
    friction: float  # in N·s/m
    strongest: float  # in N

    @classmethod
    def fit(cls, model: Any, patch: Patch, target: Floats, dt: float) -> FlightGrip:
        """Fit a grip to a body, a `StvkModel`, for steps of `dt` seconds."""
        moments, r = free_moments(model), model.modes
        rows = np.einsum("k,kir->ir", patch.shares, model.surface_basis[patch.vertices])
        rest = patch.shares @ model.surface.vertices[patch.vertices]
        gives = np.linalg.solve(model.stiffness(np.zeros(r)), rows.T)
        moves = model.surface_basis.reshape(-1, r) @ gives
        reach = float(np.sqrt((moves**2).reshape(-1, 9).sum(axis=1).max()))
        # Inverse effective mass of the patch: by deformation, translation and rotation.
        arm = float(np.linalg.norm(rest - moments.centre))
        light = float(np.linalg.eigvalsh(rows @ np.linalg.solve(model.mass, rows.T))[-1])
        light += 1 / moments.mass + arm**2 / float(np.linalg.eigvalsh(moments.inertia_terms[0])[0])
        quick = moments.mass * (2 * np.pi * FREQUENCY) ** 2
        stiffness = min(quick, BODY_STEADY / (light * dt**2))
        friction = 2 * FLIGHT_CALM * float(np.sqrt(stiffness * moments.mass))
        friction = min(friction, BODY_STEADY / (light * dt))
        strongest = FARTHEST * model.surface.size / max(reach, np.finfo(float).tiny)
        return cls(patch, target, rest, rows, stiffness, friction, strongest)

    def force(self, simulator: Any) -> Floats:
        """Return the force (3,) in the world, in N, for the current state."""
        root = simulator.root
        at = root[:3, :3] @ (self.rest + self.rows @ simulator.q) + root[:3, 3]
        moving = root[:3, :3] @ (self.rows @ simulator.velocity) + simulator.linear_velocity
        moving += np.cross(simulator.angular_velocity, at - simulator.centre)
        pull = self.stiffness * (self.target - at) - self.friction * moving
        size = float(np.linalg.norm(pull))
        return pull * (self.strongest / size) if size > self.strongest else pull

    @staticmethod
    def total(grips: Iterable[FlightGrip], simulator: Any) -> dict[int, Floats]:
        """Return the forces of several grips, in N by vertex."""
        return _added(_shared(grip.patch, grip.force(simulator)) for grip in grips)
