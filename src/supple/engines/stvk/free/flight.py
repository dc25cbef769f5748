"""Kernels that step a free Saint Venant–Kirchhoff body, which flies, rotates and deforms.

x = C + R y(q), y measured from the mass centre; `rigid_integrals` has the kinetic energy.
Lagrange's equations, with P the linear momentum, L the angular momentum about the mass centre in
the world, Ω the angular velocity in the body's frame and p = hᵀΩ + Mv the momentum of q:

    Ṗ = F,   L̇ = torque,   R (IΩ + hv) = L,
    ṗ = ½ Ω·∂I/∂q Ω + Ω·∂h/∂q v − f(q) − D v + Q.

barbic2005 (appendix D) has the basis of a free body. For its rigid motion it refers to Terzopoulos
and Witkin, who couple motion and deformation by the inertial forces of a frame. Here the coupling
is complete: the right side has centrifugal forces and half of the Coriolis forces, ṗ has the other
half and Euler's force (hᵀΩ̇), and I depends on q.

A step changes P and L exactly by the external forces. Deformation is stepped by the trapezoidal
rule (Newmark) or backward Euler in p, and R always by Cayley's map of the mean Ω, so that the
choice of integrator and all damping take energy from deformation alone. Ω follows from L. With
Newmark a step is symmetric in time. Elastic forces are linearised `iterations` times; terms of
rotation, which cost little, are iterated until convergence.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from supple.arrays import Floats, Ints
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.tables import ArgumentTable, table_contents
from supple.engines.stvk.free.turning import (
    ANGULAR,
    CENTRE,
    CHANGE,
    COUPLING,
    HERE,
    LINEAR,
    LOAD,
    LOCAL,
    MEAN,
    MOMENTUM,
    NEW_ANGULAR,
    NEW_LINEAR,
    NEW_OMEGA,
    NEW_TURN,
    OMEGA,
    OMEGA_CHANGE,
    PULL,
    SPEED,
    START_P,
    START_Q,
    TURN,
    TurningArrays,
    into_body,
    into_world,
    newton,
    set_still,
    turned,
)
from supple.engines.stvk.inversion_watch import RESTORED_NOW, watch_inversion
from supple.engines.stvk.stvk_step import MASS, POSITION, VELOCITY, StepArrays, copy_row
from supple.linalg.upper_triangle import packed_times


class FlightArrays(NamedTuple):
    """Arrays for the forces on a body."""

    gravity: Floats  # (3,) in m/s²
    surface_rest: Floats  # (n̄, 3) from the mass centre at rest
    surface_basis: Floats  # (n̄, 3, r)
    drift: Floats  # (3, r) motion of the mass centre with q
    mass: float  # in kg


class FreeArrays(NamedTuple):
    """Arrays that a step reads and writes."""

    acting: FlightArrays  # arrays of forces
    body: StepArrays  # arrays of deformation, with the rows of `turning`
    turning: TurningArrays  # arrays of rotation
    spin: Floats  # (12, 4) the state of the body, and scratch


@compiled_sums
def fly(
    steps: int, forces: Floats, vertices: Ints, trace: Floats, flight: Floats, bound: ArgumentTable
) -> int:
    """Make `steps` steps; return the number made before one diverged.

    A step that diverges leaves the state unchanged, except for `TurningArrays`. `forces` (t, k, 3)
    act on surface vertices (k,), in N in the world; with t = 1 in all steps. `trace` (steps, r) and
    `flight` (steps, 7) receive q, and C and R, after each step, unless they have no rows. `bound`
    are the `FreeArrays` of the body.
    """
    acting, body, turning, spin = table_contents(bound)
    settings, counts, packed, state = body.settings, body.counts, body.packed, body.state
    several = len(forces) > 1
    for step in range(steps):
        force = forces[step] if several else forces[0]
        _act(force, vertices, acting, settings, state, spin)
        _begin(settings, counts, state, spin)
        if not newton(body, turning, spin) or not _finite(state, spin):
            return step
        _accept(settings[1], packed, state, turning.sums, spin)
        _move_centre(settings[0], acting.mass, spin)
        counts[3] += _watch(settings[0], body, turning, spin)
        if len(trace):
            copy_row(state[POSITION], trace[step])
            copy_row(spin[CENTRE, :3], flight[step, :3])
            copy_row(spin[TURN], flight[step, 3:])
    return steps


@compiled_fused
def _watch(h, body, turning, spin):  # type: ignore[no-untyped-def]
    """Restore a body that stays inverted; return whether it is inverted, see `watch_inversion`."""
    state, watch = body.state, body.watch
    rows = state[POSITION], state[VELOCITY], state[CHANGE]
    inverted = watch_inversion(h, state[LOAD], watch, *rows)
    if watch.progress[RESTORED_NOW]:
        set_still(state, turning, spin)
    return inverted


@compiled_fused
def _move_centre(h, mass, spin):  # type: ignore[no-untyped-def]
    """Move C by the mean velocity of the step, exact for a constant force."""
    for k in range(3):
        spin[CENTRE, k] += 0.5 * h / mass * (spin[LINEAR, k] + spin[NEW_LINEAR, k])
        spin[LINEAR, k] = spin[NEW_LINEAR, k]


@compiled_fused
def _act(force, vertices, acting, settings, state, spin):  # type: ignore[no-untyped-def]
    """Write P, L and the start of p after the impulses of forces over h.

    Forces act at the positions of their vertices in the middle of the step, extrapolated with
    constant velocity; arms are from the mass centre.
    """
    gravity, surface_rest, surface_basis, drift, mass = acting
    h, ahead = settings[0], settings[0] - settings[1]
    for k in range(3):
        spin[NEW_LINEAR, k] = spin[LINEAR, k] + h * mass * gravity[k]
        spin[NEW_ANGULAR, k] = spin[ANGULAR, k]
    start, middle, load = state[START_P], state[HERE], state[LOAD]
    for j in range(len(start)):
        load[j] = 0.0
        start[j] = state[MOMENTUM, j] + ahead * state[PULL, j]
        middle[j] = state[POSITION, j] + 0.5 * h * state[VELOCITY, j]
    if len(vertices) == 0:
        return
    turn, local, torque = spin[NEW_TURN], spin[LOCAL], spin[MEAN]
    turned(spin[TURN], spin[OMEGA], 0.5 * h, turn)
    torque[:3] = 0.0
    for number in range(len(vertices)):
        push, vertex = force[number], vertices[number]
        into_body(turn, push, local)
        for k in range(3):
            spin[NEW_LINEAR, k] += h * push[k]
            local[k] *= h
        rest, basis = surface_rest[vertex], surface_basis[vertex]
        x = rest[0] + _arm(basis[0], drift[0], middle)
        y = rest[1] + _arm(basis[1], drift[1], middle)
        z = rest[2] + _arm(basis[2], drift[2], middle)
        torque[0] += y * local[2] - z * local[1]
        torque[1] += z * local[0] - x * local[2]
        torque[2] += x * local[1] - y * local[0]
        for k in range(3):
            row, along, push_k = basis[k], drift[k], local[k]
            for j in range(len(start)):
                part = push_k * (row[j] - along[j])
                start[j] += part
                load[j] += part / h
    into_world(turn, torque, torque)
    for k in range(3):
        spin[NEW_ANGULAR, k] += torque[k]


@compiled_sums
def _arm(row, along, q):  # type: ignore[no-untyped-def]
    total = 0.0
    for j in range(len(q)):
        total += (row[j] - along[j]) * q[j]
    return total


@compiled_fused
def _begin(settings, counts, state, spin):  # type: ignore[no-untyped-def]
    """Begin the step's iterations with the last change of velocity repeated."""
    h, tau, only = settings[0], settings[1], counts[0] == 1
    q, v, w, here = state[POSITION], state[VELOCITY], state[SPEED], state[HERE]
    for i in range(len(q)):
        state[START_Q, i] = q[i] + (h - tau) * v[i]
        w[i] = v[i] + state[CHANGE, i]
        # A single iteration is linearised at the start of the step, as in the papers.
        here[i] = q[i] if only else state[START_Q, i] + tau * w[i]
    for k in range(3):
        spin[NEW_OMEGA, k] = spin[OMEGA, k] + spin[OMEGA_CHANGE, k]


@compiled_sums
def _finite(state, spin):  # type: ignore[no-untyped-def]
    """Return whether the new state is finite."""
    total = 0.0
    for i in range(state.shape[1]):
        total += abs(state[SPEED, i]) + abs(state[HERE, i])
    for k in range(3):
        total += abs(spin[NEW_OMEGA, k]) + abs(spin[NEW_LINEAR, k]) + abs(spin[NEW_TURN, k])
    return math.isfinite(total)


@compiled_sums
def _accept(tau, packed, state, sums, spin):  # type: ignore[no-untyped-def]
    """Copy the new state of a step to the current one."""
    r = state.shape[1]
    omega, momentum = spin[NEW_OMEGA], state[MOMENTUM]
    for k in range(4):
        spin[OMEGA_CHANGE, k] = omega[k] - spin[OMEGA, k]
        spin[OMEGA, k], spin[TURN, k] = omega[k], spin[NEW_TURN, k]
        spin[ANGULAR, k] = spin[NEW_ANGULAR, k]
    momentum[:] = 0.0
    packed_times(packed[MASS], state[SPEED], momentum)
    for j in range(r):
        for k in range(3):
            momentum[j] += sums[COUPLING + k, j] * omega[k]
        state[PULL, j] = (momentum[j] - state[START_P, j]) / tau
        state[CHANGE, j] = state[SPEED, j] - state[VELOCITY, j]
        state[VELOCITY, j], state[POSITION, j] = state[SPEED, j], state[HERE, j]
