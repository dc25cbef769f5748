"""Motions of a body that is shaken: what flesh does when it is thrown about, for bases and forces.

Modes and their derivatives tell how a body moves a little. Flesh that is thrown about bulges and
stiffens, and in a basis of theirs it is too stiff. So the whole body is simulated, at each pose for
a few periods, under accelerations that no motion of a character has a part in: its displacements
are what a basis should hold, and its forces what reduced forces should be.
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

#: Steps of a shaking, and in each period of the flesh: eleven periods. Shapes half as far apart in
#: time are more alike: of the fox's walk a hundred then held 0.79, where these hold 0.84.
STEPS, STEPS_A_PERIOD = 90, 8
#: Keys of the random accelerations in a period: slower and faster than the flesh swings.
KEYS_A_PERIOD = 3
#: Where the flesh would rest under these accelerations, at the median farthest, as a part of the
#: body's size; in motion it comes three times as far. Real characters' do so in wild motion.
REACH = 0.015
#: Part of critical damping, which ends what the start of a shaking excites.
DAMPING = 0.1
#: Newton iterations of a step at most, and the change, as a part of the body's size, that ends
#: them. With one the bull flew apart, and was shaken half as much.
NEWTON, _NEAR = 3, 1e-4
#: How often accelerations are halved if flesh comes farther than this part of the body's size.
_HALVINGS, _FARTHEST = 3, 0.3
#: Fields that move the flesh by less than this part of what others do are made of rounding.
_STILL = 1e-9


class Shaking(NamedTuple):
    """Displacements of a body that was shaken, and its elastic forces there, (n, 3, t) each.

    In single precision: a build keeps those of all poses.
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
    """Simulate the body under random accelerations, none of its surroundings moving.

    They are affine in place, so that limbs may be thrown apart as well as along, and those of a
    rig whose parameters are accelerated, so that a tail may be thrown about by itself; of random
    numbers with splines between. All lengths and times are the body's own: its size, and the
    period by which it sways under its weight.

    Parameters
    ----------
    body, rest
        Body and (n, 3) its rest shape at a pose.
    region
        Vertices that may move.
    moves
        (n, 3, k) ∂Φ/∂p of the rig there, in any units.
    seed
        The same gives the same bits.
    steps
        How many displacements, t.

    Returns
    -------
    None where nothing holds the body, or it cannot be simulated.
    """
    with single_threaded(), at_most_threads(1):
        try:
            stage = _Stage(body, rest, region, moves)
        except (LoosePieceError, SolverError):
            return None
        for halved in range(_HALVINGS + 1):
            try:
                return stage.played(np.random.default_rng([seed, 3]), steps, 0.5**halved)
            except SolverError:
                continue
    return None


class _Stage:
    """The body, the fields by which it is accelerated, and where it would rest under them."""

    def __init__(
        self, body: ElasticBody, rest: Floats, region: Region, moves: Singles | None
    ) -> None:
        self.body, self.rest, self.free = body, rest, region.unknowns
        masses = body.vertex_masses()
        self.masses = np.repeat(masses, 3)
        fields = _affine_fields(rest[region.vertices], masses[region.vertices])
        if moves is not None and moves.size:
            thrown = moves[region.vertices].reshape(len(self.free), -1).astype(np.float64)
            reach = _farthest(thrown)
            fields = np.hstack([fields, thrown[:, reach > 0] / reach[reach > 0]])
        inner = principal_submatrix(body.stiffness(rest, rest), self.free)
        compliance = Compliance(inner, masses[region.vertices])
        if compliance.rigid.shape[1]:
            raise LoosePieceError(region.vertices)
        weight = self.masses[self.free][:, None]
        given_way = compliance(weight * fields)
        fallen = given_way[:, :3]
        # Rayleigh's quotient of the shapes under its own weight: what all of the flesh does, not
        # what its softest tip does.
        work = float((fallen * weight * fields[:, :3]).sum())
        self.pitch = np.sqrt(work / float((weight * fallen**2).sum()))
        # Halfway between fields that are as strong as each other, of which stiff parts of the body
        # would hardly take notice, and fields that bring flesh as far as each other.
        far = _farthest(given_way)
        moving = far > _STILL * far.max()
        self.fields = fields[:, moving] / np.sqrt(far[moving])
        self.given_way = given_way[:, moving] / np.sqrt(far[moving])

    def played(self, random: np.random.Generator, steps: int, part: float) -> Shaking:
        body, n = self.body, len(self.rest)
        h = 2 * np.pi / self.pitch / STEPS_A_PERIOD
        times = np.arange(steps) / STEPS_A_PERIOD
        keys = np.arange(-1, int(times[-1] * KEYS_A_PERIOD) + 3) / KEYS_A_PERIOD
        drawn = random.standard_normal((len(keys), self.fields.shape[1]))
        amounts = CubicSpline(keys, drawn)(times)
        far = float(np.median(_farthest(self.given_way @ amounts.T)))
        amounts *= part * REACH * body.mesh.size / far
        mass = body.mass()
        solver = ImplicitSolver(
            body,
            mass,
            self.free,
            alpha=0.0,
            beta=2 * DAMPING / self.pitch,
            newton=NEWTON,
            tolerance=_NEAR * body.mesh.size,
            psd=False,
        )
        method, external = integrator_named("bdf2"), np.zeros((n, 3))

        def stage(u: Floats, v: Floats, tau: float) -> tuple[Floats, Floats]:
            problem = StageProblem(body, mass, 0.0, u, v, tau, self.rest, external)
            w = solver.solve(problem, at.v + tau * at.a, StepReport())
            return u + tau * w, w

        found = Shaking(*np.empty((2, n, 3, steps), np.float32))
        at = StepStart(*np.zeros((3, n, 3)))
        for k, amount in enumerate(amounts):
            external.reshape(-1)[self.free] = -self.masses[self.free] * (self.fields @ amount)
            u, v, a = method.step(stage, at, h)
            if not np.abs(u).max() < _FARTHEST * body.mesh.size:
                raise SolverError("the shaken body flies apart")
            at = StepStart(u, v, a, (at.u, at.v))
            found.displacements[:, :, k] = u
            found.forces[:, :, k] = body.force(self.rest + u, self.rest)
        return found


def _farthest(fields: Floats) -> Floats:
    """Return the length of the longest vector in each of some fields (3n, k)."""
    return np.linalg.norm(fields.reshape(-1, 3, fields.shape[1]), axis=1).max(axis=0)


def _affine_fields(places: Floats, masses: Floats) -> Floats:
    """Return accelerations (3k, 12): along each axis, and growing along each from the middle."""
    middle = masses @ places / masses.sum()
    away = places - middle
    away /= max(float(np.abs(away).max()), np.finfo(float).tiny)
    one = np.ones((len(places), 1))
    return np.kron(np.hstack([one, away]), np.eye(3))
