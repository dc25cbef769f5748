"""Kernels of a ball in a hand that touches a reduced body: contacts, their forces, the step.

A contact pushes with k δ (1 + χ v), δ its depth and v its closing speed (Hunt and Crossley), and
never pulls; χδ is bounded so that a velocity does not change its sign within a step. Most triangles
within the ball are neighbours of the triangle that supports it. The smallest force with the
required push along each direction is therefore applied (`share_out`): on a plane only the nearest
triangle acts, however fine the mesh is, and between two walls both act. The smallest force is a
continuous function of its data, so that nothing vibrates when contacts change.

Contact is evaluated half a step ahead and acts throughout the step (position Verlet, which adds no
energy). The force is added to the body's acceleration before the step and removed after it, so that
the stored state never includes contact.
"""

from __future__ import annotations

import math

from supple.arrays import Floats
from supple.compiled.jit import compiled_fused, compiled_sums
from supple.compiled.tables import table_contents
from supple.engines.stvk.haptics.sphere_tree import DIRECTION, move, touching
from supple.engines.stvk.stvk_step import ACCELERATION, POSITION, VELOCITY, advance

#: Columns of pushes: required, and applied.
REQUIRED, PUSHED = 0, 1
#: Rows and columns of scratch: a small system, its solution, and which contacts share.
SHARE_SCRATCH = (5, 4)
_SOLUTION, _SHARING = 3, 4
_MOST_MOVES = 200
#: Fraction of the largest required push that counts as zero.
_SETTLED = 1e-10
#: Squared distance below which a direction depends on those of the sharing contacts.
_DEPENDENT = 1e-14

#: Rows of the ball's state.
PLACE, SPEED, HAND, CONTACT, FELT, AHEAD = range(6)
BALL_ROWS = 6
#: Settings: ball, contact, spring between ball and hand, step, gravity.
RADIUS, MASS, STIFFNESS, CLOSING, SPRING, DAMPER, MOST, STEP, SLOWEST, GRAVITY = range(10)
#: Columns of the record of a step: position, contact force, force on the hand, depth.
RECORD_COLUMNS = 10


# Among forces f_i n_i with 0 ≤ f_i ≤ b_i, the sum s that minimises ½|s|² − Σ f_i b_i: along each
# direction it pushes as required, n_i·s = b_i, unless others already do (f_i = 0) or b_i does not
# suffice (f_i = b_i). An active-set method; at most three contacts share at a time.
@compiled_fused
def share_out(places: Floats, pushes: Floats, system: Floats, total: Floats) -> None:
    """Distribute contact forces: `PUSHED` of (c, 2) pushes from `REQUIRED`, and the total (3,).

    `places` has a contact's direction n, a unit vector or zero, from `sphere_tree.touching`;
    `system` is scratch of shape `SHARE_SCRATCH`.
    """
    largest, sharing = 0.0, 0
    total[:] = 0.0
    for i in range(len(pushes)):
        pushes[i, PUSHED] = 0.0
        largest = max(largest, pushes[i, REQUIRED])
    for _ in range(_MOST_MOVES):
        which, worst, sign = -1, _SETTLED * largest, 1.0
        for i in range(len(pushes)):
            required, pushed = pushes[i, REQUIRED], pushes[i, PUSHED]
            lack = required - _dot(places[i, DIRECTION], total)
            if lack > worst and pushed < required:
                which, worst, sign = i, lack, 1.0
            elif -lack > worst and pushed > 0.0:
                which, worst, sign = i, -lack, -1.0
        if which < 0:
            break
        sharing = _change_push(places, pushes, which, sign, sharing, system, total)


@compiled_fused
def _change_push(places, pushes, which, sign, sharing, system, total):  # type: ignore[no-untyped-def]
    """Raise (`sign` 1) or lower (−1) push `which`; return how many contacts share the force."""
    normal, members = places[which, DIRECTION], system[_SHARING]
    while True:
        _solve_sharing(places, normal, sign, sharing, system)
        d = system[_SOLUTION]
        x, y, z = sign * normal[0], sign * normal[1], sign * normal[2]
        for k in range(sharing):
            n = places[int(members[k]), DIRECTION]
            x, y, z = x + d[k] * n[0], y + d[k] * n[1], z + d[k] * n[2]
        rate = x * x + y * y + z * z
        lack = sign * (pushes[which, REQUIRED] - _dot(normal, total))
        pushed, required = pushes[which, PUSHED], pushes[which, REQUIRED]
        step, stopped = required - pushed if sign > 0.0 else pushed, -2
        if rate > _DEPENDENT and lack < step * rate:
            step, stopped = lack / rate, -1
        for k in range(sharing):
            i = int(members[k])
            remaining = pushes[i, PUSHED] if d[k] < 0.0 else pushes[i, REQUIRED] - pushes[i, PUSHED]
            if remaining < step * abs(d[k]):
                step, stopped = remaining / abs(d[k]), k
        pushes[which, PUSHED] = min(max(pushed + sign * step, 0.0), required)
        for k in range(sharing):
            pushes[int(members[k]), PUSHED] += step * d[k]
        total[0], total[1], total[2] = total[0] + step * x, total[1] + step * y, total[2] + step * z
        if stopped == -1:
            members[sharing] = which
            return sharing + 1
        if stopped == -2:
            pushes[which, PUSHED] = required if sign > 0.0 else 0.0
            return sharing
        i = int(members[stopped])  # at a bound: no longer shares
        pushes[i, PUSHED] = 0.0 if d[stopped] < 0.0 else pushes[i, REQUIRED]
        sharing -= 1
        for k in range(stopped, sharing):
            members[k] = members[k + 1]


@compiled_fused
def _solve_sharing(places, normal, sign, sharing, system):  # type: ignore[no-untyped-def]
    """Solve for the changes of the sharing contacts' forces per unit change of one other force.

    With them, the total force along each sharing contact's direction stays constant.
    """
    members, d = system[_SHARING], system[_SOLUTION]
    for k in range(sharing):
        n = places[int(members[k]), DIRECTION]
        for l in range(sharing):
            system[k, l] = _dot(n, places[int(members[l]), DIRECTION])
        d[k] = -sign * _dot(n, normal)
    for k in range(sharing):
        for l in range(k + 1, sharing):
            factor = system[l, k] / system[k, k]
            for m in range(k, sharing):
                system[l, m] -= factor * system[k, m]
            d[l] -= factor * d[k]
    for k in range(sharing - 1, -1, -1):
        for l in range(k + 1, sharing):
            d[k] -= system[k, l] * d[l]
        d[k] /= system[k, k]


@compiled_fused
def _dot(a, b):  # type: ignore[no-untyped-def]
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


@compiled_fused
def haptic_steps(steps, hands, record, ball, settings, tree, scratch, work, forces, trace, body):  # type: ignore[no-untyped-def]
    """Make `steps` steps of ball and body; return the number made before one diverged.

    `hands` (t, 3) are positions of the hand at the ends of the steps, `record` (steps, 10) the
    results; either may have no rows. `ball` (6, 3) has position, velocity, hand (NaN for none),
    contact force, force on the hand, and position half a step ahead. `settings` are radius, mass,
    k, χ, the hand's spring, damper and largest force, h, the bound on χδ in s, and gravity (3).
    `work` has (1, q), (0, q̇), weight of the body, M⁻¹, marks (n,) and speeds (n, 3) of points, (m,
    2) pushes, and scratch of `share_out`. `forces` (1, r) is scratch, and `body` the `bound` arrays
    of a simulator.
    """
    force, state = forces[0], table_contents(body).state
    weight, inverse_mass = work[2], work[3]
    for step in range(steps):
        deepest = _contact(ball, settings, tree, scratch, work, force, state)
        _accelerate(inverse_mass, 1.0, force, state[ACCELERATION])
        for i in range(len(force)):
            force[i] += weight[i]
        if advance(1, forces, trace, body) != 1:
            return step
        for i in range(len(force)):
            force[i] -= weight[i]
        _accelerate(inverse_mass, -1.0, force, state[ACCELERATION])
        row = min(step, len(hands) - 1)
        if not _move_ball(hands, row, ball, settings):
            return step
        if len(record):
            out = record[step]
            for c in range(3):
                out[c], out[3 + c], out[6 + c] = ball[PLACE, c], ball[CONTACT, c], ball[FELT, c]
            out[9] = deepest
    return steps


@compiled_fused
def _contact(ball, settings, tree, scratch, work, force, state):  # type: ignore[no-untyped-def]
    """Compute contact forces on the ball and, reduced, on the body; return the depth in m."""
    points, triangles = tree[0], tree[1]
    _, _, _, triangle_numbers, places, counters = scratch
    factors, rates, _, _, rate_marks, speeds, pushes, system = work
    half = 0.5 * settings[STEP]
    for i in range(len(force)):
        rates[1 + i] = state[VELOCITY, i]
        factors[1 + i] = state[POSITION, i] + half * state[VELOCITY, i]
        force[i] = 0.0
    for c in range(3):
        ball[AHEAD, c] = ball[PLACE, c] + half * ball[SPEED, c]
    count = touching(tree, factors, ball[AHEAD], settings[RADIUS], scratch)
    deepest = 0.0
    for i in range(count):
        where, depth = places[i], settings[RADIUS] - places[i, 3]
        closing = 0.0
        for corner in range(3):
            vertex = triangles[triangle_numbers[i], corner]
            move(points, rates, vertex, counters[2], rate_marks, speeds)
            speed = speeds[vertex]
            for c in range(3):
                closing += where[corner] * (speed[c] - ball[SPEED, c]) * where[4 + c]
        slowing = min(settings[CLOSING] * depth, settings[SLOWEST])
        pushes[i, REQUIRED] = max(0.0, depth + slowing * closing)
        deepest = max(deepest, depth)
    share_out(places[:count], pushes[:count], system, ball[CONTACT])
    k = settings[STIFFNESS]
    for c in range(3):
        ball[CONTACT, c] *= k
    for i in range(count):
        if pushes[i, PUSHED] > 0.0:
            _react(points, triangles[triangle_numbers[i]], places[i], -k * pushes[i, PUSHED], force)
    return deepest


@compiled_sums
def _accelerate(inverse_mass, sign, force, out):  # type: ignore[no-untyped-def]
    """Add M⁻¹ f times `sign` to `out` (r,)."""
    for i in range(len(out)):
        row, total = inverse_mass[i], 0.0
        for j in range(len(force)):
            total += row[j] * force[j]
        out[i] += sign * total


@compiled_sums
def _react(points, corners, where, push, force):  # type: ignore[no-untyped-def]
    """Add a push along a contact's direction to the body's reduced forces."""
    for corner in range(3):
        rows, weight = points[corners[corner]], push * where[corner]
        x, y, z = weight * where[4], weight * where[5], weight * where[6]
        first, second, third = rows[0, 1:], rows[1, 1:], rows[2, 1:]
        for j in range(len(force)):
            force[j] += x * first[j] + y * second[j] + z * third[j]


@compiled_fused
def _move_ball(hands, row, ball, settings):  # type: ignore[no-untyped-def]
    """Step the ball, with the hand's spring implicit; return False if not finite."""
    h, mass, spring, damper = settings[STEP], settings[MASS], settings[SPRING], settings[DAMPER]
    held = row >= 0
    pull = 0.0
    for c in range(3):
        hand = hands[row, c] if held else math.nan
        before = ball[HAND, c]
        follow = 0.0 if math.isnan(before) else (hand - before) / h
        free = ball[SPEED, c] + h * (ball[CONTACT, c] / mass + settings[GRAVITY + c])
        ball[FELT, c], ball[HAND, c] = 0.0, hand
        if held:
            end = ball[PLACE, c] + 0.5 * h * (ball[SPEED, c] + free)
            stretch = spring * (hand - end) + damper * (follow - free)
            ball[FELT, c] = -stretch / (1.0 + h * (damper + 0.5 * h * spring) / mass)
        pull += ball[FELT, c] ** 2
    pull = math.sqrt(pull)
    scale = settings[MOST] / pull if pull > settings[MOST] else 1.0
    total = 0.0
    for c in range(3):
        ball[FELT, c] *= scale  # bounded on the ball as well
        push = ball[CONTACT, c] - ball[FELT, c]
        before = ball[SPEED, c]
        ball[SPEED, c] += h * (push / mass + settings[GRAVITY + c])
        ball[PLACE, c] += 0.5 * h * (before + ball[SPEED, c])
        total += abs(ball[SPEED, c]) + abs(ball[PLACE, c])
    return math.isfinite(total)
