"""Friction that sticks: springs from where points touched first, no stronger than Coulomb says."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.contact.pressing_tables import Pressing, Things
from supple.engines.soft_skeleton.contact.touches import Touches


@compiled_fused
def pull_back(touches: Touches, things: Things, friction: float, out: Pressing) -> None:
    """Set stiffness and stretch of friction: a spring from the anchor, no stronger than μλ."""
    for c in range(touches.total[0]):
        point, thing = touches.points[c], touches.things[c]
        out.weights[c] = 0.0
        if friction <= 0:
            continue
        turn, shift = things.turns[thing], things.shifts[thing]
        if out.held_by[point] != thing:
            continue
        x = y = 0.0
        for i in range(3):
            stuck = shift[i]
            for k in range(3):
                stuck += turn[i, k] * out.anchors[point, k]
            away = touches.places[c, i] - stuck
            x += away * out.aside[c, 0, i]
            y += away * out.aside[c, 1, i]
        out.slips[c, 0], out.slips[c, 1] = x, y
        stiff = out.grips[c]
        most, far = friction * out.pressed[point], math.sqrt(x * x + y * y)
        out.weights[c] = stiff if stiff * far <= most else most / far


@compiled
def stick(
    touches: Touches,
    things: Things,
    skin: Floats,
    samples: Floats,
    radii: Floats,
    friction: float,
    out: Pressing,
) -> None:
    """Remember how hard points were pressed, and where they stick on what they touch.

    A point that slips drags its anchor along, as far behind as the spring of its friction reaches.

    Parameters
    ----------
    touches, things
        Contacts, and what they touch, where it is at the end of the step.
    skin, samples, radii
        (n̄, 3), (s, 3), (s,) at the end of the step, in the world.
    friction
        Coefficient μ.
    out
        Forces as they were applied; anchors are written.
    """
    n_skin, place, stuck = len(skin), np.empty(3), np.empty(3)
    # What is held no more forgets where it was.
    for k in range(out.holding[0]):
        out.still[out.holding[1 + k]] = False
    for c in range(touches.total[0]):
        out.still[touches.points[c]] = True
    for k in range(out.holding[0]):
        point = out.holding[1 + k]
        if not out.still[point]:
            out.held_by[point] = -1
    out.holding[0] = touches.total[0]
    for c in range(touches.total[0]):
        point, thing, force = touches.points[c], touches.things[c], max(out.forces[c], 0.0)
        out.holding[1 + c] = point
        turn, shift = things.turns[thing], things.shifts[thing]
        for i in range(3):
            if touches.areas[c] > 0:
                place[i] = 0.0
                for corner in range(3):
                    place[i] += touches.shares[c, corner] * skin[touches.corners[c, corner], i]
            else:
                place[i] = samples[point - n_skin, i] - radii[point - n_skin] * touches.ways[c, i]
        if out.held_by[point] == thing and out.weights[c] > 0:
            far = slip = 0.0
            for i in range(3):
                stuck[i] = shift[i]
                for k in range(3):
                    stuck[i] += turn[i, k] * out.anchors[point, k]
            for side in range(2):
                away = 0.0
                for i in range(3):
                    away += (place[i] - stuck[i]) * out.aside[c, side, i]
                far += away * away
            far = math.sqrt(far)
            reach = friction * force / out.grips[c]
            slip = 1.0 - reach / far if far > reach else 0.0
            for i in range(3):
                place[i] = stuck[i] + slip * (place[i] - stuck[i])
        for i in range(3):
            out.anchors[point, i] = 0.0
            for k in range(3):
                out.anchors[point, i] += turn[k, i] * (place[k] - shift[k])
        out.held_by[point], out.pressed[point] = thing, force
