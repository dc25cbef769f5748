"""Snapshots of a body under random accelerations, for bases and cubature.

Modes and their derivatives describe small motions. In large motions flesh bulges and stiffens, and
in a basis of modes and derivatives it is too stiff. So the whole body is simulated at each pose,
for a few periods, under random accelerations, and under those of the character's own motions, if
any: a basis should represent its displacements, and reduced forces should match its forces.
"""

from __future__ import annotations

from collections.abc import Callable
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
#: Step in s under the accelerations of motions, and number of steps of a part of a motion.
MOTION_STEP, MOTION_STEPS = 1 / 60, 30
#: Relative displacement below which a field is a rounding error.
_STILL = 1e-9


class Shaking(NamedTuple):
    """Displacements and elastic forces of a body under accelerations, (n, 3, t) each, in single
    precision, as a build stores them for all poses; and factors (t,) on displacements by which
    random accelerations and motions contribute equally to a basis.
    """

    displacements: Singles
    forces: Singles
    factors: Floats


def shake(
    body: ElasticBody,
    rest: Floats,
    region: Region,
    moves: Singles | None = None,
    loads: Singles | None = None,
    *,
    seed: int,
    steps: int = STEPS,
) -> Shaking | None:
    """Simulate `steps` steps of the region under random accelerations, and t steps under `loads`.

    `loads` (n, 3, t) are accelerations at intervals of `MOTION_STEP`, in parts of `MOTION_STEPS`
    that each start from rest. Accelerations are halved while the simulation diverges; loads that
    are still too violent are left out. Return None if the body is free or cannot be simulated. The
    same seed gives the same result, bit for bit.

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
        random = np.random.default_rng([seed, 3]).standard_normal
        drawn = random((excitation.key_count(steps), excitation.fields.shape[1]))
        shaking = _halving(lambda part: excitation.simulate(drawn, steps, part))
        if shaking is None or loads is None or not loads.size:
            return shaking
        played = _halving(lambda part: excitation.play(loads, part))
        return shaking if played is None else _mixed(shaking, played)


def _halving(simulate: Callable[[float], Shaking]) -> Shaking | None:
    """Return a simulation with a factor on accelerations, halved until none of it diverges."""
    for halved in range(_HALVINGS + 1):
        try:
            return simulate(0.5**halved)
        except SolverError:
            continue
    return None


def _mixed(first: Shaking, second: Shaking) -> Shaking:
    """Return the steps of both, such that the last third of all is the last third of each."""
    a, b = len(first.factors), len(second.factors)
    i, j = -(-2 * a // 3), 2 * b // 3
    order = np.r_[0:i, a : a + j, i:a, a + j : a + b]
    sums = [np.square(each[0], dtype=np.float64).sum() for each in (first, second)]
    factor = np.sqrt(sums[0] / sums[1]) if sums[1] > 0 else 0.0
    displacements, forces = (
        np.concatenate(pair, axis=-1)[..., order]
        for pair in zip(first[:2], second[:2], strict=True)
    )
    factors = np.append(first.factors, factor * second.factors)[order]
    return Shaking(displacements, forces, factors)


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

    def key_count(self, steps: int) -> int:
        """Return the number of keys of the random accelerations for a number of steps."""
        return int((steps - 1) / STEPS_A_PERIOD * KEYS_A_PERIOD) + 4

    def simulate(self, drawn: Floats, steps: int, part: float) -> Shaking:
        """Simulate `steps` steps under random accelerations, scaled by `part`.

        The amplitude of each field is a spline through the numbers `drawn` (keys, f).
        """
        times = np.arange(steps) / STEPS_A_PERIOD
        keys = np.arange(-1, len(drawn) - 1) / KEYS_A_PERIOD
        amounts = CubicSpline(keys, drawn)(times)
        far = float(np.median(_farthest(self.static @ amounts.T)))
        amounts *= part * REACH * self.body.mesh.size / far
        h = 2 * np.pi / self.frequency / STEPS_A_PERIOD
        return self._simulated(h, steps, lambda k: self.fields @ amounts[k])

    def play(self, loads: Singles, part: float) -> Shaking:
        """Simulate each part of the motions, with accelerations `part` · `loads` (n, 3, t)."""
        accelerations = part * loads.reshape(-1, loads.shape[2])[self.free].astype(np.float64)
        shakings = []
        for start in range(0, loads.shape[2], MOTION_STEPS):
            piece = accelerations[:, start : start + MOTION_STEPS]
            shakings.append(self._simulated(MOTION_STEP, piece.shape[1], piece.T.__getitem__))
        return Shaking(*(np.concatenate(each, axis=-1) for each in zip(*shakings, strict=True)))

    def _simulated(self, h: float, steps: int, acceleration: Callable[[int], Floats]) -> Shaking:
        """Simulate steps of h s from rest; `acceleration` of a step returns (f,)."""
        body, n, mass = self.body, len(self.rest), self.body.mass()
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

        displacements, forces = np.empty((2, n, 3, steps), np.float32)
        at = StepStart(*np.zeros((3, n, 3)))
        for k in range(steps):
            external.reshape(-1)[self.free] = -self.masses[self.free] * acceleration(k)
            u, v, a = method.step(stage, at, h)
            if not np.abs(u).max() < _FARTHEST * body.mesh.size:
                raise SolverError("the simulation of the body diverges")
            at = StepStart(u, v, a, (at.u, at.v))
            displacements[:, :, k] = u
            forces[:, :, k] = body.force(self.rest + u, self.rest)
        return Shaking(displacements, forces, np.ones(steps))


def _farthest(fields: Floats) -> Floats:
    """Return the length (k,) of the longest vector in each of the fields (3n, k)."""
    return np.linalg.norm(fields.reshape(-1, 3, fields.shape[1]), axis=1).max(axis=0)


def _affine_fields(positions: Floats, masses: Floats) -> Floats:
    """Return accelerations (3k, 12): uniform along each axis, and linear in each coordinate."""
    middle = masses @ positions / masses.sum()
    centred = positions - middle
    centred /= max(float(np.abs(centred).max()), np.finfo(float).tiny)
    one = np.ones((len(positions), 1))
    return np.kron(np.hstack([one, centred]), np.eye(3))
