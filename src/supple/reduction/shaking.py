"""Snapshots of a body under random accelerations, for bases and cubature.

Modes and their derivatives describe small motions. In large motions flesh bulges and stiffens, and
in a basis of modes and derivatives it is too stiff. So the whole body is simulated at each pose,
for a few periods, under random accelerations that do not depend on any motion of the character: a
basis should represent its displacements, and reduced forces should match its forces.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline

from supple.arrays import Floats, Singles
from supple.compiled.jit import at_most_threads
from supple.dynamics.implicit import ImplicitSolver, StageProblem, StepReport
from supple.dynamics.integrators import StepStart, integrator_named
from supple.elastic.body import ElasticBody
from supple.errors import SolverError
from supple.linalg.blas import single_threaded
from supple.linalg.sparse import principal_submatrix
from supple.reduction.compliance import Compliance, LoosePieceError
from supple.reduction.regions.region import Region

#: Number of steps, and steps per period of the flesh: eleven periods. Snapshots half as far apart
#: are less diverse: for the fox's walk a hundred of them represent 0.79 of the motion, and these
#: 0.84.
STEPS, STEPS_A_PERIOD = 90, 8
#: Keys of the random accelerations per period: slower and faster than the flesh oscillates.
KEYS_A_PERIOD = 3
#: Median over time of the largest static displacement under these accelerations, relative to the
#: body's size; in motion it is three times as large, as for characters in violent motion.
REACH = 0.015
#: Fraction of critical damping, which damps the initial transient.
DAMPING = 0.1
#: Most Newton iterations of a step, and the change, relative to the body's size, that ends them.
#: With one iteration the bull diverged, and its accelerations were halved.
NEWTON, _NEAR = 3, 1e-4
#: Most halvings of the accelerations, and the displacement, relative to the size, that causes one.
_HALVINGS, _FARTHEST = 3, 0.3
#: Relative displacement below which a field is a rounding error.
_STILL = 1e-9


class Shaking(NamedTuple):
    """Displacements and elastic forces of a body under random accelerations, (n, 3, t) each, in
    single precision, as a build stores them for all poses.
    """

    displacements: Singles
    forces: Singles


def shake(
    body: ElasticBody,
    rest: Floats,
    region: Region,
    moves: Singles | None = None,
    *,
    seed: int,
    steps: int = STEPS,
) -> Shaking | None:
    """Simulate `steps` displacements of the region under random accelerations; None if the body is
    free or cannot be simulated. The same seed gives the same result, bit for bit.

    Accelerations are affine in position, so that limbs are accelerated together and apart, and
    accelerations of the rig's parameters (`moves` (n, 3, k), ∂Φ/∂p in any units), so that a tail is
    accelerated alone. Their amplitudes are splines of random numbers. Lengths are relative to the
    body's size, and times to its period under its own weight.
    """
    with single_threaded(), at_most_threads(1):
        try:
            excitation = _Excitation(body, rest, region, moves)
        except (LoosePieceError, SolverError):
            return None
        for halved in range(_HALVINGS + 1):
            try:
                return excitation.simulate(np.random.default_rng([seed, 3]), steps, 0.5**halved)
            except SolverError:
                continue
    return None


class _Excitation:
    """Body, acceleration fields (3k, f) of free vertices, and static displacements under them."""

    def __init__(
        self, body: ElasticBody, rest: Floats, region: Region, moves: Singles | None
    ) -> None:
        self.body, self.rest, self.free = body, rest, region.unknowns
        masses = body.vertex_masses()
        self.masses = np.repeat(masses, 3)
        fields = _affine_fields(rest[region.vertices], masses[region.vertices])
        if moves is not None and moves.size:
            rig_fields = moves[region.vertices].reshape(len(self.free), -1).astype(np.float64)
            reach = _farthest(rig_fields)
            fields = np.hstack([fields, rig_fields[:, reach > 0] / reach[reach > 0]])
        inner = principal_submatrix(body.stiffness(rest, rest), self.free)
        compliance = Compliance(inner, masses[region.vertices])
        if compliance.rigid.shape[1]:
            raise LoosePieceError(region.vertices)
        weight = self.masses[self.free][:, None]
        static = compliance(weight * fields)
        sagging = static[:, :3]
        # Rayleigh's quotient of the shapes under its own weight: an average over all flesh, not
        # the frequency of its softest tip.
        work = float((sagging * weight * fields[:, :3]).sum())
        self.frequency = np.sqrt(work / float((weight * sagging**2).sum()))
        # A compromise between fields of equal strength, to which stiff parts would hardly respond,
        # and fields of equal displacement.
        far = _farthest(static)
        moving = far > _STILL * far.max()
        self.fields = fields[:, moving] / np.sqrt(far[moving])
        self.static = static[:, moving] / np.sqrt(far[moving])

    def simulate(self, random: np.random.Generator, steps: int, part: float) -> Shaking:
        body, n = self.body, len(self.rest)
        h = 2 * np.pi / self.frequency / STEPS_A_PERIOD
        times = np.arange(steps) / STEPS_A_PERIOD
        keys = np.arange(-1, int(times[-1] * KEYS_A_PERIOD) + 3) / KEYS_A_PERIOD
        drawn = random.standard_normal((len(keys), self.fields.shape[1]))
        amounts = CubicSpline(keys, drawn)(times)
        far = float(np.median(_farthest(self.static @ amounts.T)))
        amounts *= part * REACH * body.mesh.size / far
        mass = body.mass()
        solver = ImplicitSolver(
            body,
            mass,
            self.free,
            alpha=0.0,
            beta=2 * DAMPING / self.frequency,
            newton=NEWTON,
            tolerance=_NEAR * body.mesh.size,
            psd=False,
        )
        method, external = integrator_named("bdf2"), np.zeros((n, 3))

        def stage(u: Floats, v: Floats, tau: float) -> tuple[Floats, Floats]:
            problem = StageProblem(body, mass, 0.0, u, v, tau, self.rest, external)
            w = solver.solve(problem, at.v + tau * at.a, StepReport())
            return u + tau * w, w

        snapshots = Shaking(*np.empty((2, n, 3, steps), np.float32))
        at = StepStart(*np.zeros((3, n, 3)))
        for k, amount in enumerate(amounts):
            external.reshape(-1)[self.free] = -self.masses[self.free] * (self.fields @ amount)
            u, v, a = method.step(stage, at, h)
            if not np.abs(u).max() < _FARTHEST * body.mesh.size:
                raise SolverError("the simulation of the body diverges")
            at = StepStart(u, v, a, (at.u, at.v))
            snapshots.displacements[:, :, k] = u
            snapshots.forces[:, :, k] = body.force(self.rest + u, self.rest)
        return snapshots


def _farthest(fields: Floats) -> Floats:
    """Return the length (k,) of the longest vector in each of the fields (3n, k)."""
    return np.linalg.norm(fields.reshape(-1, 3, fields.shape[1]), axis=1).max(axis=0)


def _affine_fields(positions: Floats, masses: Floats) -> Floats:
    """Return accelerations (3k, 12): uniform along each axis, and linear in each coordinate."""
    middle = masses @ positions / masses.sum()
    away = positions - middle
    away /= max(float(np.abs(away).max()), np.finfo(float).tiny)
    one = np.ones((len(positions), 1))
    return np.kron(np.hstack([one, away]), np.eye(3))
