"""Static friction: springs from anchors, with forces bounded by Coulomb's law."""

from __future__ import annotations

import math

import numpy as np

from supple.arrays import Floats
from supple.compiled.jit import compiled, compiled_fused
from supple.engines.soft_skeleton.contact.tables import (
    Colliders,
    ContactSet,
    ContactSystem,
    ObjectSamples,
)


@compiled_fused
def write_friction_springs(
    contacts: ContactSet, colliders: Colliders, friction: float, system: ContactSystem
) -> None:
    """Write stiffness and elongation of the friction springs; forces are at most μλ."""
    for c in range(contacts.total[0]):
        point, collider = contacts.points[c], contacts.colliders[c]
        system.weights[c] = 0.0
        if friction <= 0:
            continue
        rotation, translation = colliders.rotations[collider], colliders.translations[collider]
        if system.anchor_colliders[point] != collider:
            continue
        x = y = 0.0
        for i in range(3):
            anchor = translation[i]
            for k in range(3):
                anchor += rotation[i, k] * system.anchors[point, k]
            away = contacts.positions[c, i] - anchor
            x += away * system.tangents[c, 0, i]
            y += away * system.tangents[c, 1, i]
        system.offsets[c, 0], system.offsets[c, 1] = x, y
        stiff = system.stiffness[c]
        limit, far = friction * system.normal_forces[point], math.sqrt(x * x + y * y)
        system.weights[c] = stiff if stiff * far <= limit else limit / far


@compiled
def update_anchors(
    contacts: ContactSet,
    colliders: Colliders,
    skin: Floats,
    samples: ObjectSamples,
    friction: float,
    system: ContactSystem,
) -> None:
    """Store the normal forces of points, and their friction anchors on the colliders.

    A sliding point drags its anchor behind, at the distance where the spring reaches μλ. Colliders,
    skin (n̄, 3) and samples of objects are in the world, at the end of the step.
    """
    n_skin, place, anchor = len(skin), np.empty(3), np.empty(3)
    # Points that lost contact lose their anchors.
    for k in range(system.anchored[0]):
        system.in_contact[system.anchored[1 + k]] = False
    for c in range(contacts.total[0]):
        system.in_contact[contacts.points[c]] = True
    for k in range(system.anchored[0]):
        point = system.anchored[1 + k]
        if not system.in_contact[point]:
            system.anchor_colliders[point] = -1
    system.anchored[0] = contacts.total[0]
    for c in range(contacts.total[0]):
        point, collider = contacts.points[c], contacts.colliders[c]
        force = max(system.forces[c], 0.0)
        system.anchored[1 + c] = point
        rotation, translation = colliders.rotations[collider], colliders.translations[collider]
        for i in range(3):
            if contacts.areas[c] > 0:
                place[i] = 0.0
                for corner in range(3):
                    v = contacts.corners[c, corner]
                    place[i] += contacts.barycentric[c, corner] * skin[v, i]
            else:
                s = point - n_skin
                place[i] = samples.centres[s, i] - samples.radii[s] * contacts.normals[c, i]
        if system.anchor_colliders[point] == collider and system.weights[c] > 0:
            far = slip = 0.0
            for i in range(3):
                anchor[i] = translation[i]
                for k in range(3):
                    anchor[i] += rotation[i, k] * system.anchors[point, k]
            for side in range(2):
                away = 0.0
                for i in range(3):
                    away += (place[i] - anchor[i]) * system.tangents[c, side, i]
                far += away * away
            far = math.sqrt(far)
            reach = friction * force / system.stiffness[c]
            slip = 1.0 - reach / far if far > reach else 0.0
            for i in range(3):
                place[i] = anchor[i] + slip * (place[i] - anchor[i])
        for i in range(3):
            system.anchors[point, i] = 0.0
            for k in range(3):
                system.anchors[point, i] += rotation[k, i] * (place[k] - translation[k])
        system.anchor_colliders[point], system.normal_forces[point] = collider, force
